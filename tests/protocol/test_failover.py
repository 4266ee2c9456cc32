"""Restart strategies: what they decide on each failure, given its time."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
from tidegate.common.restart_strategy import RestartStrategies as Strategies
from tidegate.protocol.scheduling.failover import Failover, GiveUp, Restart, failover_of


def delays(failover: Failover, times_ms: Iterable[int]) -> list[int | None]:
    """The delay decided on at each failure, `None` for giving up."""
    decisions = [failover.on_failure(time_ms) for time_ms in times_ms]
    return [decision.delay_ms if isinstance(decision, Restart) else None for decision in decisions]


def test_without_restarts_the_first_failure_is_final() -> None:
    decision = failover_of(Strategies.no_restart()).on_failure(0)
    assert isinstance(decision, GiveUp)
    assert "restart-strategy.type" in decision.reason


def test_fixed_delay_restarts_so_often_however_far_apart() -> None:
    assert delays(failover_of(Strategies.fixed_delay_restart(2, 70)), [0, 10**9, 2 * 10**9]) == [70, 70, None]


def test_failure_rate_counts_within_its_window_only() -> None:
    failover = failover_of(Strategies.failure_rate_restart(2, 100, 5))
    assert delays(failover, [0, 50, 100, 149]) == [5, 5, 5, None]


def test_failure_rate_tolerates_any_number_of_slow_failures() -> None:
    failover = failover_of(Strategies.failure_rate_restart(1, 100, 5))
    assert delays(failover, range(0, 1_000, 100)) == [5] * 10


def exponential(jitter_factor: float = 0.0, max_attempts: int = 1_000, seed: int = 0) -> Failover:
    strategy = Strategies.exponential_delay_restart(10, 50, 2.0, 1_000, jitter_factor, max_attempts)
    return failover_of(strategy, seed)


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
        lambda: failover_of(Strategies.fixed_delay_restart(3, 1)),
        lambda: failover_of(Strategies.failure_rate_restart(3, 100, 1)),
        lambda: exponential(max_attempts=3),
    ],
)
def test_the_reason_for_giving_up_names_the_bound(make: Callable[[], Failover]) -> None:
    failover = make()
    *_, decision = [failover.on_failure(0) for _ in range(4)]
    assert isinstance(decision, GiveUp)
    assert "3" in decision.reason
