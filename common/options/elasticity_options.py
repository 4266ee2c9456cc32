"""Options of jobs that change their parallelism, with Flink's keys, class names and defaults.

The page of all settings is generated from these declarations and the texts under them.
"""

from __future__ import annotations

from ..config_options import (
    BOOLEAN,
    DURATION,
    FLOAT,
    INTEGER,
    STRING,
    ConfigOption,
    choice,
)
from ..time import Duration

__all__ = [
    "AutoscalerOptions",
    "SchedulerOptions",
]


class SchedulerOptions:
    """Reactive mode.

    Whether a job follows the size of its cluster: see [reactive mode](elasticity.md#reactive-mode).
    """

    SCHEDULER_MODE = ConfigOption("scheduler-mode", choice("none", "reactive"), "none")
    """[`reactive`](elasticity.md#reactive-mode): the job uses as many slots as the cluster has room for, at
    any time."""
    COOLDOWN = ConfigOption(
        "jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling",
        DURATION,
        Duration.of_seconds(30),
        deprecated_keys=("jobmanager.adaptive-scheduler.scaling-interval.min",),
    )
    """Time after a rescale in which the job does not follow a growth of the cluster."""
    STABILIZATION = ConfigOption(
        "jobmanager.adaptive-scheduler.executing.resource-stabilization-timeout",
        DURATION,
        Duration.of_minutes(1),
    )
    """Time for which a larger cluster must have kept its size, so that nodes that come one by one cause one
    rescale."""


class AutoscalerOptions:
    """Autoscaler.

    Whether operators get more or fewer subtasks by how busy they are: see
    [autoscaler](elasticity.md#autoscaler).
    """

    ENABLED = ConfigOption("job.autoscaler.enabled", BOOLEAN, False)
    """Switches on the [autoscaler](elasticity.md#autoscaler)."""
    TARGET = ConfigOption(
        "job.autoscaler.utilization.target",
        FLOAT,
        0.7,
        deprecated_keys=("job.autoscaler.target.utilization",),
    )
    """The share of its time in which an operator should be busy."""
    UPPER = ConfigOption("job.autoscaler.utilization.max", FLOAT, 0.9)
    """An operator that is busy for a larger share of its time gets more subtasks."""
    LOWER = ConfigOption("job.autoscaler.utilization.min", FLOAT, 0.4)
    """An operator that is busy for a smaller share of its time gets fewer."""
    WINDOW = ConfigOption("job.autoscaler.metrics.window", DURATION, Duration.of_minutes(15))
    """Time over which averages are taken."""
    STABILIZATION = ConfigOption("job.autoscaler.stabilization.interval", DURATION, Duration.of_minutes(5))
    """Time after a start or a rescale in which the autoscaler decides nothing."""
    SCALE_DOWN_ENABLED = ConfigOption("job.autoscaler.scale-down.enabled", BOOLEAN, True)
    """Whether operators may get fewer subtasks."""
    SCALE_DOWN_INTERVAL = ConfigOption("job.autoscaler.scale-down.interval", DURATION, Duration.of_hours(1))
    """Time within which an operator keeps the most subtasks that it needed."""
    MOST_GROWTH = ConfigOption("job.autoscaler.scale-up.max-factor", FLOAT, 100_000.0)
    """The most subtasks that an operator may gain at once, as a multiple of those that it has."""
    MOST_SHRINKAGE = ConfigOption("job.autoscaler.scale-down.max-factor", FLOAT, 0.6)
    """The largest share of its subtasks that an operator may lose at once."""
    LOWEST = ConfigOption("job.autoscaler.vertex.min-parallelism", INTEGER, 1)
    """Smallest parallelism of every operator."""
    HIGHEST = ConfigOption("job.autoscaler.vertex.max-parallelism", INTEGER, 200)
    """Largest parallelism of every operator."""
    EXCLUDED = ConfigOption("job.autoscaler.vertex.exclude.ids", STRING, "")
    """Uids of operators that the autoscaler leaves as they are, separated by semicolons."""
    LAG = ConfigOption("job.autoscaler.backlog-processing.lag-threshold", DURATION, Duration.of_minutes(5))
    """An operator whose event time is further behind has to catch up."""
    CATCH_UP = ConfigOption("job.autoscaler.catch-up.duration", DURATION, Duration.of_minutes(30))
    """Time in which an operator that is behind should catch up."""
