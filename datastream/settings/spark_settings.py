"""Reads the `tidegate.spark.*` settings."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ...common.configuration import Configuration
from ...common.errors import ConfigurationError
from ...common.options.options import DeploymentOptions, SparkOptions
from ...common.time import Duration
from ...protocol.stages.epochs import EpochLimits

if TYPE_CHECKING:
    from ...spark_bridge.session import SparkSettings

_INTERVAL_MS = 1_000


def spark_settings(configuration: Configuration) -> SparkSettings:
    """How the Spark session of a job is started."""
    from ...spark_bridge.settings import SparkSettings, default_log_dir

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
        start_timeout_s=configuration.get(SparkOptions.START_TIMEOUT).to_millis() / 1_000,
    )


def epoch_limits(
    configuration: Configuration, max_records: int, interval: Duration | None, max_running: int
) -> EpochLimits:
    """What bounds the epochs of a stage.

    Raises:
        ConfigurationError: A bound is not positive.
    """
    for name, bound in (("max_epoch_records", max_records), ("max_concurrent_epochs", max_running)):
        if bound < 1:
            raise ConfigurationError(f"spark_stage: {name} is {bound}; it must be at least 1")
    return EpochLimits(
        max_records,
        _INTERVAL_MS if interval is None else interval.to_millis(),
        max_running,
        configuration.get(SparkOptions.BUFFER_SIZE),
        configuration.get(SparkOptions.BUFFER_MEMORY),
    )
