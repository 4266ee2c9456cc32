"""The options that Tidegate reads, in groups. To add one, declare it in its group and run `make docs`."""

from __future__ import annotations

from .checkpoint_options import (
    CheckpointingOptions,
    RestartStrategyOptions,
    StateBackendOptions,
    StateRecoveryOptions,
)
from .deployment_options import (
    DeploymentOptions,
    HistoryServerOptions,
    JobManagerOptions,
    LogOptions,
    MetricOptions,
    NetworkOptions,
    RestOptions,
    SparkOptions,
)
from .elasticity_options import AutoscalerOptions, SchedulerOptions
from .job_options import CoreOptions, DataPlaneOptions, ExecutionOptions, PipelineOptions

__all__ = [
    "AutoscalerOptions",
    "CheckpointingOptions",
    "CoreOptions",
    "DataPlaneOptions",
    "DeploymentOptions",
    "ExecutionOptions",
    "HistoryServerOptions",
    "JobManagerOptions",
    "LogOptions",
    "MetricOptions",
    "NetworkOptions",
    "PipelineOptions",
    "RestOptions",
    "RestartStrategyOptions",
    "SchedulerOptions",
    "SparkOptions",
    "StateBackendOptions",
    "StateRecoveryOptions",
]

GROUPS: tuple[type, ...] = (
    CoreOptions,
    PipelineOptions,
    ExecutionOptions,
    DeploymentOptions,
    CheckpointingOptions,
    StateBackendOptions,
    StateRecoveryOptions,
    RestartStrategyOptions,
    DataPlaneOptions,
    NetworkOptions,
    SchedulerOptions,
    AutoscalerOptions,
    SparkOptions,
    LogOptions,
    MetricOptions,
    JobManagerOptions,
    HistoryServerOptions,
    RestOptions,
)
"""All groups, in the order of the page of all settings."""
