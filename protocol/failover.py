"""Whether and when a failed job is restarted.

Sources: Flink's restart strategies (none, fixed delay, failure rate, exponential delay).
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Restart:
    """Restart after `delay_ms`."""

    delay_ms: int


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Do not restart; the job fails for `reason`."""

    reason: str


RestartDecision = Restart | GiveUp


class RestartStrategy(ABC):
    """Remembers failures and decides on each new one."""

    @abstractmethod
    def on_failure(self, now_ms: int) -> RestartDecision:
        """Decide after a failure at `now_ms`."""


class NoRestart(RestartStrategy):
    """The first failure is final."""

    def on_failure(self, now_ms: int) -> RestartDecision:
        return GiveUp("restarts are switched off (restart-strategy.type: none)")


@dataclass(slots=True)
class FixedDelayRestart(RestartStrategy):
    """At most `attempts` restarts, each after `delay_ms`."""

    attempts: int
    delay_ms: int
    used: int = 0

    def on_failure(self, now_ms: int) -> RestartDecision:
        if self.used >= self.attempts:
            return GiveUp(f"all {self.attempts} restarts of the fixed-delay strategy are used")
        self.used += 1
        return Restart(self.delay_ms)


class FailureRateRestart(RestartStrategy):
    """Restarts until more than `max_failures` fall into one window of `interval_ms`."""

    def __init__(self, max_failures: int, interval_ms: int, delay_ms: int) -> None:
        self._max_failures = max_failures
        self._interval_ms = interval_ms
        self._delay_ms = delay_ms
        self._failures: deque[int] = deque()

    def on_failure(self, now_ms: int) -> RestartDecision:
        while self._failures and self._failures[0] <= now_ms - self._interval_ms:
            self._failures.popleft()
        self._failures.append(now_ms)
        if len(self._failures) > self._max_failures:
            return GiveUp(f"more than {self._max_failures} failures within {self._interval_ms} ms")
        return Restart(self._delay_ms)


@dataclass(slots=True)
class ExponentialDelayRestart(RestartStrategy):
    """Waits longer after each failure, and starts anew after a quiet time.

    `jitter_factor` is the share of a delay that is added or taken away at random, within the longest
    delay. `seed` must differ from job to job: what one failure stopped should not restart at one moment.
    """

    initial_backoff_ms: int
    max_backoff_ms: int
    multiplier: float
    reset_threshold_ms: int
    jitter_factor: float = 0.0
    max_attempts: int = 2**31 - 1
    seed: int = 0
    current_ms: float = 0.0
    last_failure_ms: int | None = None
    used: int = 0

    def on_failure(self, now_ms: int) -> RestartDecision:
        last = self.last_failure_ms
        if last is None or now_ms - last >= self.reset_threshold_ms + self.current_ms:
            self.current_ms, self.used = float(self.initial_backoff_ms), 0
        else:
            self.current_ms = min(self.current_ms * self.multiplier, float(self.max_backoff_ms))
        self.last_failure_ms = now_ms
        self.used += 1
        if self.used > self.max_attempts:
            return GiveUp(f"all {self.max_attempts} restarts of the exponential-delay strategy are used")
        spread = random.Random(self.seed + self.used).uniform(-self.jitter_factor, self.jitter_factor)
        return Restart(min(int(self.current_ms * (1 + spread)), self.max_backoff_ms))
