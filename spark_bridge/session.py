"""The Spark session of a process: started in the background, shared by all operators in it."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..common.errors import TidegateError
from .java import require_java

_OPENED_PACKAGES = (
    "java.lang",
    "java.lang.invoke",
    "java.lang.reflect",
    "java.io",
    "java.net",
    "java.nio",
    "java.math",
    "java.text",
    "java.util",
    "java.util.concurrent",
    "java.util.concurrent.atomic",
    "sun.nio.ch",
    "sun.nio.cs",
    "sun.security.action",
    "sun.util.calendar",
)
"""What Ray's and Spark's Java code reaches into by reflection; closed by default since Java 16."""


class SparkSessionError(TidegateError):
    """The Spark session could not be started, or was lost."""


@dataclass(frozen=True)
class SparkSettings:
    """How the session is started.

    Attributes:
        use_raydp: Executors on Ray through RayDP; otherwise Spark runs inside this process.
        num_executors: Executors to start.
        executor_cores: Cores of each; Ray reserves as many CPUs.
        executor_memory: Heap of each, as Spark writes sizes.
        log_dir: Directory for Spark's logs, which stay out of the job's own.
        configs: Further Spark settings.
    """

    use_raydp: bool = True
    num_executors: int = 1
    executor_cores: int = 1
    executor_memory: str = "1g"
    log_dir: str = "spark-logs"
    configs: Mapping[str, str] = field(default_factory=dict)


class SparkSessionHost:
    """Owns the one Spark session of a process. Use the instance from `session_host()`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._session: Any = None
        self._error: Exception | None = None
        self._settings: SparkSettings | None = None

    def start(self, settings: SparkSettings) -> None:
        """Begin to start the session in the background; nothing happens if it is there already."""
        with self._lock:
            if self._thread is not None and self._error is None:
                return
            self._settings, self._error = settings, None
            self._thread = threading.Thread(
                target=self._start, args=(settings,), name="tidegate-spark-start", daemon=True
            )
            self._thread.start()

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
        """Stop the session and everything it started."""
        with self._lock:
            thread, self._thread = self._thread, None
            if thread is None:
                return
            thread.join()
            if self._session is None:
                return
            self._session = None
            if self._settings is not None and self._settings.use_raydp:
                import raydp

                raydp.stop_spark()
            else:
                from pyspark.sql import SparkSession

                active = SparkSession.getActiveSession()
                if active is not None:
                    active.stop()

    def _start(self, settings: SparkSettings) -> None:
        try:
            require_java().use()
            # Executors would otherwise look for a system Python without pyspark.
            os.environ["PYSPARK_PYTHON"] = sys.executable
            self._session = _start_raydp(settings) if settings.use_raydp else _start_local(settings)
            atexit.register(self.stop)
        except Exception as error:
            self._error = error


def _start_raydp(settings: SparkSettings) -> Any:
    import raydp

    return raydp.init_spark(
        f"tidegate-{os.getpid()}",
        num_executors=settings.num_executors,
        executor_cores=settings.executor_cores,
        executor_memory=settings.executor_memory,
        configs=spark_configs(settings),
    )


def _start_local(settings: SparkSettings) -> Any:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(f"local[{settings.executor_cores}]").appName("tidegate")
    for key, value in spark_configs(settings).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def spark_configs(settings: SparkSettings) -> dict[str, str]:
    """All Spark settings; those of the user win."""
    options = java_options()
    log4j = _log_configuration(Path(settings.log_dir))
    driver_options = options if settings.use_raydp else f"{options} -Dlog4j2.configurationFile={log4j}"
    return {
        "spark.driver.extraJavaOptions": driver_options,
        "spark.executor.extraJavaOptions": options,
        "spark.ray.raydp_app_master.extraJavaOptions": options,
        "spark.ray.raydp_spark_master.actor.resource.CPU": "0",
        "spark.log4j.config.file.name": log4j,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.shuffle.partitions": str(settings.num_executors * settings.executor_cores * 2),
        **settings.configs,
    }


def java_options() -> str:
    """JVM options without which Ray's Java workers die on Java 17."""
    opened = [f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in _OPENED_PACKAGES]
    exported = "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED"
    return " ".join(["-XX:+IgnoreUnrecognizedVMOptions", *opened, exported])


def _log_configuration(log_dir: Path) -> str:
    """Write a Log4j configuration that sends everything to a file; returns its URL."""
    log_dir.mkdir(parents=True, exist_ok=True)
    path = log_dir.resolve() / "log4j2.properties"
    path.write_text(
        "\n".join(
            [
                "rootLogger.level = warn",
                "rootLogger.appenderRef.file.ref = file",
                "appender.file.type = File",
                "appender.file.name = file",
                f"appender.file.fileName = {log_dir.resolve()}/spark-{os.getpid()}.log",
                "appender.file.layout.type = PatternLayout",
                "appender.file.layout.pattern = %d{ISO8601} %p %c{1}: %m%n%ex",
                "",
            ]
        )
    )
    return path.as_uri()


_HOST = SparkSessionHost()


def session_host() -> SparkSessionHost:
    """The session of this process."""
    return _HOST
