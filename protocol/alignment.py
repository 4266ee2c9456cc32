"""Barrier alignment of one task (exactly-once), also where barriers may overtake records.

Source: Carbone et al., "Lightweight Asynchronous Snapshots for Distributed Dataflows" (2015), with
the refinements of Apache Flink: a newer barrier aborts an older alignment, a cancel marker releases
it, a channel that has ended counts as aligned for every later checkpoint, and a barrier may overtake
records (FLIP-76), at once or after it tried to align for a time.

Alignment, per event (`pending` = the checkpoint being aligned, `last` = the highest id decided):

    event                   condition                   commands
    barrier(id)             id <= last or id < pending  none: it is stale
    barrier(id)             id == pending               BlockChannel; when it was the last one
                                                        missing: TakeSnapshot, ResumeChannels
    barrier(id)             id > pending                AbortCheckpoint(pending), ResumeChannels;
                                                        then as above
    cancel(id)              id <= last or id < pending  none
    cancel(id)              id == pending               AbortCheckpoint(id), ResumeChannels
    cancel(id)              id > pending                AbortCheckpoint(pending), ResumeChannels,
                                                        AbortCheckpoint(id)
    end of input            completes pending           TakeSnapshot, ResumeChannels
    direct trigger          no open channel, id > last  TakeSnapshot
    given up(pending)                                   AbortCheckpoint(pending), ResumeChannels
    barrier arrived that    the oldest one under way    AbortCheckpoint(pending < that),
    names the oldest one    - 1 > last                  ResumeChannels, AbortCheckpoint(that - 1)
    under way
    bytes buffered          more than the limit         AbortCheckpoint(pending), ResumeChannels

Overtaking, where the barrier says after how long (`recording` = the checkpoint whose snapshot is taken,
and whose records under way are not all here yet):

    event                   condition                   commands
    known(id) or            its time has come, no       RecordChannels, TakeSnapshot, ResumeChannels;
    announced(id)           channel is missing that     when the barrier has arrived in every
                            must be aligned, and no     channel: FinishRecording
                            cancel(id) was announced
    announced(recording)    was the last one missing    FinishRecording
    end announced           was the last one missing    FinishRecording
    announced(id), cancel   id > recording              AbortCheckpoint(recording)
    announced(id)
    cancel announced(id)    id == recording             AbortCheckpoint(recording)
    given up(recording)                                 AbortCheckpoint(recording)
    bytes buffered          more than the limit         AbortCheckpoint(recording)
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from .barrier_handler import (
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
)
from .elements import CheckpointBarrier
from .ids import CheckpointId
from .tracking import BarrierTracker

__all__ = [
    "AbortCheckpoint",
    "AlignmentAbortReason",
    "AlignmentCommand",
    "AlignmentEvent",
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


@dataclass(slots=True)
class _Pending:
    """A checkpoint that is being aligned. `missing`: open channels that have not delivered the barrier."""

    barrier: CheckpointBarrier
    started_ms: int
    missing: set[int]
    announced: set[int]
    """Channels in which the barrier has arrived, delivered or not."""

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


@dataclass(slots=True)
class _Recording:
    """A checkpoint whose barrier overtook. `missing`: channels in which the barrier has not arrived."""

    checkpoint_id: CheckpointId
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
        self._pending: _Pending | None = None
        self._recording: _Recording | None = None
        self._blocked: set[int] = set()
        self._end_announced: set[int] = set()
        # What some upstream task refused, and what is older, has no more to overtake for.
        self._refused_upstream = CheckpointId(-1)

    @property
    def due_ms(self) -> int | None:
        if self._pending is None or self._pending.missing & self._never_overtaken:
            return None
        if self._pending.checkpoint_id <= self._refused_upstream:
            return None
        return self._pending.overtakes_at_ms

    @property
    def is_aligning(self) -> bool:
        return self._pending is not None or self._recording is not None

    @property
    def counts_buffered(self) -> bool:
        return self._max_buffered_bytes is not None and (bool(self._blocked) or self._recording is not None)

    @property
    def newest(self) -> CheckpointId:
        return self._last if self._pending is None else self._pending.checkpoint_id

    # ------------------------------------------------------------ in turn

    def _on_barrier(self, channel: int, barrier: CheckpointBarrier, now_ms: int) -> list[AlignmentCommand]:
        commands = self._abort_recording_before(barrier.checkpoint_id)
        pending, opened = self._pending_for(barrier, now_ms)
        commands += opened
        if pending is None:
            return commands
        pending.announced.add(channel)
        pending.missing.discard(channel)
        if not pending.missing:
            return commands + self._complete()
        self._blocked.add(channel)
        return [*commands, BlockChannel(channel), *self._overtake_if_due(now_ms)]

    def _pending_for(
        self, barrier: CheckpointBarrier, now_ms: int
    ) -> tuple[_Pending | None, list[AlignmentCommand]]:
        """What is pending for a barrier, `None` if it is stale; a new one ends the alignment of an older."""
        pending = self._pending
        if barrier.checkpoint_id <= self._last:
            return None, []
        if pending is not None and barrier.checkpoint_id <= pending.checkpoint_id:
            return (pending if barrier.checkpoint_id == pending.checkpoint_id else None), []
        commands = self._abort_pending(AlignmentAbortReason.SUBSUMED)
        self._pending = _Pending(barrier, now_ms, set(self._open), set())
        return self._pending, commands

    def _on_cancel(self, checkpoint_id: CheckpointId) -> list[AlignmentCommand]:
        if checkpoint_id <= self._last:
            return []
        if self._pending is not None and checkpoint_id < self._pending.checkpoint_id:
            return []
        if self._pending is not None and checkpoint_id == self._pending.checkpoint_id:
            return self._abort_pending(AlignmentAbortReason.CANCELLED_UPSTREAM)
        commands = self._abort_any(AlignmentAbortReason.SUBSUMED)
        self._last = checkpoint_id
        return [*commands, AbortCheckpoint(checkpoint_id, AlignmentAbortReason.CANCELLED_UPSTREAM)]

    def _on_channel_ended(self, channel: int) -> list[AlignmentCommand]:
        self._blocked.discard(channel)
        self._end_announced.discard(channel)
        commands = self._recorded(channel)
        if self._pending is not None:
            self._pending.announced.discard(channel)
            self._pending.missing.discard(channel)
            if not self._pending.missing:
                commands += self._complete()
        return commands

    def _complete(self) -> list[AlignmentCommand]:
        assert self._pending is not None
        pending, self._pending = self._pending, None
        self._last = pending.checkpoint_id
        return [TakeSnapshot(pending.barrier, pending.started_ms), *self._resume()]

    def _abort_pending(self, reason: AlignmentAbortReason) -> list[AlignmentCommand]:
        if self._pending is None:
            return []
        checkpoint_id, self._pending = self._pending.checkpoint_id, None
        self._last = checkpoint_id
        return [AbortCheckpoint(checkpoint_id, reason), *self._resume()]

    def _resume(self) -> list[AlignmentCommand]:
        if not self._blocked:
            return []
        channels, self._blocked = tuple(sorted(self._blocked)), set()
        return [ResumeChannels(channels)]

    # ------------------------------------------------------------ ahead of its turn

    def _on_ahead_of_its_turn(self, event: AlignmentEvent, now_ms: int) -> list[AlignmentCommand]:
        if isinstance(event, BarrierKnown):
            return self._on_known(event.barrier, now_ms)
        if isinstance(event, BarrierAnnounced):
            return self._on_announced(event.channel, event.barrier, now_ms)
        if isinstance(event, AlignmentTimePassed):
            return self._overtake_if_due(now_ms)
        if isinstance(event, EndAnnounced):
            self._end_announced.add(event.channel)
            return self._recorded(event.channel)
        if isinstance(event, BytesBuffered):
            is_too_much = self.counts_buffered and event.size_bytes > (self._max_buffered_bytes or 0)
            return self._abort_any(AlignmentAbortReason.TOO_MUCH_BUFFERED) if is_too_much else []
        if isinstance(event, CheckpointGivenUp):
            return self._on_given_up(event.checkpoint_id)
        assert isinstance(event, CancelMarkerAnnounced)
        return self._on_cancel_announced(event.checkpoint_id)

    def _on_announced(self, channel: int, barrier: CheckpointBarrier, now_ms: int) -> list[AlignmentCommand]:
        commands = self._abort_recording_before(barrier.checkpoint_id)
        if self._recording is not None and self._recording.checkpoint_id == barrier.checkpoint_id:
            return commands + self._recorded(channel)
        return commands + self._on_known(barrier, now_ms, channel)

    def _on_known(
        self, barrier: CheckpointBarrier, now_ms: int, announced: int | None = None
    ) -> list[AlignmentCommand]:
        """A barrier that may overtake does; `announced` is its channel if all records before it are here."""
        commands = self._abort_recording_before(barrier.checkpoint_id)
        if barrier.aligned_timeout_ms is None:
            return commands
        pending, opened = self._pending_for(barrier, now_ms)
        if pending is None:
            return commands
        if announced is not None:
            pending.announced.add(announced)
        if barrier.aligned_timeout_ms == 0:
            # Upstream has switched: what it sends waits no longer than it did.
            pending.barrier = replace(pending.barrier, aligned_timeout_ms=0)
        return commands + opened + self._overtake_if_due(now_ms)

    def _overtake_if_due(self, now_ms: int) -> list[AlignmentCommand]:
        due_ms, pending = self.due_ms, self._pending
        if pending is None or due_ms is None or due_ms > now_ms:
            return []
        self._pending = None
        self._last = pending.checkpoint_id
        self._recording = _Recording(
            pending.checkpoint_id, pending.missing - pending.announced - self._end_announced
        )
        return [
            RecordChannels(pending.checkpoint_id, tuple(sorted(pending.missing))),
            TakeSnapshot(replace(pending.barrier, aligned_timeout_ms=0), pending.started_ms),
            *self._resume(),
            *self._finish_recording(),
        ]

    def _recorded(self, channel: int) -> list[AlignmentCommand]:
        """Everything before the barrier has arrived in a channel."""
        if self._recording is None or channel not in self._recording.missing:
            return []
        self._recording.missing.discard(channel)
        return self._finish_recording()

    def _finish_recording(self) -> list[AlignmentCommand]:
        if self._recording is None or self._recording.missing:
            return []
        finished, self._recording = self._recording, None
        return [FinishRecording(finished.checkpoint_id)]

    # ------------------------------------------------------------ giving up

    def _on_cancel_announced(self, checkpoint_id: CheckpointId) -> list[AlignmentCommand]:
        self._refused_upstream = max(self._refused_upstream, checkpoint_id)
        if self._recording is not None and self._recording.checkpoint_id == checkpoint_id:
            return self._abort_recording(AlignmentAbortReason.CANCELLED_UPSTREAM)
        return self._abort_recording_before(checkpoint_id)

    def _on_given_up(self, checkpoint_id: CheckpointId) -> list[AlignmentCommand]:
        under_way = self._pending or self._recording
        if under_way is None or under_way.checkpoint_id != checkpoint_id:
            return []
        return self._abort_any(AlignmentAbortReason.GIVEN_UP)

    def _abort_any(self, reason: AlignmentAbortReason) -> list[AlignmentCommand]:
        return self._abort_recording(reason) + self._abort_pending(reason)

    def _abort_pending_before(self, checkpoint_id: CheckpointId) -> list[AlignmentCommand]:
        commands = self._abort_recording_before(checkpoint_id)
        if self._pending is not None and self._pending.checkpoint_id < checkpoint_id:
            commands += self._abort_pending(AlignmentAbortReason.SUBSUMED)
        return commands

    def _abort_recording_before(self, checkpoint_id: CheckpointId) -> list[AlignmentCommand]:
        if self._recording is None or self._recording.checkpoint_id >= checkpoint_id:
            return []
        return self._abort_recording(AlignmentAbortReason.SUBSUMED)

    def _abort_recording(self, reason: AlignmentAbortReason) -> list[AlignmentCommand]:
        if self._recording is None:
            return []
        aborted, self._recording = self._recording, None
        return [AbortCheckpoint(aborted.checkpoint_id, reason)]

    def validate(self) -> None:
        assert self._blocked <= self._open, "an ended channel is blocked"
        assert self._end_announced <= self._open, "an ended channel is about to end"
        if self._recording is not None:
            assert self._pending is None, "aligns while the records of an older checkpoint are missing"
            assert self._recording.missing, "everything is recorded, but the recording was not closed"
            assert self._recording.missing <= self._open, "records an ended channel"
            assert self._recording.checkpoint_id == self._last, "records for another checkpoint"
        if self._pending is None:
            assert not self._blocked, "blocked without a pending checkpoint"
        else:
            assert self._pending.missing, "alignment is complete but was not closed"
            assert self._pending.checkpoint_id > self._last, "a decided checkpoint is pending"
            assert self._pending.missing | self._blocked == self._open, "an open channel is unaccounted for"
