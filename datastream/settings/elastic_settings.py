"""The settings of reactive mode and of the autoscaler."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...common.configuration import Configuration
from ...common.errors import ConfigurationError
from ...common.options.options import AutoscalerOptions, CheckpointingOptions, MetricOptions, SchedulerOptions

if TYPE_CHECKING:
    from ...protocol.scheduling.autoscaler import AutoscalerSettings
    from ...protocol.scheduling.reactive import ReactiveSettings


def reactive_settings(configuration: Configuration) -> ReactiveSettings | None:
    """How a job follows the size of its cluster, `None` if it is not to.

    Raises:
        ConfigurationError: It takes no checkpoints, or has an autoscaler too.
    """
    if configuration.get(SchedulerOptions.SCHEDULER_MODE) != "reactive":
        return None
    _check_checkpoints(configuration, "scheduler-mode: reactive")
    if configuration.get(AutoscalerOptions.ENABLED):
        raise ConfigurationError(
            "scheduler-mode: reactive and job.autoscaler.enabled contradict each other: either the size of "
            "the cluster decides, or the load; choose one"
        )
    from ...protocol.scheduling.reactive import ReactiveSettings

    return ReactiveSettings(
        cooldown_ms=configuration.get(SchedulerOptions.COOLDOWN).to_millis(),
        stabilization_ms=configuration.get(SchedulerOptions.STABILIZATION).to_millis(),
    )


def autoscaler_settings(configuration: Configuration) -> AutoscalerSettings | None:
    """What the autoscaler of a job aims at, `None` if it has none.

    Raises:
        ConfigurationError: The job takes no checkpoints, has no metrics, or two settings contradict.
    """
    if not configuration.get(AutoscalerOptions.ENABLED):
        return None
    _check_checkpoints(configuration, "job.autoscaler.enabled")
    if not configuration.get(MetricOptions.UPDATE_INTERVAL).to_millis():
        raise ConfigurationError(
            f"job.autoscaler.enabled needs metrics, and {MetricOptions.UPDATE_INTERVAL.key} is 0"
        )
    # Here and not above: few jobs have one, and all would import it before they start.
    from ...protocol.scheduling.autoscaler import AutoscalerSettings

    settings = AutoscalerSettings(
        target=configuration.get(AutoscalerOptions.TARGET),
        lower=configuration.get(AutoscalerOptions.LOWER),
        upper=configuration.get(AutoscalerOptions.UPPER),
        window_ms=configuration.get(AutoscalerOptions.WINDOW).to_millis(),
        stabilization_ms=configuration.get(AutoscalerOptions.STABILIZATION).to_millis(),
        scale_down_ms=configuration.get(AutoscalerOptions.SCALE_DOWN_INTERVAL).to_millis(),
        most_growth=configuration.get(AutoscalerOptions.MOST_GROWTH),
        most_shrinkage=configuration.get(AutoscalerOptions.MOST_SHRINKAGE),
        is_scale_down_enabled=configuration.get(AutoscalerOptions.SCALE_DOWN_ENABLED),
        lag_ms=configuration.get(AutoscalerOptions.LAG).to_millis(),
        catch_up_ms=configuration.get(AutoscalerOptions.CATCH_UP).to_millis(),
        lowest=configuration.get(AutoscalerOptions.LOWEST),
        highest=configuration.get(AutoscalerOptions.HIGHEST),
        excluded=frozenset(filter(None, configuration.get(AutoscalerOptions.EXCLUDED).split(";"))),
    )
    _check(settings)
    return settings


def _check(settings: AutoscalerSettings) -> None:
    if not 0 <= settings.lower < settings.target <= settings.upper <= 1:
        raise ConfigurationError(
            f"job.autoscaler.utilization.min, .target and .max are {settings.lower:g}, {settings.target:g} "
            f"and {settings.upper:g}; they must be in this order, between 0 and 1"
        )
    if not 1 <= settings.lowest <= settings.highest:
        raise ConfigurationError(
            f"job.autoscaler.vertex.min-parallelism is {settings.lowest} and .max-parallelism "
            f"{settings.highest}; both must be at least 1, in this order"
        )
    if settings.most_growth <= 0 or not 0 < settings.most_shrinkage < 1:
        raise ConfigurationError(
            f"job.autoscaler.scale-up.max-factor is {settings.most_growth:g} and scale-down.max-factor "
            f"{settings.most_shrinkage:g}; the first must be above 0, the second between 0 and 1"
        )
    if settings.window_ms <= 0 or settings.catch_up_ms <= 0:
        raise ConfigurationError(
            "job.autoscaler.metrics.window and job.autoscaler.catch-up.duration must be longer than 0"
        )


def _check_checkpoints(configuration: Configuration, what: str) -> None:
    if configuration.get(CheckpointingOptions.CHECKPOINTING_INTERVAL) is None:
        raise ConfigurationError(
            f"{what} needs checkpoints, through which state moves; set execution.checkpointing.interval"
        )
