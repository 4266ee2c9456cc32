"""A task process with a Spark session, shared by all tests of the room."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from tidegate.spark_bridge.java import require_java
from tidegate.spark_bridge.session import SparkSettings

WAIT_S = 60


class Process:
    """As a task actor: asynchronous, with the work on a thread."""

    async def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(None, function, *arguments)


@dataclass
class SparkProcess:
    """An actor process, the settings for a session in it, and Java processes seen in it so far."""

    actor: Any
    settings: SparkSettings
    free_cpus: float

    def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        import ray

        return ray.get(self.actor.run.remote(function, *arguments), timeout=150)


@pytest.fixture(name="java_processes", scope="session")
def _java_processes() -> Callable[[], list[psutil.Process]]:
    return java_processes


def java_processes() -> list[psutil.Process]:
    """Java processes below this one: Ray's daemons, workers and what they start are."""
    below = psutil.Process().children(recursive=True)
    return [process for process in below if _name(process) == "java"]


def _name(process: psutil.Process) -> str:
    try:
        return str(process.name())
    except psutil.NoSuchProcess:
        return ""


@pytest.fixture(scope="session")
def spark_process(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The actor takes every CPU that is free, as the slots of a job may."""
    # Ray's Java workers take `java` from the PATH that Ray was started with.
    before = {name: os.environ.get(name) for name in ("JAVA_HOME", "PATH")}
    require_java().use()
    request.getfixturevalue("ray_cluster")
    import ray

    cpus = ray.available_resources().get("CPU", 0.0)
    actor = ray.remote(num_cpus=cpus)(Process).remote()
    log_dir: Path = tmp_path_factory.mktemp("spark")
    process = SparkProcess(actor, SparkSettings(executor_memory="512m", log_dir=str(log_dir)), 0.0)
    process.run(os.getpid)
    process.free_cpus = ray.available_resources().get("CPU", 0.0)
    seen: list[psutil.Process] = []
    try:
        yield process
        seen = java_processes()
    finally:
        ray.kill(actor)
        _gone, alive = psutil.wait_procs(seen, timeout=WAIT_S)
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
    assert alive == []
