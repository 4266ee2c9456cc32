"""The table of alignment is what the machine does: each row can be reached; without a row nothing happens."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tidegate.protocol.checkpoints.alignment import (
    AbortCheckpoint,
    AlignmentAbortReason,
    AlignmentEvent,
    AlignmentTimePassed,
    BarrierAligner,
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
from tidegate.protocol.checkpoints.alignment_table import (
    TABLE,
    AlignmentInput,
    AlignmentState,
    Relation,
    Step,
)
from tidegate.protocol.elements import CheckpointBarrier
from tidegate.protocol.ids import CheckpointId

CHANNELS, LIMIT_BYTES, TIMEOUT_MS = 4, 10, 50
DECIDED, OLDER, UNDER_WAY, NEWER = 4, 5, 6, 7
IDS = {Relation.DECIDED: DECIDED, Relation.OLDER: OLDER, Relation.SAME: UNDER_WAY, Relation.NEWER: NEWER}
ABORTS = {
    Step.ABORT_SUBSUMED: AlignmentAbortReason.SUBSUMED,
    Step.ABORT_CANCELLED: AlignmentAbortReason.CANCELLED_UPSTREAM,
    Step.ABORT_TOO_MUCH: AlignmentAbortReason.TOO_MUCH_BUFFERED,
    Step.ABORT_GIVEN_UP: AlignmentAbortReason.GIVEN_UP,
    Step.REFUSE_CANCELLED: AlignmentAbortReason.CANCELLED_UPSTREAM,
    Step.REFUSE_GIVEN_UP: AlignmentAbortReason.GIVEN_UP,
}


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
    AlignmentInput.TOO_MUCH_BUFFERED: lambda number: BytesBuffered(LIMIT_BYTES + 1),
    AlignmentInput.TIME_PASSED: lambda number: AlignmentTimePassed(),
}


def aligner_in(state: AlignmentState) -> BarrierAligner:
    """An aligner that has decided checkpoint 4, and has checkpoint 6 under way where one is."""
    aligner = BarrierAligner(CHANNELS, max_buffered_bytes=LIMIT_BYTES)
    aligner.handle(CancelMarkerReceived(0, CheckpointId(DECIDED)), 0)
    if state is AlignmentState.ALIGNING:
        aligner.handle(BarrierReceived(0, barrier(UNDER_WAY)), 0)
    elif state is AlignmentState.RECORDING:
        aligner.handle(BarrierKnown(0, barrier(UNDER_WAY, 0)), 0)
    assert aligner.state is state
    return aligner


def relations(state: AlignmentState) -> list[Relation]:
    """Those that a checkpoint can have in a state."""
    return {
        AlignmentState.FLOWING: [Relation.DECIDED, Relation.NEWER],
        AlignmentState.ALIGNING: [Relation.DECIDED, Relation.OLDER, Relation.SAME, Relation.NEWER],
        AlignmentState.RECORDING: [Relation.DECIDED, Relation.SAME, Relation.NEWER],
    }[state]


def test_every_event_has_an_example() -> None:
    assert set(EVENTS) == set(AlignmentInput)


@pytest.mark.parametrize("event", AlignmentInput)
@pytest.mark.parametrize("state", AlignmentState)
def test_without_a_row_nothing_happens(state: AlignmentState, event: AlignmentInput) -> None:
    for relation in relations(state):
        if (state, event, relation) in TABLE or (state, event, Relation.ANY) in TABLE:
            continue
        aligner = aligner_in(state)
        before = (aligner.newest, aligner.last_decided, aligner.due_ms, aligner.counts_buffered)
        assert aligner.handle(EVENTS[event](IDS[relation]), 0) == []
        assert (aligner.newest, aligner.last_decided, aligner.due_ms, aligner.counts_buffered) == before


@pytest.mark.parametrize("row", TABLE, ids=lambda row: "-".join(each.name.lower() for each in row))
def test_a_row_is_performed(row: tuple[AlignmentState, AlignmentInput, Relation]) -> None:
    state, event, relation = row
    assert relation is Relation.ANY or relation in relations(state)
    aligner = aligner_in(state)
    commands = aligner.handle(EVENTS[event](IDS.get(relation, DECIDED)), 0)
    aligner.validate()
    aborted = [command.reason for command in commands if isinstance(command, AbortCheckpoint)]
    assert aborted == [ABORTS[step] for step in TABLE[row] if step in ABORTS]
    is_begun = Step.BEGIN in TABLE[row]
    assert (aligner.newest == NEWER and aligner.state is AlignmentState.ALIGNING) is is_begun


def test_a_snapshot_names_the_channel_of_its_barrier_and_what_was_processed_since_the_first() -> None:
    aligner = BarrierAligner(3)
    aligner.handle(BarrierReceived(2, barrier(5)), 10, consumed_bytes=700)
    # An older barrier, and the end of another channel, have nothing to do with the snapshot.
    aligner.handle(BarrierReceived(1, barrier(4)), 11, consumed_bytes=800)
    aligner.handle(ChannelEnded(0), 12, consumed_bytes=850)
    (snapshot, _) = aligner.handle(BarrierReceived(1, barrier(5)), 13, consumed_bytes=900)
    assert snapshot == TakeSnapshot(barrier(5), 10, 1, 200)


def test_a_barrier_that_overtakes_by_time_names_the_channel_that_it_came_through() -> None:
    aligner = BarrierAligner(3)
    timed = barrier(5, TIMEOUT_MS)
    aligner.handle(BarrierReceived(2, timed), 10, consumed_bytes=700)
    aligner.handle(ChannelEnded(0), 12, consumed_bytes=850)
    commands = aligner.handle(AlignmentTimePassed(), TIMEOUT_MS, consumed_bytes=900)
    (snapshot,) = (each for each in commands if isinstance(each, TakeSnapshot))
    assert (snapshot.channel, snapshot.processed_bytes) == (2, 200)
