"""Whether and when a failed job is restarted.

Sources: Flink's restart strategies (none, fixed delay, failure rate, exponential delay). What a job declares
is a `RestartStrategyConfiguration`; a `Failover` adds the memory of earlier failures.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...common.restart_strategy import (
    ExponentialDelayRestartStrategyConfiguration,
    FailureRateRestartStrategyConfiguration,
    FixedDelayRestartStrategyConfiguration,
    NoRestartStrategyConfiguration,
    RestartStrategyConfiguration,
)


@dataclass(frozen=True, slots=True)
class Restart:
    """Restart after `delay_ms`."""

    delay_ms: int


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Do not restart; the job fails for `reason`."""

    reason: str


RestartDecision = Restart | GiveUp


class Failover(ABC):
    """Remembers failures and decides on each new one."""

    @abstractmethod
    def on_failure(self, now_ms: int) -> RestartDecision:
        """Decide after a failure at `now_ms`."""


def failover_of(strategy: RestartStrategyConfiguration, seed: int = 0) -> Failover:
    """Start with no failures.

    Args:
        strategy: What the job declares. `RestartStrategies.fall_back_restart()` must be resolved before.
        seed: Source of the random part of exponential delays. It must differ from job to job, so that
            jobs which one failure stopped do not restart at the same moment.
    """
    return _FAILOVERS[type(strategy)](strategy, seed)


class _NoRestart(Failover):
    def on_failure(self, now_ms: int) -> RestartDecision:
        return GiveUp("restarts are switched off (restart-strategy.type: none)")


class _FixedDelay(Failover):
    def __init__(self, strategy: FixedDelayRestartStrategyConfiguration) -> None:
        self._strategy = strategy
        self._used = 0

    def on_failure(self, now_ms: int) -> RestartDecision:
        most = self._strategy.restart_attempts
        if self._used >= most:
            return GiveUp(f"all {most} restarts of the fixed-delay strategy are used")
        self._used += 1
        return Restart(self._strategy.delay_ms)


class _FailureRate(Failover):
    def __init__(self, strategy: FailureRateRestartStrategyConfiguration) -> None:
        self._strategy = strategy
        self._failures: deque[int] = deque()

    def on_failure(self, now_ms: int) -> RestartDecision:
        strategy = self._strategy
        while self._failures and self._failures[0] <= now_ms - strategy.failure_interval_ms:
            self._failures.popleft()
        self._failures.append(now_ms)
        most = strategy.max_failures_per_interval
        if len(self._failures) > most:
            return GiveUp(f"more than {most} failures within {strategy.failure_interval_ms} ms")
        return Restart(strategy.delay_ms)


class _ExponentialDelay(Failover):
    """Waits longer after each failure, and starts from the initial delay after a time without failure."""

    def __init__(self, strategy: ExponentialDelayRestartStrategyConfiguration, seed: int) -> None:
        self._strategy = strategy
        self._seed = seed
        self._current_ms = 0.0
        self._last_failure_ms: int | None = None
        self._used = 0

    def on_failure(self, now_ms: int) -> RestartDecision:
        strategy, last = self._strategy, self._last_failure_ms
        if last is None or now_ms - last >= strategy.reset_backoff_threshold_ms + self._current_ms:
            self._current_ms, self._used = float(strategy.initial_backoff_ms), 0
        else:
            grown = self._current_ms * strategy.backoff_multiplier
            self._current_ms = min(grown, float(strategy.max_backoff_ms))
        self._last_failure_ms = now_ms
        self._used += 1
        most = strategy.attempts_before_reset_backoff
        if self._used > most:
            return GiveUp(f"all {most} restarts of the exponential-delay strategy are used")
        jitter = strategy.jitter_factor
        spread = random.Random(self._seed + self._used).uniform(-jitter, jitter)
        return Restart(min(int(self._current_ms * (1 + spread)), strategy.max_backoff_ms))


_FAILOVERS: dict[type[RestartStrategyConfiguration], Callable[[Any, int], Failover]] = {
    NoRestartStrategyConfiguration: lambda strategy, seed: _NoRestart(),
    FixedDelayRestartStrategyConfiguration: lambda strategy, seed: _FixedDelay(strategy),
    FailureRateRestartStrategyConfiguration: lambda strategy, seed: _FailureRate(strategy),
    ExponentialDelayRestartStrategyConfiguration: _ExponentialDelay,
}
