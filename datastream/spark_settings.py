"""Reads the `tidegate.spark.*` settings."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ..common.configuration import Configuration
from ..common.options import DeploymentOptions, SparkOptions

if TYPE_CHECKING:
    from ..spark_bridge.session import SparkSettings


def spark_settings(configuration: Configuration) -> SparkSettings:
    """How the Spark session of a job is started."""
    from ..spark_bridge.settings import SparkSettings, default_log_dir

    log_dir = configuration.get(SparkOptions.LOG_DIR)
    configs = configuration.get(SparkOptions.CONF)
    return SparkSettings(
        use_raydp=configuration.get(DeploymentOptions.TARGET) == "ray",
        num_executors=configuration.get(SparkOptions.EXECUTORS),
        executor_cores=configuration.get(SparkOptions.EXECUTOR_CORES),
        executor_memory=configuration.get(SparkOptions.EXECUTOR_MEMORY),
        # Absolute: the session starts in a process of another working directory.
        log_dir=os.path.abspath(log_dir or default_log_dir()),
        configs={} if configs is None else dict(configs),
    )
