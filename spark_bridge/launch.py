"""Starts and ends a Spark session. What is odd about RayDP and PySpark stays in this file.

RayDP starts four Java processes for a session with one executor: the launcher of its master, the
master, the driver (a child of this process) and the executor. They end when their owner does, also
when that is killed: the driver and the launcher with their standard input, the others through Ray.
"""

from __future__ import annotations

import functools
import logging
import os
import secrets
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from .settings import EXECUTOR_CPU, SparkSessionError, SparkSettings, spark_configs

_EXECUTORS_TIMEOUT_S = 120.0
_NAMESPACE_TIMEOUT_S = 20.0
_EXIT_TIMEOUT_S = 10.0
_POLL_S = 0.1
_NOTE_S = 5.0
_MASTER_EXISTS = "RAY_APP_MASTER exists"


logger = logging.getLogger(__name__)


def start_session(settings: SparkSettings) -> Any:
    """A new Spark session; with RayDP, once its first executor is there.

    Raises:
        SparkSessionError: No executor could be placed, or the process or its Ray namespace has a session
            already.
    """
    _refuse_foreign_session()
    log_dir = Path(settings.log_dir)
    log_dir.mkdir(parents=True, exist_ok=True)
    with _java_output_to(log_dir / f"spark-driver-{os.getpid()}.out"):
        session = _start_raydp(settings) if settings.use_raydp else _start_local(settings)
    if settings.use_raydp:
        try:
            _await_executor(session, settings)
        except BaseException:
            end_session(session)
            raise
    return session


def is_alive(session: Any) -> bool:
    """Whether the session can run a job: its Java process is there and its context not stopped."""
    process = session.sparkContext._gateway.proc
    if process is not None and process.poll() is not None:
        return False
    try:
        return session._jsc is not None and not session._jsc.sc().isStopped()
    except connection_errors():
        return False


def end_session(session: Any) -> None:
    """Stop a session, dead or alive, and the Java process behind it.

    PySpark by itself keeps that process until the interpreter exits.
    """
    gateway = session.sparkContext._gateway
    # Of a session that was lost nothing can be told to stop any more.
    with suppress(*connection_errors()):
        if session.sparkContext.master.startswith("local"):
            session.stop()
        else:
            import raydp

            raydp.stop_spark()
    _forget_session()
    if gateway.proc is not None:
        _end_process(gateway)


def _refuse_foreign_session() -> None:
    """A session of the user's own would be taken over, its settings changed, and stopped in the end."""
    from pyspark import SparkContext

    if SparkContext._active_spark_context is not None:
        raise SparkSessionError(
            "this process has a Spark session already, and Spark allows one. Call stop() on it before the "
            "job, or run the job in a process of its own"
        )


def _start_local(settings: SparkSettings) -> Any:
    from pyspark.sql import SparkSession

    # Java would look the host name up, which not every machine can.
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master(f"local[{settings.executor_cores}]").appName("tidegate")
    for key, value in spark_configs(settings).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _start_raydp(settings: SparkSettings) -> Any:
    deadline = time.monotonic() + _NAMESPACE_TIMEOUT_S
    while True:
        try:
            with _without_blocking_get_warning():
                return _init_raydp(settings)
        except Exception as error:
            if _MASTER_EXISTS not in str(error):
                raise
            # The session of a killed process may take a few seconds to die.
            if time.monotonic() > deadline:
                raise SparkSessionError(
                    "another Spark session runs in this Ray namespace, and RayDP allows one in each. "
                    "Give each job with Spark stages a namespace of its own, with "
                    "ray.init(namespace=...), or wait for the other job"
                ) from error
        threading.Event().wait(1.0)


def _init_raydp(settings: SparkSettings) -> Any:
    import raydp

    return raydp.init_spark(
        # Names an actor, so two sessions of a cluster must not share it.
        f"tidegate-{secrets.token_hex(4)}",
        num_executors=settings.num_executors,
        executor_cores=settings.executor_cores,
        executor_memory=settings.executor_memory,
        # It would join the driver's Java to Ray, for Ray datasets made from data frames.
        fault_tolerant_mode=False,
        configs=spark_configs(settings),
    )


def _await_executor(session: Any, settings: SparkSettings) -> None:
    status = session._jsc.sc().getExecutorMemoryStatus
    began_s = time.monotonic()
    deadline, next_note_s = began_s + _EXECUTORS_TIMEOUT_S, began_s
    # The driver counts as one.
    while status().size() < 2:
        if time.monotonic() >= next_note_s:
            waited_s = time.monotonic() - began_s
            logger.info("Spark session: the driver is there, waiting for an executor for %.0f s", waited_s)
            next_note_s += _NOTE_S
        if time.monotonic() > deadline:
            cpus = spark_configs(settings)[EXECUTOR_CPU]
            raise SparkSessionError(
                f"no Spark executor started within {_EXECUTORS_TIMEOUT_S:g} s. Each of "
                f"{settings.num_executors} asks Ray for {settings.executor_memory} of memory and "
                f"{cpus} CPUs, and for `java` 17 on the PATH of its node; `ray status` shows what is "
                f"free. Lower tidegate.spark.executor-memory, or add nodes"
            )
        threading.Event().wait(_POLL_S)


@contextmanager
def _java_output_to(path: Path) -> Iterator[None]:
    """Send what the driver's Java prints by itself to a file instead of the task's own output.

    `launch_gateway` has a parameter for it, which the session builder does not pass on.
    """
    import pyspark.context

    context: Any = pyspark.context
    launch = context.launch_gateway
    with path.open("ab") as log:
        context.launch_gateway = functools.partial(launch, popen_kwargs={"stdout": log, "stderr": log})
        try:
            yield
        finally:
            context.launch_gateway = launch


@contextmanager
def _without_blocking_get_warning() -> Iterator[None]:
    """RayDP waits for Ray in this thread; Ray warns as if that blocked the actor's event loop."""

    def keep(record: logging.LogRecord) -> bool:
        return "blocking ray.get" not in record.getMessage()

    logger = logging.getLogger("ray._private.worker")
    logger.addFilter(keep)
    try:
        yield
    finally:
        logger.removeFilter(keep)


def connection_errors() -> tuple[type[Exception], ...]:
    """What a call into a dead Java process may raise."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    return (Py4JError, OSError)


def _forget_session() -> None:
    """Clear what PySpark keeps per process, else the next session would be the old one."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    SparkContext._gateway = None
    SparkContext._jvm = None
    SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None
    SparkSession._activeSession = None


def _end_process(gateway: Any) -> None:
    gateway.shutdown()
    # The Java process ends by itself when its standard input does.
    gateway.proc.stdin.close()
    try:
        gateway.proc.wait(_EXIT_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        gateway.proc.kill()
        gateway.proc.wait()
