"""Starts and ends a Spark session. What is odd about PySpark stays here; RayDP's part is `raydp_session`.

The driver's Java is a child of this process. It ends with its standard input, so also when this process is
killed.
"""

from __future__ import annotations

import logging
import os
import secrets
import signal
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from .settings import EXECUTOR_CPU, SparkSessionError, SparkSettings, spark_configs

_EXIT_TIMEOUT_S = 10.0
_EXIT_NOTICED_S = 2.0
"""A connection breaks before the operating system reports that the process has ended."""
_POLL_S = 0.1
_WARM_UP = (
    "select /*+ broadcast(b) */ a.id, concat('n', b.id) as name "
    "from range(8) a join range(4) b on a.id = b.id where a.id > 1"
)
_NOTE_S = 5.0
_LISTEN, _LOOPBACK = "SPARK_LOCAL_IP", "127.0.0.1"


logger = logging.getLogger(__name__)


def start_session(settings: SparkSettings) -> Any:
    """A new Spark session; with RayDP, once its first executor is there.

    Raises:
        SparkSessionError: No executor could be placed, or the process or its Ray namespace has a session
            already.
    """
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    _refuse_foreign_session()
    deadline_s = time.monotonic() + settings.start_timeout_s
    gateway, conf = _launch_java(settings, _configs(settings))
    try:
        if settings.use_raydp:
            from .raydp_session import start_app_master

            conf.setMaster(start_app_master(gateway, dict(conf.getAll())))
        session = SparkSession(SparkContext(conf=conf, gateway=gateway))
        if settings.use_raydp:
            _warm_up(session)
            _await_executor(session, settings, deadline_s)
    except BaseException:
        _forget_session()
        _end_process(gateway)
        raise
    return session


def _configs(settings: SparkSettings) -> dict[str, str]:
    # The web UI asks for no password, so only this machine may reach it. Also, Java would otherwise look up
    # the name of the host, which does not work on every machine. On Ray, settings of their own say where
    # executors reach the driver.
    os.environ.setdefault(_LISTEN, _LOOPBACK)
    if settings.use_raydp:
        from .raydp_session import raydp_configs

        return raydp_configs(settings)
    return {"spark.master": f"local[{settings.executor_cores}]", **spark_configs(settings)}


def _launch_java(settings: SparkSettings, configs: dict[str, str]) -> tuple[Any, Any]:
    """The driver's Java, and the configuration for its context. What Java prints goes to a file."""
    from pyspark import SparkConf
    from pyspark.java_gateway import launch_gateway

    log_dir = Path(settings.log_dir)
    log_dir.mkdir(parents=True, exist_ok=True)
    # Names an application in Spark's UI and logs.
    conf = SparkConf().setAppName(f"tidegate-{secrets.token_hex(4)}").setAll(list(configs.items()))
    with (log_dir / f"spark-driver-{os.getpid()}.out").open("ab") as log:
        launch: Any = launch_gateway
        return launch(conf, {"stdout": log, "stderr": log}), conf


def web_ui_of(session: Any) -> str:
    """Address of the session's web UI, as it can be reached on this machine; empty if it is off."""
    address: str | None = session.sparkContext.uiWebUrl
    if address is None:
        return ""
    if os.environ.get(_LISTEN) != _LOOPBACK:
        return address
    # Spark names the driver's host, also where the web UI does not listen there.
    return f"http://{_LOOPBACK}:{urlsplit(address).port}"


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
    """Stop a session, dead or alive, and the Java process that runs it. What it holds in Ray ends with that.

    PySpark by itself keeps that process until the interpreter exits.
    """
    gateway = session.sparkContext._gateway
    # A session that was lost cannot be stopped any more.
    with suppress(*connection_errors()):
        session.stop()
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


def _warm_up(session: Any) -> None:
    """Run a small query once there is an executor. The driver loads and compiles for it while that starts."""

    def run() -> None:
        try:
            session.sparkContext.setJobDescription("warm-up of the session")
            warm_up_query(session).collect()
        except Exception:
            # The session may have ended. What uses it gets the error.
            logger.debug("Spark session: no warm-up", exc_info=True)

    threading.Thread(target=run, name="tidegate-spark-warm-up", daemon=True).start()


def warm_up_query(session: Any) -> Any:
    """A DataFrame of two rows with a filter, a join, a projection, and Arrow data through two Python workers.

    An epoch uses one that fetches records and one that pushes results. Their imports take longer than the
    rest of their first task.
    """
    schema = "id long, name string"
    first = session.sql(_WARM_UP).mapInArrow(lambda batches: batches, schema)
    return first.mapInArrow(lambda batches: batches, schema)


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
