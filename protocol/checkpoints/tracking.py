"""Barrier tracking (at-least-once) of one task: barriers are counted, and no channel is ever blocked.

`BarrierTracker` performs the steps of the row that `TRACKING_TABLE` has for an event, in order; without a row
it does nothing. `docs/protocol.md` shows the same table. Source: Flink's `CheckpointBarrierTracker`. Records
after a barrier may get into the snapshot, and are repeated after a restore. In return no channel waits, so
there is nothing to overtake either.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..elements import CheckpointBarrier
from ..ids import CheckpointId
from .alignment_table import AlignmentInput, input_of
from .barrier_handler import (
    NO_CHECKPOINT,
    AbortCheckpoint,
    AlignmentAbortReason,
    AlignmentCommand,
    AlignmentEvent,
    BarrierHandler,
    TakeSnapshot,
    checkpoint_of,
)

MAX_TRACKED_CHECKPOINTS = 50
"""Bound on checkpoints tracked at once without alignment (Flink keeps as many)."""


class Tracking(enum.Enum):
    """How far the checkpoint of an event is."""

    DECIDED = "decided before"
    TRACKED = "tracked"
    NEW = "neither tracked nor decided"
    NONE = "none: the event is about no checkpoint"


class TrackingStep(enum.Enum):
    """What a row does."""

    BEGIN = "track it"
    COUNT = "count the channel; if it was the last one missing, abort older ones and take the snapshot"
    COUNT_ENDED = "count the channel for all that are tracked, and take the snapshots that miss none now"
    BOUND = "if too many are tracked, abort the oldest"
    ABORT_OLDER = "abort the older ones that are tracked"
    ABORT_SUBSUMED = "abort it: subsumed"
    ABORT_CANCELLED = "abort it: cancelled upstream"
    ABORT_GIVEN_UP = "abort it: given up"
    SNAPSHOT = "if no channel is open, take the snapshot"


_In, _Is, _Do = AlignmentInput, Tracking, TrackingStep

TRACKING_TABLE: dict[tuple[AlignmentInput, Tracking], tuple[TrackingStep, ...]] = {
    (_In.BARRIER, _Is.NEW): (_Do.BEGIN, _Do.COUNT, _Do.BOUND),
    (_In.BARRIER, _Is.TRACKED): (_Do.COUNT,),
    (_In.CANCEL, _Is.NEW): (_Do.ABORT_OLDER, _Do.ABORT_CANCELLED),
    (_In.CANCEL, _Is.TRACKED): (_Do.ABORT_OLDER, _Do.ABORT_CANCELLED),
    (_In.ENDED, _Is.NONE): (_Do.COUNT_ENDED,),
    (_In.TRIGGERED, _Is.NEW): (_Do.SNAPSHOT,),
    # Tasks downstream that got the barrier of such a checkpoint from others would wait for this task's.
    (_In.EXPIRED, _Is.NEW): (_Do.ABORT_OLDER, _Do.ABORT_GIVEN_UP),
    (_In.EXPIRED, _Is.TRACKED): (_Do.ABORT_OLDER, _Do.ABORT_SUBSUMED),
}
"""The other events matter only where barriers overtake or alignment is bounded."""


@dataclass(frozen=True, slots=True)
class _Happened:
    """An event with what its steps need."""

    event: Any
    checkpoint_id: CheckpointId
    now_ms: int


class BarrierTracker(BarrierHandler):
    """At-least-once: never blocks, counts barriers, and may track several checkpoints at once."""

    def __init__(self, channel_count: int) -> None:
        super().__init__(channel_count)
        self._pending: dict[CheckpointId, _Tracked] = {}
        self._steps: dict[TrackingStep, Callable[[_Happened], list[AlignmentCommand]]] = {
            TrackingStep.BEGIN: self._begin,
            TrackingStep.COUNT: self._count,
            TrackingStep.COUNT_ENDED: self._count_ended,
            TrackingStep.BOUND: self._bound,
            TrackingStep.ABORT_OLDER: self._abort_older,
            TrackingStep.ABORT_SUBSUMED: self._abort(AlignmentAbortReason.SUBSUMED),
            TrackingStep.ABORT_CANCELLED: self._abort(AlignmentAbortReason.CANCELLED_UPSTREAM),
            TrackingStep.ABORT_GIVEN_UP: self._abort(AlignmentAbortReason.GIVEN_UP),
            TrackingStep.SNAPSHOT: lambda happened: self._trigger(happened.event.barrier, happened.now_ms),
        }

    @property
    def newest(self) -> CheckpointId:
        return max(self._pending, default=self._last)

    # ------------------------------------------------------------ the table

    def _take(self, event: AlignmentEvent, now_ms: int, consumed_bytes: int) -> list[AlignmentCommand]:
        return self._perform(input_of(event), _Happened(event, checkpoint_of(event), now_ms))

    def _expired(self, checkpoint_id: CheckpointId) -> list[AlignmentCommand]:
        return self._perform(AlignmentInput.EXPIRED, _Happened(None, checkpoint_id, 0))

    def _perform(self, kind: AlignmentInput, happened: _Happened) -> list[AlignmentCommand]:
        steps = TRACKING_TABLE.get((kind, self._tracking(happened.checkpoint_id)), ())
        return [command for step in steps for command in self._steps[step](happened)]

    def _tracking(self, checkpoint_id: CheckpointId) -> Tracking:
        if checkpoint_id == NO_CHECKPOINT:
            return Tracking.NONE
        if checkpoint_id in self._pending:
            return Tracking.TRACKED
        return Tracking.DECIDED if checkpoint_id <= self._last else Tracking.NEW

    # ------------------------------------------------------------ steps

    def _begin(self, happened: _Happened) -> list[AlignmentCommand]:
        tracked = _Tracked(happened.event.barrier, happened.now_ms, set(self._open))
        self._pending[happened.checkpoint_id] = tracked
        return []

    def _count(self, happened: _Happened) -> list[AlignmentCommand]:
        tracked = self._pending[happened.checkpoint_id]
        tracked.missing.discard(happened.event.channel)
        return [] if tracked.missing else self._complete(tracked, happened)

    def _count_ended(self, happened: _Happened) -> list[AlignmentCommand]:
        for tracked in self._pending.values():
            tracked.missing.discard(happened.event.channel)
        complete = [tracked for _, tracked in sorted(self._pending.items()) if not tracked.missing]
        return [command for tracked in complete for command in self._complete(tracked, happened)]

    def _complete(self, tracked: _Tracked, happened: _Happened) -> list[AlignmentCommand]:
        checkpoint_id = tracked.barrier.checkpoint_id
        commands = self._abort_before(checkpoint_id)
        del self._pending[checkpoint_id]
        self._last = checkpoint_id
        return [*commands, TakeSnapshot(tracked.barrier, tracked.started_ms, happened.event.channel, 0)]

    def _bound(self, happened: _Happened) -> list[AlignmentCommand]:
        if len(self._pending) <= MAX_TRACKED_CHECKPOINTS:
            return []
        return self._drop(min(self._pending), AlignmentAbortReason.SUBSUMED)

    def _abort_older(self, happened: _Happened) -> list[AlignmentCommand]:
        return self._abort_before(happened.checkpoint_id)

    def _abort_before(self, checkpoint_id: CheckpointId) -> list[AlignmentCommand]:
        older = sorted(known for known in self._pending if known < checkpoint_id)
        return [command for each in older for command in self._drop(each, AlignmentAbortReason.SUBSUMED)]

    def _abort(self, reason: AlignmentAbortReason) -> Callable[[_Happened], list[AlignmentCommand]]:
        return lambda happened: self._drop(happened.checkpoint_id, reason)

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
