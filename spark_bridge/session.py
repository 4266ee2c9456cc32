"""The Spark session of a process: started in the background, shared by all operators in it."""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .java import require_java
from .launch import end_session, is_alive, loss_of, not_started, start_session, web_ui_of
from .settings import SparkSessionError, SparkSessionLostError, SparkSettings, default_log_dir

logger = logging.getLogger(__name__)

__all__ = [
    "SparkSessionError",
    "SparkSessionHost",
    "SparkSessionLease",
    "SparkSessionLostError",
    "SparkSettings",
    "local_spark",
    "session_host",
]


class SparkSessionHost:
    """Owns the one Spark session of a process. Use the instance from `session_host()`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._session: Any = None
        self._error: Exception | None = None
        self._settings: SparkSettings | None = None
        self._users = 0
        self._ended = threading.Event()
        self._loss: str | None = None
        self.web_ui = ""
        """Address of the session's web UI; empty while there is none. May be read by any thread."""

    def acquire(self, settings: SparkSettings) -> SparkSessionLease:
        """Begin to start the session in the background, or share the one that is there.

        A session that has died since (its Java was killed, its executors' master is gone) is cleared
        away and replaced, so that a process that outlives it can be used for the next attempt. So is
        one with other settings, unless somebody uses it.

        Raises:
            SparkSessionError: Another job in this process uses a session with other settings.
        """
        with self._lock:
            if self._users and settings != self._settings:
                raise SparkSessionError(
                    "another job in this process uses a Spark session with other tidegate.spark.* "
                    "settings, and a process has one session. Give both jobs the same settings, or run "
                    "one after the other"
                )
            if settings != self._settings or not (self.is_starting() or self._is_alive()):
                self._settings = settings
                self._thread = threading.Thread(
                    target=self._start, args=(settings, self._thread), name="tidegate-spark", daemon=True
                )
                self._thread.start()
            self._users += 1
        return SparkSessionLease(self)

    def is_starting(self) -> bool:
        """Whether `session()` would have to wait."""
        thread = self._thread
        return thread is not None and thread.is_alive()

    def session(self, timeout_s: float | None = None) -> Any:
        """The session; waits until it has started.

        Args:
            timeout_s: How long to wait; `None`: until it has started or could not be.

        Raises:
            SparkSessionError: It could not be started, or not in this time.
        """
        thread = self._thread
        if thread is None:
            raise SparkSessionError("the Spark session has been stopped")
        thread.join(timeout_s)
        if thread.is_alive():
            assert self._settings is not None, "a session starts with settings"
            raise not_started(self._settings)
        if self._error is not None:
            raise SparkSessionError(
                f"the Spark session could not be started: {self._error}. Spark's log is in "
                f"{self._settings.log_dir if self._settings else 'its log directory'}"
            ) from self._error
        return self._session

    def loss(self, error: Exception) -> SparkSessionLostError | None:
        """The error to raise when a call of the session failed because it is lost; `None` if it is not.

        Args:
            error: What the call raised.
        """
        session, settings = self._session, self._settings
        if session is None or settings is None:
            return None
        found = loss_of(session, error)
        if found is None:
            return None
        pid, log_dir = os.getpid(), settings.log_dir
        return SparkSessionLostError(
            f"the Spark session was lost: {self._loss or found}. A restart of the job starts a new session. "
            f"Spark's log is {log_dir}/spark-{pid}.log; what Java itself printed is in "
            f"{log_dir}/spark-driver-{pid}.out"
        )

    def stop(self) -> None:
        """Stop the session and everything it started: executors, their master, the Java process."""
        with self._lock:
            thread, self._thread = self._thread, None
            if thread is not None:
                thread.join()
            self._end_session()

    def release(self) -> None:
        """One user less; the session stays, for the next attempt or job. Leases call it."""
        with self._lock:
            self._users -= 1

    def _start(self, settings: SparkSettings, previous: threading.Thread | None) -> None:
        if previous is not None:
            previous.join()
        self._error = None
        began_s = time.monotonic()
        try:
            self._end_session()
            java = require_java()
            java.use()
            logger.info("Spark session: starting with Java %s from %s", java.version, java.home)
            # Executors would otherwise look for a system Python without pyspark.
            os.environ["PYSPARK_PYTHON"] = sys.executable
            self._session = start_session(settings)
            self.web_ui = web_ui_of(self._session)
            if settings.use_raydp:
                self._watch(self._session)
            logger.info("Spark session: ready after %.1f s", time.monotonic() - began_s)
        except Exception as error:
            logger.warning("Spark session: failed after %.1f s: %s", time.monotonic() - began_s, error)
            self._error = error

    def _watch(self, session: Any) -> None:
        from .ray_actors import watch_app_master

        process = session.sparkContext._gateway.proc

        def lost(reason: str) -> None:
            logger.warning("Spark session: lost, since %s; ending its Java process %d", reason, process.pid)
            self._loss = reason
            # Calls that wait for executors return at once.
            process.kill()

        self._ended, self._loss = threading.Event(), None
        watch_app_master(self._ended, lost)

    def _end_session(self) -> None:
        self._ended.set()
        self.web_ui = ""
        session, self._session = self._session, None
        if session is not None:
            end_session(session)

    def _is_alive(self) -> bool:
        return self._session is not None and is_alive(self._session)


class SparkSessionLease:
    """One operator's use of the session of its process."""

    def __init__(self, host: SparkSessionHost) -> None:
        self._host: SparkSessionHost | None = host

    def is_starting(self) -> bool:
        """Whether `session()` would have to wait."""
        return self._host is not None and self._host.is_starting()

    def session(self, timeout_s: float | None = None) -> Any:
        """The session; waits until it has started.

        Args:
            timeout_s: How long to wait; `None`: until it has started or could not be.

        Raises:
            SparkSessionError: It could not be started, or not in this time, or the lease was released.
        """
        host = self._host
        if host is None:
            raise SparkSessionError("the operator has released its Spark session")
        return host.session(timeout_s)

    @property
    def web_ui(self) -> str:
        """Address of the session's web UI; empty while there is none."""
        host = self._host
        return "" if host is None else host.web_ui

    @contextmanager
    def losses(self, where: str) -> Iterator[None]:
        """Raise `SparkSessionLostError` for what fails inside because the session is lost.

        Args:
            where: The operator and subtask.
        """
        try:
            yield
        except Exception as error:
            lost = None if self._host is None else self._host.loss(error)
            if lost is None:
                raise
            raise SparkSessionLostError(f"{where}: {lost}") from error

    def release(self) -> None:
        """Use the session no more; a second call does nothing."""
        host, self._host = self._host, None
        if host is not None:
            host.release()


@contextmanager
def local_spark(cores: int = 1) -> Iterator[Any]:
    """A Spark session in this process, without Ray: for savepoints, and for trying things out.

    It is the one that jobs on the local target share. It stays for whoever asks next, until the process ends.

    Args:
        cores: How many tasks Spark runs at a time.

    Raises:
        SparkSessionError: It could not be started, for example because there is no Java 17.
    """
    settings = SparkSettings(use_raydp=False, executor_cores=cores, log_dir=default_log_dir())
    lease = session_host().acquire(settings)
    try:
        yield lease.session()
    finally:
        lease.release()


_HOST = SparkSessionHost()
atexit.register(_HOST.stop)


def session_host() -> SparkSessionHost:
    """The session of this process."""
    return _HOST
