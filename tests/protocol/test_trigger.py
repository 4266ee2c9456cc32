"""When a checkpoint may be triggered."""

from __future__ import annotations

from tidegate.protocol.trigger import NEVER_MS, TriggerDecider, TriggerPolicy


def test_nothing_is_due_before_the_tasks_run_or_after_they_stopped() -> None:
    decider = TriggerDecider(TriggerPolicy(interval_ms=10))
    assert not decider.take(10_000, 0)
    decider.start(10_000, 5)
    decider.stop()
    assert decider.due_at_ms(0) == NEVER_MS


def test_the_first_is_due_after_the_initial_delay_and_the_next_an_interval_after_the_trigger() -> None:
    decider = TriggerDecider(TriggerPolicy(interval_ms=100))
    decider.start(1_000, 30)
    assert decider.due_at_ms(0) == 1_030
    assert not decider.take(1_029, 0)
    assert decider.take(1_040, 0)
    assert decider.due_at_ms(0) == 1_140


def test_the_pause_counts_from_the_end_of_the_last_one() -> None:
    decider = TriggerDecider(TriggerPolicy(interval_ms=100, min_pause_ms=50))
    decider.start(0, 0)
    assert decider.take(0, 0)
    decider.checkpoint_ended(80)
    assert decider.due_at_ms(0) == 130
    assert not decider.take(129, 0)
    assert decider.take(130, 0)


def test_the_bound_on_concurrent_checkpoints_holds_for_periods_and_requests() -> None:
    decider = TriggerDecider(TriggerPolicy(interval_ms=10, max_concurrent=2))
    decider.start(0, 0)
    decider.request()
    assert not decider.take(100, 2)
    assert decider.due_at_ms(2) == NEVER_MS
    assert decider.take(100, 1)


def test_a_request_skips_interval_and_pause_and_is_used_up() -> None:
    decider = TriggerDecider(TriggerPolicy(interval_ms=None, min_pause_ms=1_000))
    decider.start(0, 0)
    decider.checkpoint_ended(0)
    decider.request()
    decider.request()
    assert decider.take(1, 0)
    assert decider.take(1, 0)
    assert not decider.take(1_000_000, 0)


def test_a_request_does_not_use_up_the_period() -> None:
    decider = TriggerDecider(TriggerPolicy(interval_ms=100))
    decider.start(0, 100)
    decider.request()
    assert decider.take(50, 0)
    assert decider.due_at_ms(0) == 100
