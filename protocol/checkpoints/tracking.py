"""Barrier tracking (at-least-once) of one task: barriers are counted, and no channel is ever blocked.

Source: Flink's `CheckpointBarrierTracker`. Records behind a barrier may get into the snapshot, and come a
second time after a restore; in return nothing ever waits, so there is nothing to overtake either.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from ..elements import CheckpointBarrier
from ..ids import CheckpointId
from .barrier_handler import (
    AbortCheckpoint,
    AlignmentAbortReason,
    AlignmentCommand,
    AlignmentEvent,
    BarrierHandler,
    BarrierReceived,
    CancelMarkerReceived,
    ChannelEnded,
    CheckpointTriggered,
    TakeSnapshot,
)

MAX_TRACKED_CHECKPOINTS = 50
"""Bound on checkpoints tracked at once without alignment (Flink keeps as many)."""


class BarrierTracker(BarrierHandler):
    """At-least-once: never blocks, counts barriers, and may track several checkpoints at once."""

    def __init__(self, channel_count: int) -> None:
        super().__init__(channel_count)
        self._pending: OrderedDict[CheckpointId, _Tracked] = OrderedDict()

    @property
    def newest(self) -> CheckpointId:
        return max(self._pending, default=self._last)

    def _take(self, event: AlignmentEvent, now_ms: int, consumed_bytes: int) -> list[AlignmentCommand]:
        if isinstance(event, BarrierReceived):
            return self._on_barrier(event.channel, event.barrier, now_ms)
        if isinstance(event, CancelMarkerReceived):
            return self._on_cancel(event.checkpoint_id)
        if isinstance(event, ChannelEnded):
            return self._on_channel_ended(event.channel)
        if isinstance(event, CheckpointTriggered):
            return self._trigger(event.barrier, now_ms)
        # The others matter only where barriers overtake or alignment is bounded.
        return []

    def _expired(self, checkpoint_id: CheckpointId) -> list[AlignmentCommand]:
        commands = self._abort_pending_before(CheckpointId(checkpoint_id + 1))
        if self._last < checkpoint_id:
            self._last = checkpoint_id
            commands.append(AbortCheckpoint(checkpoint_id, AlignmentAbortReason.GIVEN_UP))
        return commands

    def _abort_pending_before(self, checkpoint_id: CheckpointId) -> list[AlignmentCommand]:
        commands: list[AlignmentCommand] = []
        for older in sorted(known for known in self._pending if known < checkpoint_id):
            commands += self._drop(older, AlignmentAbortReason.SUBSUMED)
        return commands

    def _on_barrier(self, channel: int, barrier: CheckpointBarrier, now_ms: int) -> list[AlignmentCommand]:
        if barrier.checkpoint_id <= self._last:
            return []
        tracked = self._pending.get(barrier.checkpoint_id)
        if tracked is None:
            tracked = _Tracked(barrier, now_ms, set(self._open))
            self._pending[barrier.checkpoint_id] = tracked
        tracked.missing.discard(channel)
        commands = self._complete_if_possible(channel)
        while len(self._pending) > MAX_TRACKED_CHECKPOINTS:
            commands += self._drop(min(self._pending), AlignmentAbortReason.SUBSUMED)
        return commands

    def _on_cancel(self, checkpoint_id: CheckpointId) -> list[AlignmentCommand]:
        if checkpoint_id <= self._last:
            return []
        commands = self._abort_pending_before(checkpoint_id)
        return commands + self._drop(checkpoint_id, AlignmentAbortReason.CANCELLED_UPSTREAM)

    def _on_channel_ended(self, channel: int) -> list[AlignmentCommand]:
        for tracked in self._pending.values():
            tracked.missing.discard(channel)
        return self._complete_if_possible(channel)

    def _complete_if_possible(self, channel: int) -> list[AlignmentCommand]:
        commands: list[AlignmentCommand] = []
        for checkpoint_id in sorted(known for known, tracked in self._pending.items() if not tracked.missing):
            commands += self._abort_pending_before(checkpoint_id)
            tracked = self._pending.pop(checkpoint_id)
            self._last = checkpoint_id
            commands.append(TakeSnapshot(tracked.barrier, tracked.started_ms, channel, 0))
        return commands

    def _drop(self, checkpoint_id: CheckpointId, reason: AlignmentAbortReason) -> list[AlignmentCommand]:
        self._pending.pop(checkpoint_id, None)
        self._last = max(self._last, checkpoint_id)
        return [AbortCheckpoint(checkpoint_id, reason)]

    def validate(self) -> None:
        assert len(self._pending) <= MAX_TRACKED_CHECKPOINTS, "tracks too many checkpoints"
        for checkpoint_id, tracked in self._pending.items():
            assert checkpoint_id > self._last, "tracks a decided checkpoint"
            assert tracked.missing, "a complete checkpoint is tracked"
            assert tracked.missing <= self._open, "waits for an ended channel"


@dataclass(slots=True)
class _Tracked:
    barrier: CheckpointBarrier
    started_ms: int
    missing: set[int]
