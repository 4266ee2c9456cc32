"""Restart strategies: what they decide on each failure, given its time."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
from tidegate.protocol.failover import (
    ExponentialDelayRestart,
    FailureRateRestart,
    FixedDelayRestart,
    GiveUp,
    NoRestart,
    Restart,
    RestartStrategy,
)


def delays(strategy: RestartStrategy, times_ms: Iterable[int]) -> list[int | None]:
    """The delay decided on at each failure, `None` for giving up."""
    decisions = [strategy.on_failure(time_ms) for time_ms in times_ms]
    return [decision.delay_ms if isinstance(decision, Restart) else None for decision in decisions]


def test_without_restarts_the_first_failure_is_final() -> None:
    decision = NoRestart().on_failure(0)
    assert isinstance(decision, GiveUp)
    assert "restart-strategy.type" in decision.reason


def test_fixed_delay_restarts_so_often_however_far_apart() -> None:
    assert delays(FixedDelayRestart(2, 70), [0, 10**9, 2 * 10**9]) == [70, 70, None]


def test_failure_rate_counts_within_its_window_only() -> None:
    strategy = FailureRateRestart(max_failures=2, interval_ms=100, delay_ms=5)
    assert delays(strategy, [0, 50, 100, 149]) == [5, 5, 5, None]


def test_failure_rate_tolerates_any_number_of_slow_failures() -> None:
    strategy = FailureRateRestart(max_failures=1, interval_ms=100, delay_ms=5)
    assert delays(strategy, range(0, 1_000, 100)) == [5] * 10


def exponential(**changed: float) -> ExponentialDelayRestart:
    settings = {
        "initial_backoff_ms": 10,
        "max_backoff_ms": 50,
        "multiplier": 2.0,
        "reset_threshold_ms": 1_000,
        **changed,
    }
    return ExponentialDelayRestart(**settings)  # type: ignore[arg-type]


def test_exponential_delay_grows_up_to_its_bound() -> None:
    assert delays(exponential(), range(5)) == [10, 20, 40, 50, 50]


def test_exponential_delay_starts_anew_after_a_quiet_time_behind_the_restart() -> None:
    # The restart after the second failure comes 20 ms late, and the quiet time counts from there.
    assert delays(exponential(), [0, 1, 1 + 1_019]) == [10, 20, 40]
    assert delays(exponential(), [0, 1, 1 + 1_020]) == [10, 20, 10]


def test_exponential_delay_gives_up_after_so_many_in_a_row_and_a_quiet_time_forgives() -> None:
    assert delays(exponential(max_attempts=2), [0, 1, 2]) == [10, 20, None]
    assert delays(exponential(max_attempts=2), [0, 1, 5_000, 5_001, 5_002]) == [10, 20, 10, 20, None]


def test_jitter_stays_within_its_share_and_follows_the_seed() -> None:
    first, second = (delays(exponential(jitter_factor=0.5, seed=seed), range(5)) for seed in (1, 2))
    assert first == delays(exponential(jitter_factor=0.5, seed=1), range(5))
    assert first != second
    for delay, middle in zip(first, [10, 20, 40, 50, 50], strict=True):
        assert delay is not None
        assert middle * 0.5 - 1 <= delay <= middle * 1.5


@pytest.mark.parametrize(
    "make",
    [
        lambda: FixedDelayRestart(0, 1),
        lambda: FailureRateRestart(0, 100, 1),
        lambda: exponential(max_attempts=0),
    ],
)
def test_the_reason_for_giving_up_names_the_bound(make: Callable[[], RestartStrategy]) -> None:
    decision = make().on_failure(0)
    assert isinstance(decision, GiveUp)
    assert "0" in decision.reason
