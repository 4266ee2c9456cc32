"""The table of tracking (at-least-once) is what the tracker does; without a row nothing happens."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tidegate.protocol.checkpoints.alignment_table import AlignmentInput
from tidegate.protocol.checkpoints.barrier_handler import (
    AbortCheckpoint,
    AlignmentAbortReason,
    AlignmentCommand,
    AlignmentEvent,
    AlignmentTimePassed,
    BarrierAnnounced,
    BarrierKnown,
    BarrierReceived,
    BytesBuffered,
    CancelMarkerAnnounced,
    CancelMarkerReceived,
    ChannelEnded,
    CheckpointGivenUp,
    CheckpointTriggered,
    EndAnnounced,
    TakeSnapshot,
)
from tidegate.protocol.checkpoints.tracking import TRACKING_TABLE, BarrierTracker, Tracking, TrackingStep
from tidegate.protocol.elements import CheckpointBarrier
from tidegate.protocol.ids import CheckpointId

CHANNELS, TIMEOUT_MS = 3, 50
DECIDED, OLDEST, NEW, TRACKED = 4, 5, 6, 7
IDS = {Tracking.DECIDED: DECIDED, Tracking.TRACKED: TRACKED, Tracking.NEW: NEW, Tracking.NONE: DECIDED}
SUBSUMED = AbortCheckpoint(CheckpointId(OLDEST), AlignmentAbortReason.SUBSUMED)


def barrier(number: int, timeout_ms: int | None = None, oldest: int | None = None) -> CheckpointBarrier:
    pending = None if oldest is None else CheckpointId(oldest)
    return CheckpointBarrier(CheckpointId(number), 0, aligned_timeout_ms=timeout_ms, oldest_pending=pending)


EVENTS: dict[AlignmentInput, Callable[[int], AlignmentEvent]] = {
    AlignmentInput.BARRIER: lambda number: BarrierReceived(1, barrier(number)),
    AlignmentInput.KNOWN: lambda number: BarrierKnown(1, barrier(number, TIMEOUT_MS)),
    AlignmentInput.ANNOUNCED: lambda number: BarrierAnnounced(1, barrier(number, TIMEOUT_MS)),
    AlignmentInput.KNOWN_ALIGNED: lambda number: BarrierKnown(1, barrier(number)),
    AlignmentInput.ANNOUNCED_ALIGNED: lambda number: BarrierAnnounced(1, barrier(number)),
    AlignmentInput.CANCEL: lambda number: CancelMarkerReceived(1, CheckpointId(number)),
    AlignmentInput.CANCEL_ANNOUNCED: lambda number: CancelMarkerAnnounced(1, CheckpointId(number)),
    AlignmentInput.ENDED: lambda number: ChannelEnded(1),
    AlignmentInput.END_ANNOUNCED: lambda number: EndAnnounced(1),
    AlignmentInput.TRIGGERED: lambda number: CheckpointTriggered(barrier(number)),
    AlignmentInput.GIVEN_UP: lambda number: CheckpointGivenUp(CheckpointId(number)),
    AlignmentInput.EXPIRED: lambda number: BarrierKnown(1, barrier(1, oldest=number + 1)),
    AlignmentInput.TOO_MUCH_BUFFERED: lambda number: BytesBuffered(1_000_000),
    AlignmentInput.TIME_PASSED: lambda number: AlignmentTimePassed(),
}


def tracker(*ended: int) -> BarrierTracker:
    """One that has decided checkpoint 4, and tracks 5 and 7.

    The barrier of 5 is missing in channels 1 and 2, that of 7 in channel 1.
    """
    result = BarrierTracker(CHANNELS)
    result.handle(CancelMarkerReceived(0, CheckpointId(DECIDED)), 0)
    for channel in ended:
        result.handle(ChannelEnded(channel), 0)
    if len(ended) < CHANNELS:
        result.handle(BarrierReceived(0, barrier(OLDEST)), 10)
        result.handle(BarrierReceived(0, barrier(TRACKED)), 20)
        result.handle(BarrierReceived(2, barrier(TRACKED)), 30)
    return result


def aborted(number: int, reason: AlignmentAbortReason) -> AbortCheckpoint:
    return AbortCheckpoint(CheckpointId(number), reason)


REASON = AlignmentAbortReason
SNAPSHOT = TakeSnapshot(barrier(TRACKED), 20, 1, 0)
EXPECTED: dict[tuple[AlignmentInput, Tracking], list[AlignmentCommand]] = {
    (AlignmentInput.BARRIER, Tracking.NEW): [],
    (AlignmentInput.BARRIER, Tracking.TRACKED): [SUBSUMED, SNAPSHOT],
    (AlignmentInput.CANCEL, Tracking.NEW): [SUBSUMED, aborted(NEW, REASON.CANCELLED_UPSTREAM)],
    (AlignmentInput.CANCEL, Tracking.TRACKED): [SUBSUMED, aborted(TRACKED, REASON.CANCELLED_UPSTREAM)],
    (AlignmentInput.ENDED, Tracking.NONE): [SUBSUMED, SNAPSHOT],
    (AlignmentInput.TRIGGERED, Tracking.NEW): [],
    (AlignmentInput.EXPIRED, Tracking.NEW): [SUBSUMED, aborted(NEW, REASON.GIVEN_UP)],
    (AlignmentInput.EXPIRED, Tracking.TRACKED): [SUBSUMED, aborted(TRACKED, REASON.SUBSUMED)],
}


def test_every_step_is_in_a_row_and_every_row_and_event_has_an_example() -> None:
    assert {step for steps in TRACKING_TABLE.values() for step in steps} == set(TrackingStep)
    assert set(EXPECTED) == set(TRACKING_TABLE)
    assert set(EVENTS) == set(AlignmentInput)


@pytest.mark.parametrize("event", AlignmentInput)
@pytest.mark.parametrize("tracking", Tracking)
def test_what_an_event_leads_to(event: AlignmentInput, tracking: Tracking) -> None:
    is_about_none = (event, Tracking.NONE) in TRACKING_TABLE
    target = tracker()
    commands = target.handle(EVENTS[event](IDS[tracking]), 40)
    target.validate()
    assert commands == EXPECTED.get((event, Tracking.NONE if is_about_none else tracking), [])


def test_the_coordinator_triggers_a_task_without_open_channels() -> None:
    commands = tracker(0, 1, 2).handle(CheckpointTriggered(barrier(NEW)), 40)
    assert commands == [TakeSnapshot(barrier(NEW), 40, -1, 0)]
