"""Settings of reactive mode and of the autoscaler: Flink's names, and what contradicts itself."""

from __future__ import annotations

import pytest
from tidegate.common import Configuration
from tidegate.common.errors import ConfigurationError
from tidegate.datastream.settings.elastic_settings import autoscaler_settings, reactive_settings

AUTOSCALER = {"job.autoscaler.enabled": "true", "execution.checkpointing.interval": "1 s"}
REACTIVE = {"scheduler-mode": "reactive", "execution.checkpointing.interval": "1 s"}


def configured(options: dict[str, str]) -> Configuration:
    configuration = Configuration()
    for key, value in options.items():
        configuration.set_string(key, value)
    return configuration


def test_nothing_is_on_by_default() -> None:
    assert reactive_settings(Configuration()) is None
    assert autoscaler_settings(Configuration()) is None


def test_flinks_names_have_flinks_defaults() -> None:
    reactive, autoscaler = (
        reactive_settings(configured(REACTIVE)),
        autoscaler_settings(configured(AUTOSCALER)),
    )
    assert reactive is not None
    assert autoscaler is not None
    assert (reactive.cooldown_ms, reactive.stabilization_ms) == (30_000, 60_000)
    assert (autoscaler.target, autoscaler.window_ms, autoscaler.most_shrinkage) == (0.7, 900_000, 0.6)


def test_older_names_mean_the_same() -> None:
    old = {
        **AUTOSCALER,
        "job.autoscaler.target.utilization": "0.6",
        "job.autoscaler.vertex.exclude.ids": "enrich;write",
    }
    settings = autoscaler_settings(configured(old))
    assert settings is not None
    assert (settings.target, settings.excluded) == (0.6, {"enrich", "write"})


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"scheduler-mode": "reactive"}, "needs checkpoints"),
        ({"job.autoscaler.enabled": "true"}, "needs checkpoints"),
        ({**AUTOSCALER, "job.autoscaler.utilization.min": "0.8"}, "in this order, between 0 and 1"),
        ({**AUTOSCALER, "job.autoscaler.vertex.min-parallelism": "0"}, "at least 1"),
        ({**AUTOSCALER, "job.autoscaler.scale-down.max-factor": "1.5"}, "between 0 and 1"),
        ({**AUTOSCALER, "job.autoscaler.metrics.window": "0 s"}, "longer than 0"),
        ({**AUTOSCALER, **REACTIVE}, "contradict each other"),
    ],
)
def test_what_cannot_work_is_refused(options: dict[str, str], problem: str) -> None:
    configuration = configured(options)

    def read() -> None:
        reactive_settings(configuration)
        autoscaler_settings(configuration)

    with pytest.raises(ConfigurationError, match=problem):
        read()
