"""A driver submitted to a running Ray that asks for a token, with a module of the user's beside it."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

RAY = [sys.executable, "-m", "ray.scripts.scripts"]
MODULE = """
def key_of(number):
    return number % 7
"""
DRIVER = """
from collections import Counter

import pricing
from tidegate.common import Types, WatermarkStrategy
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.datastream.connectors.number_seq import NumberSequenceSource

env = StreamExecutionEnvironment.get_execution_environment()
numbers = env.from_source(NumberSequenceSource(0, 699), WatermarkStrategy.no_watermarks(), "numbers")
keyed = numbers.map(lambda n: (pricing.key_of(n), 1)).key_by(lambda pair: pair[0], key_type=Types.LONG())
with keyed.reduce(lambda a, b: (a[0], a[1] + b[1])).execute_and_collect("submitted") as results:
    print("totals", sorted(Counter(key for key, _ in results).items()))
"""


@dataclass(frozen=True)
class Head:
    """A Ray of its own, with a dashboard."""

    dashboard: str
    environment: dict[str, str]


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def head_command(ports: list[int], temp_dir: str) -> list[str]:
    names = (
        "port",
        "dashboard-port",
        "ray-client-server-port",
        "dashboard-agent-listen-port",
        "metrics-export-port",
    )
    options = [f"--{name}={port}" for name, port in zip(names, ports, strict=True)]
    return [
        *RAY,
        *("start", "--head", "--block", "--node-ip-address=127.0.0.1", "--num-cpus=2"),
        *("--object-store-memory=100000000", "--min-worker-port=0", "--max-worker-port=0"),
        *("--include-dashboard=true", f"--temp-dir={temp_dir}", "--disable-usage-stats"),
        *options,
    ]


@pytest.fixture
def head(tmp_path: Path) -> Iterator[Head]:
    temp_dir = tempfile.mkdtemp(prefix="tgh", dir="/tmp")
    ports = free_ports(5)
    environment = {**os.environ, "RAY_AUTH_TOKEN": secrets.token_hex(32), "HOME": str(tmp_path)}
    process = subprocess.Popen(
        head_command(ports, temp_dir),
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        said = []
        for line in process.stdout:
            said.append(line)
            if "Ray runtime started" in line:
                break
        else:
            pytest.fail("the head did not start:\n" + "".join(said))
        yield Head(f"http://127.0.0.1:{ports[1]}", environment)
    finally:
        # A session of its own, so this reaches every process of this head and of no other Ray.
        process.terminate()
        process.wait(30)
        for pid in pids_of_session(process.pid):
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(temp_dir, ignore_errors=True)


def pids_of_session(session: int) -> list[int]:
    pids = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if os.getsid(int(entry.name)) == session:
                    pids.append(int(entry.name))
            except ProcessLookupError:
                continue
    return pids


def submit(head: Head, directory: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    address = [f"--address={head.dashboard}", "--working-dir", str(directory)]
    return subprocess.run(
        [*RAY, "job", "submit", *address, "--", sys.executable, "driver.py"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_submitted_driver_runs_with_the_module_beside_it_and_needs_the_token(
    head: Head, tmp_path: Path
) -> None:
    directory = tmp_path / "job"
    directory.mkdir()
    (directory / "driver.py").write_text(DRIVER)
    (directory / "pricing.py").write_text(MODULE)

    done = submit(head, directory, head.environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"totals {[(key, 100) for key in range(7)]}" in done.stdout

    missing = {name: value for name, value in head.environment.items() if name != "RAY_AUTH_TOKEN"}
    for environment in ({**head.environment, "RAY_AUTH_TOKEN": "0" * 64}, missing):
        refused = submit(head, directory, environment)
        assert refused.returncode != 0
        assert "totals" not in refused.stdout
        assert "token" in refused.stderr
        assert "authentication" in refused.stderr
