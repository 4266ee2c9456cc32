from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from tidegate.common import Configuration, Duration, RestartStrategies
from tidegate.common.errors import ConfigurationError
from tidegate.common.restart_strategy import RestartStrategyConfiguration, restart_strategy_from

DEFAULT_EXPONENTIAL = RestartStrategies.exponential_delay_restart("1 s", "1 min", 1.5, "1 h", 0.1, 2**31 - 1)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, RestartStrategies.fall_back_restart()),
        ({"type": "none"}, RestartStrategies.no_restart()),
        ({"type": "off"}, RestartStrategies.no_restart()),
        ({"type": "disable"}, RestartStrategies.no_restart()),
        ({"type": "fixed-delay"}, RestartStrategies.fixed_delay_restart(1, 1_000)),
        (
            {"type": "FixedDelay", "fixed-delay.attempts": "3", "fixed-delay.delay": "10 s"},
            RestartStrategies.fixed_delay_restart(3, timedelta(seconds=10)),
        ),
        ({"type": "failure-rate"}, RestartStrategies.failure_rate_restart(1, 60_000, 1_000)),
        (
            {
                "type": "failure-rate",
                "failure-rate.max-failures-per-interval": "5",
                "failure-rate.failure-rate-interval": "2 min",
                "failure-rate.delay": "3 s",
            },
            RestartStrategies.failure_rate_restart(5, Duration.of_minutes(2), "3 s"),
        ),
        ({"type": "exponential-delay"}, DEFAULT_EXPONENTIAL),
        (
            {
                "type": "exponential-delay",
                "exponential-delay.initial-backoff": "10 ms",
                "exponential-delay.max-backoff": "20 ms",
                "exponential-delay.backoff-multiplier": "2",
                "exponential-delay.reset-backoff-threshold": "30 ms",
                "exponential-delay.jitter-factor": "0.5",
                "exponential-delay.attempts-before-reset-backoff": "7",
            },
            RestartStrategies.exponential_delay_restart(10, 20, 2.0, 30, 0.5, 7),
        ),
    ],
)
def test_the_settings_describe_the_same_strategy_as_the_factories(
    settings: dict[str, str], expected: RestartStrategyConfiguration
) -> None:
    configuration = Configuration()
    for key, text in settings.items():
        configuration.set_string(f"restart-strategy.{key}", text)
    assert restart_strategy_from(configuration) == expected


def test_strategies_give_their_values_as_in_pyflink() -> None:
    fixed = RestartStrategies.fixed_delay_restart(3, 10_000)
    assert fixed.get_restart_attempts() == 3
    assert fixed.get_delay_between_attempts_interval() == timedelta(seconds=10)
    rate = RestartStrategies.failure_rate_restart(2, "1 min", "5 s")
    assert rate.get_max_failure_rate() == 2
    assert rate.get_failure_interval() == timedelta(minutes=1)
    assert rate.get_delay_between_attempts_interval() == timedelta(seconds=5)


def test_descriptions_tell_the_strategies_apart() -> None:
    strategies: list[RestartStrategyConfiguration] = [
        RestartStrategies.no_restart(),
        RestartStrategies.fall_back_restart(),
        RestartStrategies.fixed_delay_restart(3, 10_000),
        RestartStrategies.failure_rate_restart(2, "1 min", "5 s"),
        DEFAULT_EXPONENTIAL,
    ]
    descriptions = [strategy.get_description() for strategy in strategies]
    assert len(set(descriptions)) == 5
    assert "10000 ms" in descriptions[2]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: RestartStrategies.fixed_delay_restart(-1, 0),
            r"fixed-delay\.attempts is -1; it must be at least 0",
        ),
        (lambda: RestartStrategies.fixed_delay_restart(1, "soon"), "delay_between_attempts .*soon"),
        (lambda: RestartStrategies.failure_rate_restart(0, 1, 1), "failures-per-interval"),
        (lambda: RestartStrategies.exponential_delay_restart(0, 1, 1, 1, 0), "initial-backoff"),
        (
            lambda: RestartStrategies.exponential_delay_restart(2, 1, 1, 1, 0),
            "max-backoff is 1 ms; it must be at least .*initial-backoff, which is 2 ms",
        ),
        (lambda: RestartStrategies.exponential_delay_restart(1, 1, 0.5, 1, 0), "multiplier"),
        (lambda: RestartStrategies.exponential_delay_restart(1, 1, 1, 1, 1.5), "jitter"),
        (lambda: RestartStrategies.exponential_delay_restart(1, 1, 1, 1, -0.1), "jitter"),
    ],
)
def test_values_out_of_range_are_refused(build: Callable[[], object], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        build()
