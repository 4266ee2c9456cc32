"""When a checkpoint may be triggered."""

from __future__ import annotations

from tidegate.protocol.checkpoints.abort_reasons import AbortReason
from tidegate.protocol.checkpoints.checkpoint_events import CheckpointRequested, RequestId
from tidegate.protocol.checkpoints.trigger import (
    MAX_WAITING_REQUESTS,
    NEVER_MS,
    TriggerDecider,
    TriggerPolicy,
)
from tidegate.protocol.elements import SnapshotKind


def request(
    number: int, kind: SnapshotKind = SnapshotKind.CHECKPOINT, is_forced: bool = False
) -> CheckpointRequested:
    return CheckpointRequested(RequestId(number), kind, is_forced=is_forced)


def test_nothing_is_due_before_the_tasks_run_or_after_they_stopped() -> None:
    decider = TriggerDecider(TriggerPolicy(interval_ms=10))
    assert decider.obstacle(10_000, 0) is AbortReason.TASKS_NOT_RUNNING
    decider.start(10_000, 5)
    decider.stop()
    assert decider.obstacle(10_000, 0) is AbortReason.TASKS_NOT_RUNNING
    assert decider.due_at_ms(0) == NEVER_MS


def test_the_first_is_due_after_the_initial_delay_and_the_next_an_interval_after_the_trigger() -> None:
    decider = TriggerDecider(TriggerPolicy(interval_ms=100))
    decider.start(1_000, 30)
    assert decider.due_at_ms(0) == 1_030
    assert decider.obstacle(1_029, 0) is AbortReason.NOT_DUE
    assert decider.obstacle(1_030, 0) is None
    assert decider.take(1_040) is None
    assert decider.due_at_ms(0) == 1_140


def test_the_pause_counts_from_the_last_completed_one() -> None:
    decider = TriggerDecider(TriggerPolicy(interval_ms=100, min_pause_ms=50))
    decider.start(0, 0)
    decider.take(0)
    decider.checkpoint_completed(80)
    assert decider.due_at_ms(0) == 130
    assert decider.obstacle(129, 0) is AbortReason.MIN_PAUSE
    assert decider.obstacle(130, 0) is None


def test_the_bound_on_concurrent_checkpoints_holds_for_periods_and_requests() -> None:
    decider = TriggerDecider(TriggerPolicy(interval_ms=10, max_concurrent=2))
    decider.start(0, 0)
    decider.request(request(1, SnapshotKind.SAVEPOINT))
    assert decider.obstacle(100, 2) is AbortReason.TOO_MANY_CONCURRENT
    assert decider.due_at_ms(2) == NEVER_MS
    assert decider.obstacle(100, 1) is None


def test_a_forced_savepoint_skips_interval_pause_and_bound() -> None:
    decider = TriggerDecider(TriggerPolicy(interval_ms=10, min_pause_ms=1_000))
    decider.start(0, 0)
    decider.checkpoint_completed(0)
    decider.request(request(1))
    forced = request(2, SnapshotKind.SAVEPOINT, is_forced=True)
    decider.request(forced)
    assert decider.obstacle(1, 1) is None
    assert decider.due_at_ms(1) <= 1
    assert decider.take(1) == forced
    assert decider.obstacle(1, 1) is AbortReason.TOO_MANY_CONCURRENT
    assert decider.due_at_ms(1) == NEVER_MS


def test_nothing_is_triggered_while_more_wait_to_be_deleted_than_may_be_under_way() -> None:
    decider = TriggerDecider(TriggerPolicy(interval_ms=10, max_concurrent=2))
    decider.start(0, 0)
    decider.request(request(1, SnapshotKind.SAVEPOINT, is_forced=True))
    assert not decider.counted(2)
    assert decider.obstacle(100, 0) is None
    assert not decider.counted(3)
    assert decider.obstacle(100, 0) is AbortReason.TOO_MANY_TO_DELETE
    assert decider.due_at_ms(0) == NEVER_MS
    assert decider.counted(2), "nothing is held back any more"
    assert decider.due_at_ms(0) <= 100


def test_a_request_skips_interval_and_pause_and_is_used_up() -> None:
    decider = TriggerDecider(TriggerPolicy(interval_ms=None, min_pause_ms=1_000))
    decider.start(0, 0)
    decider.checkpoint_completed(0)
    decider.request(request(1))
    assert decider.obstacle(1, 0) is None
    assert decider.take(1) == request(1)
    assert decider.obstacle(1_000_000, 0) is AbortReason.SCHEDULER_STOPPED


def test_a_request_does_not_use_up_the_period() -> None:
    decider = TriggerDecider(TriggerPolicy(interval_ms=100))
    decider.start(0, 100)
    decider.request(request(1))
    decider.take(50)
    assert decider.due_at_ms(0) == 100


def test_savepoints_go_first_and_else_the_order_is_kept() -> None:
    decider = TriggerDecider(TriggerPolicy(interval_ms=None))
    decider.start(0, 0)
    savepoint = SnapshotKind.SAVEPOINT
    forced = request(5, savepoint, is_forced=True)
    for waiting in (request(1), request(2, savepoint), request(3), request(4, savepoint), forced):
        decider.request(waiting)
    assert [each.request_id for each in decider.take_all()] == [5, 2, 4, 1, 3]
    assert decider.take_all() == []


def test_so_many_requests_may_wait_and_no_more() -> None:
    decider = TriggerDecider(TriggerPolicy(interval_ms=None))
    for number in range(MAX_WAITING_REQUESTS):
        assert not decider.is_full
        decider.request(request(number))
    assert decider.is_full
    assert len(decider.take_all()) == MAX_WAITING_REQUESTS
