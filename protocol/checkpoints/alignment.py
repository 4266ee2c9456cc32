"""Barrier alignment of one task (exactly-once), also where barriers may overtake records.

Source: Carbone et al., "Lightweight Asynchronous Snapshots for Distributed Dataflows" (2015), with
the refinements of Apache Flink: a newer barrier aborts an older alignment, a cancel marker releases
it, a channel that has ended counts as aligned for every later checkpoint, and a barrier may overtake
records (FLIP-76), at once or after it tried to align for a time.

What happens when is a table: `alignment_table.TABLE`. Here are the steps that its rows consist of.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any

from ..elements import CheckpointBarrier
from ..ids import CheckpointId
from .alignment_table import AlignmentInput, AlignmentState, Relation, Step, input_of, steps_for
from .barrier_handler import (
    NO_CHECKPOINT,
    AbortCheckpoint,
    AlignmentAbortReason,
    AlignmentCommand,
    AlignmentEvent,
    AlignmentTimePassed,
    BarrierAnnounced,
    BarrierHandler,
    BarrierKnown,
    BarrierReceived,
    BlockChannel,
    BytesBuffered,
    CancelMarkerAnnounced,
    CancelMarkerReceived,
    ChannelEnded,
    CheckpointGivenUp,
    CheckpointTriggered,
    EndAnnounced,
    FinishRecording,
    RecordChannels,
    ResumeChannels,
    TakeSnapshot,
    checkpoint_of,
)
from .tracking import BarrierTracker

__all__ = [
    "AbortCheckpoint",
    "AlignmentAbortReason",
    "AlignmentCommand",
    "AlignmentEvent",
    "AlignmentState",
    "AlignmentTimePassed",
    "BarrierAligner",
    "BarrierAnnounced",
    "BarrierHandler",
    "BarrierKnown",
    "BarrierReceived",
    "BarrierTracker",
    "BlockChannel",
    "BytesBuffered",
    "CancelMarkerAnnounced",
    "CancelMarkerReceived",
    "ChannelEnded",
    "CheckpointGivenUp",
    "CheckpointTriggered",
    "EndAnnounced",
    "FinishRecording",
    "RecordChannels",
    "ResumeChannels",
    "TakeSnapshot",
]


@dataclass(frozen=True, slots=True)
class _Happened:
    """An event with what its steps need."""

    event: Any
    checkpoint_id: CheckpointId
    now_ms: int
    consumed_bytes: int


@dataclass(slots=True)
class _Pending:
    """A checkpoint that is being aligned."""

    barrier: CheckpointBarrier
    started_ms: int
    started_bytes: int
    """What had been consumed when the first barrier came."""
    missing: set[int]
    """Open channels that have not delivered the barrier."""
    announced: set[int]
    """Channels in which the barrier has arrived, delivered or not."""
    channel: int
    """The channel of the last event about the checkpoint."""

    @property
    def checkpoint_id(self) -> CheckpointId:
        return self.barrier.checkpoint_id

    @property
    def overtakes_at_ms(self) -> int | None:
        """When the barrier may overtake, `None` for never."""
        timeout_ms = self.barrier.aligned_timeout_ms
        if timeout_ms == 0:
            # At once, also where this machine's clock is behind that of the coordinator.
            return self.started_ms
        return None if timeout_ms is None else self.barrier.timestamp_ms + timeout_ms

    def snapshot(self, barrier: CheckpointBarrier, consumed_bytes: int) -> TakeSnapshot:
        return TakeSnapshot(barrier, self.started_ms, self.channel, consumed_bytes - self.started_bytes)


@dataclass(slots=True)
class _Recording:
    """A checkpoint whose barrier overtook. `missing`: channels in which the barrier has not arrived."""

    checkpoint_id: CheckpointId
    started_bytes: int
    missing: set[int]


class BarrierAligner(BarrierHandler):
    """Exactly-once: a channel that delivered the barrier is blocked until all others have too.

    A barrier with an `aligned_timeout_ms` does not wait longer than that for the others: it overtakes the
    records before it, and these are recorded.

    Args:
        channel_count: Number of input channels.
        never_overtaken: Channels whose records must be processed before the snapshot in any case.
        max_buffered_bytes: The most that may wait in blocked channels, or be recorded, for one checkpoint.
    """

    def __init__(
        self,
        channel_count: int,
        never_overtaken: Collection[int] = (),
        max_buffered_bytes: int | None = None,
    ) -> None:
        super().__init__(channel_count)
        self._never_overtaken = frozenset(never_overtaken)
        self._max_buffered_bytes = max_buffered_bytes
        self._under_way: _Pending | _Recording | None = None
        self._blocked: set[int] = set()
        self._end_announced: set[int] = set()
        # What some upstream task refused, and what is older, has no more to overtake for.
        self._refused_upstream = CheckpointId(-1)
        self._steps: dict[Step, Callable[[_Happened], list[AlignmentCommand]]] = {
            Step.BEGIN: self._begin,
            Step.ARRIVE: self._arrive,
            Step.HEAR: self._hear,
            Step.ANNOUNCE: self._announce,
            Step.OVERTAKE: self._overtake_if_due,
            Step.CLOSE: self._close,
            Step.COUNT_ENDED: self._count_ended,
            Step.NOTE_END: self._note_end,
            Step.RECORDED: self._recorded,
            Step.NOTE_REFUSAL: self._note_refusal,
            Step.SNAPSHOT: lambda happened: self._trigger(happened.event.barrier, happened.now_ms),
            Step.REFUSE_CANCELLED: self._refuse(AlignmentAbortReason.CANCELLED_UPSTREAM),
            Step.REFUSE_GIVEN_UP: self._refuse(AlignmentAbortReason.GIVEN_UP),
            Step.ABORT_SUBSUMED: self._abort(AlignmentAbortReason.SUBSUMED),
            Step.ABORT_CANCELLED: self._abort(AlignmentAbortReason.CANCELLED_UPSTREAM),
            Step.ABORT_TOO_MUCH: self._abort(AlignmentAbortReason.TOO_MUCH_BUFFERED),
            Step.ABORT_GIVEN_UP: self._abort(AlignmentAbortReason.GIVEN_UP),
        }

    @property
    def state(self) -> AlignmentState:
        """What is under way."""
        if self._under_way is None:
            return AlignmentState.FLOWING
        is_pending = isinstance(self._under_way, _Pending)
        return AlignmentState.ALIGNING if is_pending else AlignmentState.RECORDING

    @property
    def due_ms(self) -> int | None:
        pending = self._under_way
        if not isinstance(pending, _Pending) or pending.missing & self._never_overtaken:
            return None
        return None if pending.checkpoint_id <= self._refused_upstream else pending.overtakes_at_ms

    @property
    def is_aligning(self) -> bool:
        return self._under_way is not None

    @property
    def counts_buffered(self) -> bool:
        is_recording = isinstance(self._under_way, _Recording)
        return self._max_buffered_bytes is not None and (bool(self._blocked) or is_recording)

    @property
    def newest(self) -> CheckpointId:
        return self._last if self._under_way is None else self._under_way.checkpoint_id

    # ------------------------------------------------------------ the table

    def _take(self, event: AlignmentEvent, now_ms: int, consumed_bytes: int) -> list[AlignmentCommand]:
        happened = _Happened(event, checkpoint_of(event), now_ms, consumed_bytes)
        if isinstance(event, BytesBuffered) and not self._is_too_much(event.size_bytes):
            return []
        return self._perform(input_of(event), happened)

    def _expired(self, checkpoint_id: CheckpointId) -> list[AlignmentCommand]:
        return self._perform(AlignmentInput.EXPIRED, _Happened(None, checkpoint_id, 0, 0))

    def _perform(self, kind: AlignmentInput, happened: _Happened) -> list[AlignmentCommand]:
        steps = steps_for(self.state, kind, self._relation(happened.checkpoint_id))
        return [command for step in steps for command in self._steps[step](happened)]

    def _relation(self, checkpoint_id: CheckpointId) -> Relation:
        if checkpoint_id == NO_CHECKPOINT:
            return Relation.ANY
        if self._under_way is not None and checkpoint_id == self._under_way.checkpoint_id:
            return Relation.SAME
        if checkpoint_id <= self._last:
            return Relation.DECIDED
        return Relation.NEWER if checkpoint_id > self.newest else Relation.OLDER

    def _is_too_much(self, size_bytes: int) -> bool:
        return self.counts_buffered and size_bytes > (self._max_buffered_bytes or 0)

    # ------------------------------------------------------------ steps: aligning

    @property
    def _pending(self) -> _Pending:
        assert isinstance(self._under_way, _Pending), "the table has this step only while aligning"
        return self._under_way

    def _begin(self, happened: _Happened) -> list[AlignmentCommand]:
        self._under_way = _Pending(
            happened.event.barrier,
            happened.now_ms,
            happened.consumed_bytes,
            missing=set(self._open),
            announced=set(),
            channel=happened.event.channel,
        )
        return []

    def _arrive(self, happened: _Happened) -> list[AlignmentCommand]:
        pending, channel = self._pending, happened.event.channel
        pending.channel = channel
        pending.announced.add(channel)
        pending.missing.discard(channel)
        if not pending.missing:
            return self._complete(pending, happened)
        self._blocked.add(channel)
        return [BlockChannel(channel), *self._overtake_if_due(happened)]

    def _close(self, happened: _Happened) -> list[AlignmentCommand]:
        self._blocked.discard(happened.event.channel)
        self._end_announced.discard(happened.event.channel)
        return []

    def _count_ended(self, happened: _Happened) -> list[AlignmentCommand]:
        pending, channel = self._pending, happened.event.channel
        pending.announced.discard(channel)
        pending.missing.discard(channel)
        if pending.missing:
            return []
        pending.channel = channel
        return self._complete(pending, happened)

    def _complete(self, pending: _Pending, happened: _Happened) -> list[AlignmentCommand]:
        self._under_way = None
        self._last = pending.checkpoint_id
        return [pending.snapshot(pending.barrier, happened.consumed_bytes), *self._resume()]

    def _resume(self) -> list[AlignmentCommand]:
        if not self._blocked:
            return []
        channels, self._blocked = tuple(sorted(self._blocked)), set()
        return [ResumeChannels(channels)]

    # ------------------------------------------------------------ steps: overtaking

    def _hear(self, happened: _Happened) -> list[AlignmentCommand]:
        pending = self._pending
        pending.channel = happened.event.channel
        if happened.event.barrier.aligned_timeout_ms == 0:
            # Upstream has switched: what it sends waits no longer than it did.
            pending.barrier = replace(pending.barrier, aligned_timeout_ms=0)
        return []

    def _announce(self, happened: _Happened) -> list[AlignmentCommand]:
        self._pending.announced.add(happened.event.channel)
        return []

    def _overtake_if_due(self, happened: _Happened) -> list[AlignmentCommand]:
        due_ms, pending = self.due_ms, self._pending
        if due_ms is None or due_ms > happened.now_ms:
            return []
        self._last = pending.checkpoint_id
        missing = pending.missing - pending.announced - self._end_announced
        self._under_way = recording = _Recording(pending.checkpoint_id, pending.started_bytes, missing)
        return [
            RecordChannels(pending.checkpoint_id, tuple(sorted(pending.missing))),
            pending.snapshot(replace(pending.barrier, aligned_timeout_ms=0), happened.consumed_bytes),
            *self._resume(),
            *self._finish_if_recorded(recording, happened),
        ]

    def _note_end(self, happened: _Happened) -> list[AlignmentCommand]:
        self._end_announced.add(happened.event.channel)
        return []

    def _recorded(self, happened: _Happened) -> list[AlignmentCommand]:
        """Everything before the barrier has arrived in a channel."""
        recording = self._under_way
        assert isinstance(recording, _Recording), "the table has this step only while recording"
        recording.missing.discard(happened.event.channel)
        return self._finish_if_recorded(recording, happened)

    def _finish_if_recorded(self, recording: _Recording, happened: _Happened) -> list[AlignmentCommand]:
        if recording.missing:
            return []
        self._under_way = None
        processed_bytes = happened.consumed_bytes - recording.started_bytes
        return [FinishRecording(recording.checkpoint_id, processed_bytes)]

    def _note_refusal(self, happened: _Happened) -> list[AlignmentCommand]:
        self._refused_upstream = max(self._refused_upstream, happened.event.checkpoint_id)
        return []

    # ------------------------------------------------------------ steps: aborting

    def _refuse(self, reason: AlignmentAbortReason) -> Callable[[_Happened], list[AlignmentCommand]]:
        def refuse(happened: _Happened) -> list[AlignmentCommand]:
            self._last = happened.checkpoint_id
            return [AbortCheckpoint(happened.checkpoint_id, reason)]

        return refuse

    def _abort(self, reason: AlignmentAbortReason) -> Callable[[_Happened], list[AlignmentCommand]]:
        def abort(happened: _Happened) -> list[AlignmentCommand]:
            assert self._under_way is not None
            self._last, self._under_way = self._under_way.checkpoint_id, None
            return [AbortCheckpoint(self._last, reason), *self._resume()]

        return abort

    def validate(self) -> None:
        assert self._blocked <= self._open, "an ended channel is blocked"
        assert self._end_announced <= self._open, "an ended channel is about to end"
        under_way = self._under_way
        if isinstance(under_way, _Recording):
            assert under_way.missing, "everything is recorded, but the recording was not closed"
            assert under_way.missing <= self._open, "records an ended channel"
            assert under_way.checkpoint_id == self._last, "records for another checkpoint"
        if isinstance(under_way, _Pending):
            assert under_way.missing, "alignment is complete but was not closed"
            assert under_way.checkpoint_id > self._last, "a decided checkpoint is pending"
            assert under_way.missing | self._blocked == self._open, "an open channel is unaccounted for"
        else:
            assert not self._blocked, "blocked without a pending checkpoint"
