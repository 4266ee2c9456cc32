"""The processes of an embedded Ray end with their driver, however that ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tidegate.actors.embedded_ray_guard import has_mark

from .jobs import eventually

TIMEOUT_S = 120
PROGRAM = """
import os, subprocess, sys
from tidegate.common import Configuration, WatermarkStrategy
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.datastream.connectors.number_seq import NumberSequenceSource

configuration = Configuration.from_dict({"tidegate.local-dir": sys.argv[1]})
env = StreamExecutionEnvironment.get_execution_environment(configuration)
source = NumberSequenceSource(0, 10**12)
numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
numbers.add_sink(lambda number: None).uid("sink")
env.execute_async("endless")
other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
from tidegate.actors import embedded_ray
print(embedded_ray._mark, other.pid, flush=True)
input()
"""


def marked(mark: bytes) -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and has_mark(name, mark)]


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM])
def test_all_processes_end_when_the_driver_is_killed(tmp_path: Path, ending: signal.Signals) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    driver = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
    )
    try:
        assert driver.stdout is not None
        mark, other = driver.stdout.readline().split()
        pids = marked(mark)
        # What the program starts by itself is no part of the Ray.
        assert int(other) not in pids
        assert driver.pid not in pids
        # At least: gcs_server, raylet, its two agents, the coordinator, and one task.
        assert len(pids) >= 6
    finally:
        started_s = time.monotonic()
        driver.send_signal(ending)
        driver.wait(TIMEOUT_S)
    # Also those that were about to start when the driver was killed.
    eventually("the end of the embedded Ray", lambda: not marked(mark))
    print(f"{len(pids)} processes ended {time.monotonic() - started_s:.2f} s after the signal")
