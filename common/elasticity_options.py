"""The options of jobs that change their parallelism, with Flink's keys, class names and defaults."""

from __future__ import annotations

from .config_options import ConfigOption, ConfigOptions
from .time import Duration

__all__ = ["AutoscalerOptions", "SchedulerOptions"]


class SchedulerOptions:
    """Whether a job follows the size of its cluster."""

    SCHEDULER_MODE: ConfigOption[str] = (
        ConfigOptions.key("scheduler-mode").choice_type("none", "reactive").default_value("none")
    )
    """`reactive`: the job uses as many slots as the cluster has room for, at any time."""
    COOLDOWN: ConfigOption[Duration] = (
        ConfigOptions.key("jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling")
        .duration_type()
        .default_value(Duration.of_seconds(30))
        .with_deprecated_keys("jobmanager.adaptive-scheduler.scaling-interval.min")
    )
    """After a rescale no growth of the cluster is followed for so long."""
    STABILIZATION: ConfigOption[Duration] = (
        ConfigOptions.key("jobmanager.adaptive-scheduler.executing.resource-stabilization-timeout")
        .duration_type()
        .default_value(Duration.of_minutes(1))
    )
    """A larger cluster must have kept its size for so long."""


class AutoscalerOptions:
    """Whether operators get more or fewer subtasks by how busy they are."""

    ENABLED: ConfigOption[bool] = (
        ConfigOptions.key("job.autoscaler.enabled").boolean_type().default_value(False)
    )
    TARGET: ConfigOption[float] = (
        ConfigOptions.key("job.autoscaler.utilization.target")
        .float_type()
        .default_value(0.7)
        .with_deprecated_keys("job.autoscaler.target.utilization")
    )
    """The share of its time in which an operator should be busy."""
    UPPER: ConfigOption[float] = (
        ConfigOptions.key("job.autoscaler.utilization.max").float_type().default_value(0.9)
    )
    """Above it an operator gets more subtasks."""
    LOWER: ConfigOption[float] = (
        ConfigOptions.key("job.autoscaler.utilization.min").float_type().default_value(0.4)
    )
    """Below it an operator gets fewer."""
    WINDOW: ConfigOption[Duration] = (
        ConfigOptions.key("job.autoscaler.metrics.window")
        .duration_type()
        .default_value(Duration.of_minutes(15))
    )
    """Decisions are made by averages over so long."""
    STABILIZATION: ConfigOption[Duration] = (
        ConfigOptions.key("job.autoscaler.stabilization.interval")
        .duration_type()
        .default_value(Duration.of_minutes(5))
    )
    """After the job began to run, or was rescaled, nothing is decided for so long."""
    SCALE_DOWN_ENABLED: ConfigOption[bool] = (
        ConfigOptions.key("job.autoscaler.scale-down.enabled").boolean_type().default_value(True)
    )
    SCALE_DOWN_INTERVAL: ConfigOption[Duration] = (
        ConfigOptions.key("job.autoscaler.scale-down.interval")
        .duration_type()
        .default_value(Duration.of_hours(1))
    )
    """An operator keeps as many subtasks as it needed at most within so long."""
    MOST_GROWTH: ConfigOption[float] = (
        ConfigOptions.key("job.autoscaler.scale-up.max-factor").float_type().default_value(100_000.0)
    )
    """An operator may get so many times its subtasks more at once."""
    MOST_SHRINKAGE: ConfigOption[float] = (
        ConfigOptions.key("job.autoscaler.scale-down.max-factor").float_type().default_value(0.6)
    )
    """It may lose this share of them at once."""
    LOWEST: ConfigOption[int] = (
        ConfigOptions.key("job.autoscaler.vertex.min-parallelism").int_type().default_value(1)
    )
    HIGHEST: ConfigOption[int] = (
        ConfigOptions.key("job.autoscaler.vertex.max-parallelism").int_type().default_value(200)
    )
    EXCLUDED: ConfigOption[str] = (
        ConfigOptions.key("job.autoscaler.vertex.exclude.ids").string_type().default_value("")
    )
    """Uids of operators that stay as they are, separated by semicolons."""
    LAG: ConfigOption[Duration] = (
        ConfigOptions.key("job.autoscaler.backlog-processing.lag-threshold")
        .duration_type()
        .default_value(Duration.of_minutes(5))
    )
    """An operator whose event time is further behind the clock has to catch up."""
    CATCH_UP: ConfigOption[Duration] = (
        ConfigOptions.key("job.autoscaler.catch-up.duration")
        .duration_type()
        .default_value(Duration.of_minutes(30))
    )
    """In so long."""
