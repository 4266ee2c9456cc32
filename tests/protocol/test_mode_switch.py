"""A task handles each barrier as that says, whatever the barriers before said."""

from __future__ import annotations

from tidegate.protocol.checkpoints.alignment import (
    AbortCheckpoint,
    AlignmentAbortReason,
    BarrierAnnounced,
    BarrierReceived,
    BlockChannel,
    ChannelEnded,
    CheckpointTriggered,
    ResumeChannels,
    TakeSnapshot,
)
from tidegate.protocol.checkpoints.barrier_handler import FROM_COORDINATOR
from tidegate.protocol.checkpoints.mode_switch import SwitchingHandler
from tidegate.protocol.elements import CheckpointBarrier, CheckpointingMode
from tidegate.protocol.ids import CheckpointId

EXACTLY, AT_LEAST = CheckpointingMode.EXACTLY_ONCE, CheckpointingMode.AT_LEAST_ONCE


def barrier(
    checkpoint_id: int, mode: CheckpointingMode | None, oldest_pending: int | None = None
) -> CheckpointBarrier:
    oldest = None if oldest_pending is None else CheckpointId(oldest_pending)
    return CheckpointBarrier(CheckpointId(checkpoint_id), 0, mode=mode, oldest_pending=oldest)


def test_a_barrier_without_a_mode_changes_nothing() -> None:
    handler = SwitchingHandler(AT_LEAST, 2)
    assert handler.handle(BarrierReceived(0, barrier(1, None)), 0) == []
    assert handler.mode is AT_LEAST


def test_the_first_barrier_of_another_mode_is_handled_in_that_mode() -> None:
    handler = SwitchingHandler(EXACTLY, 2)
    first, second, third = barrier(1, EXACTLY), barrier(2, AT_LEAST), barrier(3, EXACTLY)
    assert handler.handle(BarrierReceived(0, first), 0) == [BlockChannel(0)]
    assert handler.handle(BarrierReceived(1, first), 0) == [
        TakeSnapshot(first, 0, 1, 0),
        ResumeChannels((0,)),
    ]
    assert handler.handle(BarrierReceived(0, second), 0) == []
    assert handler.handle(BarrierReceived(1, second), 1) == [TakeSnapshot(second, 0, 1, 0)]
    assert handler.handle(BarrierReceived(1, third), 2) == [BlockChannel(1)]
    handler.validate()


def test_what_was_being_aligned_is_given_up_and_its_channels_go_on() -> None:
    handler = SwitchingHandler(EXACTLY, 2)
    handler.handle(BarrierReceived(0, barrier(1, EXACTLY)), 0)
    assert handler.handle(BarrierReceived(1, barrier(2, AT_LEAST, oldest_pending=2)), 0) == [
        AbortCheckpoint(CheckpointId(1), AlignmentAbortReason.SUBSUMED),
        ResumeChannels((0,)),
    ]
    handler.validate()


def test_what_arrives_in_another_mode_ends_the_alignment_before_its_turn_comes() -> None:
    handler = SwitchingHandler(EXACTLY, 2)
    handler.handle(BarrierReceived(0, barrier(1, EXACTLY)), 0)
    second = barrier(2, AT_LEAST, oldest_pending=2)
    assert ResumeChannels((0,)) in handler.handle(BarrierAnnounced(0, second), 0)
    assert handler.handle(BarrierReceived(1, barrier(1, EXACTLY)), 0) == [], "it is over"
    assert handler.mode is AT_LEAST
    handler.handle(BarrierReceived(0, second), 0)
    assert handler.handle(BarrierReceived(1, second), 1) == [TakeSnapshot(second, 0, 1, 0)]


def test_a_late_barrier_does_not_bring_the_old_mode_back() -> None:
    handler = SwitchingHandler(AT_LEAST, 2)
    handler.handle(BarrierReceived(0, barrier(2, EXACTLY)), 0)
    assert handler.handle(BarrierReceived(1, barrier(1, AT_LEAST)), 0) == []
    assert handler.mode is EXACTLY


def test_channels_that_ended_before_stay_ended() -> None:
    handler = SwitchingHandler(EXACTLY, 2)
    handler.handle(ChannelEnded(0), 0)
    second = barrier(2, AT_LEAST)
    assert handler.handle(BarrierReceived(1, second), 0) == [TakeSnapshot(second, 0, 1, 0)]
    handler.handle(ChannelEnded(1), 0)
    third = barrier(3, EXACTLY)
    assert handler.handle(CheckpointTriggered(third), 0) == [TakeSnapshot(third, 0, FROM_COORDINATOR, 0)]
    assert handler.handle(CheckpointTriggered(third), 0) == []
