"""The Spark session of a benchmark, and how its runs are timed."""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tidegate.common import Configuration
from tidegate.datastream.spark_settings import spark_settings
from tidegate.spark_bridge.session import session_host

QUICK = "--quick" in sys.argv
ROUNDS = 3


def configuration() -> Configuration:
    """Settings of a local job, and so of the session."""
    settings = Configuration()
    settings.set_string("execution.target", "local")
    settings.set_string("tidegate.spark.executor-cores", "2")
    return settings


@contextmanager
def spark_session() -> Iterator[Any]:
    """The session that local jobs of this process share."""
    lease = session_host().acquire(spark_settings(configuration()))
    try:
        yield lease.session()
    finally:
        lease.release()
        session_host().stop()


@contextmanager
def scratch() -> Iterator[str]:
    """A directory for the length of a run."""
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as directory:
        yield directory


def seconds(action: Callable[[], object]) -> float:
    """How long something takes by the clock."""
    before = time.perf_counter()
    action()
    return time.perf_counter() - before


def median_seconds(action: Callable[[], object], rounds: int = ROUNDS) -> tuple[float, float, float]:
    """Median, lowest and highest of some runs."""
    found = [seconds(action) for _ in range(rounds)]
    return statistics.median(found), min(found), max(found)
