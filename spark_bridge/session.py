"""The Spark session of a process: started in the background, shared by all operators in it."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from typing import Any

from .java import require_java
from .launch import end_session, is_alive, start_session
from .settings import SparkSessionError, SparkSettings

__all__ = ["SparkSessionError", "SparkSessionHost", "SparkSettings", "session_host"]


class SparkSessionHost:
    """Owns the one Spark session of a process. Use the instance from `session_host()`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._session: Any = None
        self._error: Exception | None = None
        self._settings: SparkSettings | None = None

    def start(self, settings: SparkSettings) -> None:
        """Begin to start the session in the background; nothing happens if it is there already.

        A session that has died since (its Java was killed, its executors' master is gone) is cleared
        away and replaced, so that a process that outlives it can be used for the next attempt.
        """
        with self._lock:
            if self._thread is not None and (self._thread.is_alive() or self._is_alive()):
                return
            lost, self._session = self._session, None
            self._settings, self._error = settings, None
            self._thread = threading.Thread(
                target=self._start, args=(settings, lost), name="tidegate-spark-start", daemon=True
            )
            self._thread.start()

    def is_starting(self) -> bool:
        """Whether `session()` would have to wait."""
        thread = self._thread
        return thread is not None and thread.is_alive()

    def session(self) -> Any:
        """The session; waits until it has started.

        Raises:
            SparkSessionError: It could not be started.
        """
        thread = self._thread
        if thread is None:
            raise SparkSessionError("the Spark session was never started; call start() first")
        thread.join()
        if self._error is not None:
            raise SparkSessionError(
                f"the Spark session could not be started: {self._error}. Spark's log is in "
                f"{self._settings.log_dir if self._settings else 'its log directory'}"
            ) from self._error
        return self._session

    def stop(self) -> None:
        """Stop the session and everything it started: executors, their master, the Java process."""
        with self._lock:
            thread, self._thread = self._thread, None
            if thread is None:
                return
            thread.join()
            session, self._session = self._session, None
            if session is not None and self._settings is not None:
                end_session(session, self._settings.use_raydp)

    def _start(self, settings: SparkSettings, lost: Any) -> None:
        try:
            if lost is not None:
                end_session(lost, settings.use_raydp)
            require_java().use()
            # Executors would otherwise look for a system Python without pyspark.
            os.environ["PYSPARK_PYTHON"] = sys.executable
            self._session = start_session(settings)
            atexit.register(self.stop)
        except Exception as error:
            self._error = error

    def _is_alive(self) -> bool:
        return self._session is not None and is_alive(self._session)


_HOST = SparkSessionHost()


def session_host() -> SparkSessionHost:
    """The session of this process."""
    return _HOST
