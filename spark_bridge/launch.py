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
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from .settings import EXECUTOR_CPU, SparkSessionError, SparkSettings, spark_configs

_NAMESPACE_TIMEOUT_S = 30.0
_EXIT_TIMEOUT_S = 10.0
_EXIT_NOTICED_S = 2.0
"""A connection breaks before the operating system reports that the process has ended."""
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
    deadline_s = time.monotonic() + settings.start_timeout_s
    log_dir = Path(settings.log_dir)
    log_dir.mkdir(parents=True, exist_ok=True)
    with _java_output_to(log_dir / f"spark-driver-{os.getpid()}.out"):
        session = _start_raydp(settings) if settings.use_raydp else _start_local(settings)
    if settings.use_raydp:
        try:
            _await_executor(session, settings, deadline_s)
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


def loss_of(session: Any, error: Exception) -> str | None:
    """How a session was lost, `None` if it was not.

    Args:
        error: What a call of the session raised.
    """
    process = session.sparkContext._gateway.proc
    if process is not None:
        with suppress(subprocess.TimeoutExpired):
            code = process.wait(_EXIT_NOTICED_S if _is_of_connection(error) else 0)
            return f"its Java process {process.pid} {_ended_with(code)}"
    return None if is_alive(session) else "its Spark context was stopped"


def _ended_with(code: int) -> str:
    if code >= 0:
        return f"exited with code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


def _is_of_connection(error: Exception) -> bool:
    """Whether Java may have ended, as opposed to an error that it reported."""
    is_reported = getattr(error, "java_exception", None) is not None
    return isinstance(error, (*connection_errors(), EOFError)) and not is_reported


def end_session(session: Any) -> None:
    """Stop a session, dead or alive, the Java process that runs it, and what it holds in Ray.

    PySpark by itself keeps that process until the interpreter exits.
    """
    gateway = session.sparkContext._gateway
    if session.sparkContext.master.startswith("local"):
        # A session that was lost cannot be stopped any more.
        with suppress(*connection_errors()):
            session.stop()
    else:
        _end_raydp(session)
    _forget_session()
    if gateway.proc is not None:
        _end_process(gateway)


def _end_raydp(session: Any) -> None:
    import raydp

    try:
        raydp.stop_spark()
    except connection_errors():
        # RayDP stops nothing of a session whose Java is dead; its executors would keep their memory.
        from .ray_actors import kill_left_behind

        kill_left_behind(session.sparkContext.appName)


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
    from .ray_actors import await_no_session

    deadline_s = time.monotonic() + _NAMESPACE_TIMEOUT_S
    while True:
        # The session of a killed process may take a few seconds to die.
        await_no_session(deadline_s)
        try:
            with _without_blocking_get_warning():
                return _init_raydp(settings)
        except Exception as error:
            if _MASTER_EXISTS not in str(error):
                raise
            logger.info("Spark session: another one has just started in this Ray namespace")


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


def _await_executor(session: Any, settings: SparkSettings, deadline_s: float) -> None:
    status = session._jsc.sc().getExecutorMemoryStatus
    began_s = next_note_s = time.monotonic()
    # The driver counts as one.
    while status().size() < 2:
        if time.monotonic() >= next_note_s:
            waited_s = time.monotonic() - began_s
            logger.info("Spark session: the driver is there, waiting for an executor for %.0f s", waited_s)
            next_note_s += _NOTE_S
        if time.monotonic() > deadline_s:
            raise not_started(settings)
        threading.Event().wait(_POLL_S)


def not_started(settings: SparkSettings) -> SparkSessionError:
    """The error of a session that did not start in time, with what Ray knows about it."""
    advice = "raise tidegate.spark.start-timeout if the machine is slow"
    if not settings.use_raydp:
        return SparkSessionError(
            f"no Spark session started within {settings.start_timeout_s:g} s; look at Spark's log in "
            f"{settings.log_dir}, or {advice}"
        )
    from .ray_actors import missing_executor

    try:
        missing = missing_executor()
    except Exception as error:
        missing = f"Ray does not answer ({type(error).__name__}: {error})"
    cpus = spark_configs(settings)[EXECUTOR_CPU]
    return SparkSessionError(
        f"no Spark executor started within {settings.start_timeout_s:g} s: {missing}. Each of "
        f"{settings.num_executors} executors requires {settings.executor_memory} of memory and {cpus} CPUs, "
        f"and `java` 17 on the PATH of its node. Free what is held, lower tidegate.spark.executor-memory, "
        f"add nodes, or {advice}"
    )


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
