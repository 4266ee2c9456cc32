"""A Ray that runs before the clock of a job starts, as a cluster does."""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from . import launch
from .peers.measure import leave_mark
from .processes import ProcessTree
from .systems import ROOT

START_LIMIT_S = 120.0
# Of the processes that Ray keeps ready; where it keeps fewer, the time is waited for.
READY_LIMIT_S = 30.0
# Wide enough for the jobs of the harness on a machine with fewer cores.
CPUS = 8


@dataclass(frozen=True)
class RunningRay:
    """The process that holds it, and the environment variables with which a job finds it."""

    pid: int
    variables: dict[str, str]


@contextlib.contextmanager
def running_ray(folder: Path) -> Iterator[RunningRay]:
    """A Ray of its own; everything of it, jobs' actors too, is ended at the end.

    Args:
        folder: for its mark and its log.

    Raises:
        launch.RunError: it did not come up.
    """
    mark, log = folder / "marks" / "ray.json", folder / "ray.txt"
    command = [sys.executable, "-m", "benchmarks.running_ray", str(mark.parent)]
    # Ray lets nobody in without a token; this one lives as long as the Ray.
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=os.environ | token,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    tree = ProcessTree([psutil.Process(process.pid)])
    try:
        end = time.monotonic() + START_LIMIT_S
        while not mark.exists():
            if process.poll() is not None or time.monotonic() > end:
                raise launch.RunError(f"Ray did not start:\n{launch.tail(log)}")
            time.sleep(0.1)
        address = launch.read_marks(mark.parent)["ray"]["address"]
        yield RunningRay(process.pid, token | {"RAY_ADDRESS": address})
    finally:
        tree.kill()
        process.wait()
        assert process.stdin is not None
        process.stdin.close()


def _await_idle_workers(count: int) -> None:
    """Waits for the workers that Ray starts with, which import for a while: a cluster that runs has them."""
    end = time.monotonic() + READY_LIMIT_S
    while time.monotonic() < end:
        found = psutil.Process().children(recursive=True)
        if sum(_is_idle_worker(process) for process in found) >= count:
            return
        time.sleep(0.1)


def _is_idle_worker(process: psutil.Process) -> bool:
    try:
        return process.cmdline()[:1] == ["ray::IDLE"]
    except psutil.Error:
        return False


def main() -> None:
    """Holds a Ray until its input ends."""
    import ray

    context: Any = ray.init(
        address="local", num_cpus=CPUS, include_dashboard=False, _system_config={"worker_niceness": 0}
    )
    _await_idle_workers(min(CPUS, os.cpu_count() or 1))
    leave_mark(sys.argv[1], "ray", address=context.address_info["gcs_address"])
    sys.stdin.read()


if __name__ == "__main__":
    main()
