"""How the Spark session of a job is configured."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..common.errors import TidegateError

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


EXECUTOR_CPU = "spark.ray.raydp_spark_executor.actor.resource.cpu"
_JAVA_OPTIONS = (
    "spark.driver.extraJavaOptions",
    "spark.executor.extraJavaOptions",
    "spark.ray.raydp_app_master.extraJavaOptions",
)
_FAST_START = " -XX:TieredStopAtLevel=1"


class SparkSessionError(TidegateError):
    """The Spark session could not be started, or was lost."""


class SparkSessionLostError(SparkSessionError):
    """The Spark session ended while it was used, for example since its Java was killed.

    A restart of the job starts a new one.
    """


@dataclass(frozen=True)
class SparkSettings:
    """How the session is started.

    Attributes:
        use_raydp: Executors on Ray through RayDP; otherwise Spark runs inside this process.
        num_executors: Executors to start.
        executor_cores: Tasks that an executor runs at a time. Ray reserves no CPU for them unless
            `configs` sets `spark.ray.raydp_spark_executor.actor.resource.cpu`.
        executor_memory: Heap of each, as Spark writes sizes.
        log_dir: Directory for Spark's logs, which stay out of the job's own.
        configs: Further Spark settings.
        start_timeout_s: How long the start may take, in seconds.
    """

    use_raydp: bool = True
    num_executors: int = 1
    executor_cores: int = 1
    executor_memory: str = "1g"
    log_dir: str = "spark-logs"
    configs: Mapping[str, str] = field(default_factory=dict)
    start_timeout_s: float = 180.0


def default_log_dir() -> str:
    """Where Spark logs to unless something else was said."""
    return os.path.abspath(os.path.join(tempfile.gettempdir(), "tidegate", "spark-logs"))


def spark_configs(settings: SparkSettings) -> dict[str, str]:
    """All Spark settings; those of the user win, and their Java options are added to ours."""
    log4j = _log_configuration(Path(settings.log_dir))
    options = {key: java_options() for key in _JAVA_OPTIONS}
    # These only plan and coordinate: compiling less halves the CPU time that a start costs.
    options["spark.driver.extraJavaOptions"] += _FAST_START
    options["spark.ray.raydp_app_master.extraJavaOptions"] += _FAST_START
    if not settings.use_raydp:
        # RayDP adds this to the driver's options by itself.
        options["spark.driver.extraJavaOptions"] += f" -Dlog4j2.configurationFile={log4j}"
    for key in _JAVA_OPTIONS:
        options[key] = f"{options[key]} {settings.configs.get(key, '')}".rstrip()
    return {
        # A job's slots may take every CPU there is, and an executor that waits for one waits for ever.
        EXECUTOR_CPU: "0",
        "spark.ray.raydp_spark_master.actor.resource.CPU": "0",
        "spark.log4j.config.file.name": log4j,
        "spark.ui.enabled": "true",
        # A fixed port fails the session where 17 of them share a machine.
        "spark.ui.port": "0",
        "spark.ui.killEnabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        # Spark would create it in the working directory, as soon as a function looks for a table.
        "spark.sql.warehouse.dir": str(Path(settings.log_dir).resolve() / "warehouse"),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # Below this size Spark unpacks Arrow data into its query plan: 2.5 s instead of 0.3 s for an
        # epoch of 200,000 records.
        "spark.sql.execution.arrow.localRelationThreshold": "0",
        # Epochs that run at the same time share the executors evenly.
        "spark.scheduler.mode": "FAIR",
        "spark.sql.shuffle.partitions": str(settings.num_executors * settings.executor_cores * 2),
        **settings.configs,
        **options,
    }


def java_options() -> str:
    """JVM options without which Ray's Java workers die on Java 17."""
    opened = [f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in _OPENED_PACKAGES]
    exported = "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED"
    return " ".join(["-XX:+IgnoreUnrecognizedVMOptions", *opened, exported])


def _log_configuration(log_dir: Path) -> str:
    """Write a Log4j configuration that sends everything to a file; returns its URL."""
    log_dir.mkdir(parents=True, exist_ok=True)
    # Jobs that share the directory must not read each other's.
    path = log_dir.resolve() / f"log4j2-{os.getpid()}.properties"
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
