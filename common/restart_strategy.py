"""What follows a failure of a job (names of `pyflink.common.restart_strategy`).

These are declarations; the decision itself is taken by the failover core in `protocol`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from .config_options import DURATION, ConfigOption
from .configuration import Configuration
from .errors import ConfigurationError
from .options.options import RestartStrategyOptions as Options
from .time import Duration

__all__ = [
    "ExponentialDelayRestartStrategyConfiguration",
    "FailureRateRestartStrategyConfiguration",
    "FallbackRestartStrategyConfiguration",
    "FixedDelayRestartStrategyConfiguration",
    "NoRestartStrategyConfiguration",
    "RestartStrategies",
    "RestartStrategyConfiguration",
    "resolved_strategy",
    "restart_strategy_from",
]


class RestartStrategyConfiguration(ABC):
    """A declared restart strategy. Obtain one from `RestartStrategies`."""

    @abstractmethod
    def get_description(self) -> str:
        """Return the strategy in words, for logs and the console."""


@dataclass(frozen=True)
class NoRestartStrategyConfiguration(RestartStrategyConfiguration):
    """The first failure ends the job."""

    def get_description(self) -> str:
        """Say that there is no restart."""
        return "Restart deactivated."


@dataclass(frozen=True)
class FallbackRestartStrategyConfiguration(RestartStrategyConfiguration):
    """The configured strategy, else exponential delay with checkpoints and none without."""

    def get_description(self) -> str:
        """Say that the job chose none."""
        return "Default restart strategy: exponential delay with checkpoints, else none."


@dataclass(frozen=True)
class FixedDelayRestartStrategyConfiguration(RestartStrategyConfiguration):
    """A limited number of restarts, each after the same delay."""

    restart_attempts: int
    delay_ms: int

    def __post_init__(self) -> None:
        _check(Options.FIXED_DELAY_ATTEMPTS, self.restart_attempts)

    def get_restart_attempts(self) -> int:
        """Return how many restarts are allowed."""
        return self.restart_attempts

    def get_delay_between_attempts_interval(self) -> timedelta:
        """Return the time between a failure and the restart."""
        return timedelta(milliseconds=self.delay_ms)

    def get_description(self) -> str:
        """Name the delay and the limit."""
        return f"Restart with fixed delay ({self.delay_ms} ms), {self.restart_attempts} attempts."


@dataclass(frozen=True)
class FailureRateRestartStrategyConfiguration(RestartStrategyConfiguration):
    """Restarts until too many failures fall into one interval."""

    max_failures_per_interval: int
    failure_interval_ms: int
    delay_ms: int

    def __post_init__(self) -> None:
        _check(Options.FAILURE_RATE_MAX_FAILURES_PER_INTERVAL, self.max_failures_per_interval)

    def get_max_failure_rate(self) -> int:
        """Return how many failures one interval may hold."""
        return self.max_failures_per_interval

    def get_failure_interval(self) -> timedelta:
        """Return the interval in which failures are counted."""
        return timedelta(milliseconds=self.failure_interval_ms)

    def get_delay_between_attempts_interval(self) -> timedelta:
        """Return the time between a failure and the restart."""
        return timedelta(milliseconds=self.delay_ms)

    def get_description(self) -> str:
        """Name the delay and the rate."""
        return (
            f"Restart with a delay of {self.delay_ms} ms, up to {self.max_failures_per_interval} "
            f"failures in {self.failure_interval_ms} ms."
        )


@dataclass(frozen=True)
class ExponentialDelayRestartStrategyConfiguration(RestartStrategyConfiguration):
    """Restarts whose delay grows with every failure and falls back after a quiet time."""

    initial_backoff_ms: int
    max_backoff_ms: int
    backoff_multiplier: float
    reset_backoff_threshold_ms: int
    jitter_factor: float
    attempts_before_reset_backoff: int

    def __post_init__(self) -> None:
        _check(Options.EXPONENTIAL_DELAY_INITIAL_BACKOFF, Duration.of_millis(self.initial_backoff_ms))
        _check(Options.EXPONENTIAL_DELAY_MAX_BACKOFF, Duration.of_millis(self.max_backoff_ms))
        longest, first = Options.EXPONENTIAL_DELAY_MAX_BACKOFF, Options.EXPONENTIAL_DELAY_INITIAL_BACKOFF
        if self.max_backoff_ms < self.initial_backoff_ms:
            raise ConfigurationError(
                f"{longest.key} is {self.max_backoff_ms} ms; it must be at least {first.key}, which is "
                f"{self.initial_backoff_ms} ms"
            )
        _check(Options.EXPONENTIAL_DELAY_BACKOFF_MULTIPLIER, self.backoff_multiplier)
        reset_threshold = Duration.of_millis(self.reset_backoff_threshold_ms)
        _check(Options.EXPONENTIAL_DELAY_RESET_BACKOFF_THRESHOLD, reset_threshold)
        _check(Options.EXPONENTIAL_DELAY_JITTER_FACTOR, self.jitter_factor)
        _check(Options.EXPONENTIAL_DELAY_ATTEMPTS, self.attempts_before_reset_backoff)

    def get_description(self) -> str:
        """Name the bounds of the delay."""
        return (
            f"Restart with exponential delay: {self.initial_backoff_ms} ms, times "
            f"{self.backoff_multiplier} after every failure, up to {self.max_backoff_ms} ms, reset "
            f"after {self.reset_backoff_threshold_ms} ms without failure."
        )


class RestartStrategies:
    """Factories for every restart strategy.

    Amounts of time are milliseconds, `datetime.timedelta`, `Duration` or a text such as `10 s`.
    """

    @staticmethod
    def no_restart() -> NoRestartStrategyConfiguration:
        """The first failure ends the job."""
        return NoRestartStrategyConfiguration()

    @staticmethod
    def fall_back_restart() -> FallbackRestartStrategyConfiguration:
        """The job leaves the choice to Tidegate."""
        return FallbackRestartStrategyConfiguration()

    @staticmethod
    def fixed_delay_restart(
        restart_attempts: int, delay_between_attempts: int | str | timedelta | Duration
    ) -> FixedDelayRestartStrategyConfiguration:
        """Restart a limited number of times, each after the same delay.

        Args:
            restart_attempts: how many restarts are allowed, at least 0.
            delay_between_attempts: time between a failure and the restart.

        Returns:
            The strategy.

        Raises:
            ConfigurationError: a value is out of its range.
        """
        return FixedDelayRestartStrategyConfiguration(
            restart_attempts, _millis("delay_between_attempts", delay_between_attempts)
        )

    @staticmethod
    def failure_rate_restart(
        failure_rate: int,
        failure_interval: int | str | timedelta | Duration,
        delay_interval: int | str | timedelta | Duration,
    ) -> FailureRateRestartStrategyConfiguration:
        """Restart until one interval holds too many failures.

        Args:
            failure_rate: how many failures one interval may hold, at least 1.
            failure_interval: the interval in which failures are counted.
            delay_interval: time between a failure and the restart.

        Returns:
            The strategy.

        Raises:
            ConfigurationError: a value is out of its range.
        """
        return FailureRateRestartStrategyConfiguration(
            failure_rate,
            _millis("failure_interval", failure_interval),
            _millis("delay_interval", delay_interval),
        )

    @staticmethod
    def exponential_delay_restart(
        initial_backoff: int | str | timedelta | Duration,
        max_backoff: int | str | timedelta | Duration,
        backoff_multiplier: float,
        reset_backoff_threshold: int | str | timedelta | Duration,
        jitter_factor: float,
        attempts_before_reset_backoff: int = Options.EXPONENTIAL_DELAY_ATTEMPTS.default,
    ) -> ExponentialDelayRestartStrategyConfiguration:
        """Restart with a delay that grows with every failure.

        Args:
            initial_backoff: delay before the first restart, more than zero.
            max_backoff: longest delay, at least the first one.
            backoff_multiplier: growth of the delay from one failure to the next, at least 1.
            reset_backoff_threshold: time without failure after which the delay starts from the first again.
            jitter_factor: share of a delay, 0 to 1, that is added or taken away at random.
            attempts_before_reset_backoff: failures in a row after which the job ends.

        Returns:
            The strategy.

        Raises:
            ConfigurationError: a value is out of its range.
        """
        return ExponentialDelayRestartStrategyConfiguration(
            _millis("initial_backoff", initial_backoff),
            _millis("max_backoff", max_backoff),
            backoff_multiplier,
            _millis("reset_backoff_threshold", reset_backoff_threshold),
            jitter_factor,
            attempts_before_reset_backoff,
        )


def restart_strategy_from(configuration: Configuration) -> RestartStrategyConfiguration:
    """Read the restart strategy that `restart-strategy.type` and its companions describe.

    Args:
        configuration: the job's settings.

    Returns:
        The strategy; the fallback where no type is set.

    Raises:
        ConfigurationError: a setting is malformed or out of its range.
    """
    kind = configuration.get(Options.RESTART_STRATEGY)
    if kind is None:
        return RestartStrategies.fall_back_restart()
    if kind == "exponential-delay":
        return _exponential_delay_from(configuration)
    if kind == "fixed-delay":
        return RestartStrategies.fixed_delay_restart(
            configuration.get(Options.FIXED_DELAY_ATTEMPTS),
            configuration.get(Options.FIXED_DELAY_DELAY),
        )
    if kind == "failure-rate":
        return RestartStrategies.failure_rate_restart(
            configuration.get(Options.FAILURE_RATE_MAX_FAILURES_PER_INTERVAL),
            configuration.get(Options.FAILURE_RATE_FAILURE_RATE_INTERVAL),
            configuration.get(Options.FAILURE_RATE_DELAY),
        )
    return RestartStrategies.no_restart()


def resolved_strategy(
    declared: RestartStrategyConfiguration, configuration: Configuration, takes_checkpoints: bool
) -> RestartStrategyConfiguration:
    """Replace the fallback: exponential delay, as configured, with checkpoints; no restart without them.

    Args:
        declared: the strategy that the program or the configuration chose, or the fallback.
        configuration: the job's settings.
        takes_checkpoints: whether the job takes checkpoints.

    Raises:
        ConfigurationError: a setting is malformed or out of its range.
    """
    if not isinstance(declared, FallbackRestartStrategyConfiguration):
        return declared
    return _exponential_delay_from(configuration) if takes_checkpoints else RestartStrategies.no_restart()


def _exponential_delay_from(configuration: Configuration) -> ExponentialDelayRestartStrategyConfiguration:
    return RestartStrategies.exponential_delay_restart(
        configuration.get(Options.EXPONENTIAL_DELAY_INITIAL_BACKOFF),
        configuration.get(Options.EXPONENTIAL_DELAY_MAX_BACKOFF),
        configuration.get(Options.EXPONENTIAL_DELAY_BACKOFF_MULTIPLIER),
        configuration.get(Options.EXPONENTIAL_DELAY_RESET_BACKOFF_THRESHOLD),
        configuration.get(Options.EXPONENTIAL_DELAY_JITTER_FACTOR),
        configuration.get(Options.EXPONENTIAL_DELAY_ATTEMPTS),
    )


def _millis(name: str, amount: int | str | timedelta | Duration) -> int:
    return DURATION.read(name, amount).to_millis()


def _check(option: ConfigOption[Any], value: object) -> None:
    option.read(option.key, value)
