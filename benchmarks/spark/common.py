"""The Spark session of a benchmark, and how its runs are timed."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psutil
from tidegate.common import Configuration
from tidegate.datastream.settings.spark_settings import spark_settings
from tidegate.spark_bridge.session import session_host

QUICK = "--quick" in sys.argv
ROUNDS = 3
OTHERS = "others"
_KINDS = (
    ("org.apache.spark.launcher.Main", "spark-submit's launcher (Java)"),
    ("org.apache.spark.deploy.SparkSubmit", "Spark's driver (Java)"),
    ("pyspark.daemon", "Python worker of Spark"),
    ("gcs_server", "Ray"),
    ("raylet/raylet", "Ray"),
    ("dashboard", "Ray"),
    ("log_monitor", "Ray"),
    ("ray::IDLE", "Ray"),
)
_JAVA_WORKER = "io.ray.runtime.runner.worker.DefaultWorker"
_OF_APP_MASTER = "-Dspark.app.name="


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


def kind_of(process: psutil.Process) -> str:
    """What a process of a job with Spark is, in a few words.

    Raises:
        psutil.Error: It has ended.
    """
    line = " ".join(process.cmdline())
    if process.name() == "java" and _JAVA_WORKER in line:
        return "application master (Java)" if _OF_APP_MASTER in line else "executor (Java)"
    kind = next((kind for word, kind in _KINDS if word in line), OTHERS)
    return line.split()[0] if kind == OTHERS and line.startswith("ray::") else kind


def seconds(action: Callable[[], object]) -> float:
    """How long something takes by the clock."""
    before = time.perf_counter()
    action()
    return time.perf_counter() - before
