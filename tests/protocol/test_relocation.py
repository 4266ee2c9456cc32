"""A coordinator leaves a node that is being drained after a checkpoint."""

from __future__ import annotations

from dataclasses import replace

from tidegate.protocol.scheduling.relocation import CoordinatorMove, MoveFacts, MoveStep

DRAINED = MoveFacts(must_move=True, is_steady=True, newest=7)


def test_it_takes_a_checkpoint_once_and_leaves_when_that_is_complete() -> None:
    move = CoordinatorMove(timeout_ms=1_000)
    assert move.decide(0, DRAINED) is MoveStep.TAKE_CHECKPOINT
    assert move.decide(10, DRAINED) is MoveStep.STAY
    assert move.is_moving
    assert move.decide(20, replace(DRAINED, newest=8)) is MoveStep.LEAVE


def test_it_leaves_without_a_checkpoint_when_there_is_no_more_time() -> None:
    move = CoordinatorMove(timeout_ms=1_000)
    move.decide(0, DRAINED)
    assert move.decide(999, DRAINED) is MoveStep.STAY
    assert move.decide(1_000, DRAINED) is MoveStep.LEAVE


def test_it_waits_for_a_rescale_or_a_restart_to_end() -> None:
    move = CoordinatorMove(timeout_ms=1_000)
    restarting = replace(DRAINED, is_steady=False, newest=None)
    assert move.decide(0, restarting) is MoveStep.STAY
    assert move.decide(10, replace(restarting, is_steady=True)) is MoveStep.TAKE_CHECKPOINT


def test_it_stays_when_the_drain_is_withdrawn_and_begins_again_with_the_next() -> None:
    move = CoordinatorMove(timeout_ms=1_000)
    move.decide(0, DRAINED)
    assert move.decide(500, replace(DRAINED, must_move=False)) is MoveStep.STAY
    assert not move.is_moving
    assert move.decide(2_000, DRAINED) is MoveStep.TAKE_CHECKPOINT
