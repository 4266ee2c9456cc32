"""Barrier alignment (exactly-once) and barrier tracking (at-least-once) of one task.

Source: Carbone et al., "Lightweight Asynchronous Snapshots for Distributed Dataflows" (2015), with
the refinements of Apache Flink: a newer barrier aborts an older alignment, a cancel marker releases
it, and a channel that has ended counts as aligned for every later checkpoint.

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
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass

from .elements import CheckpointBarrier, CheckpointingMode
from .ids import CheckpointId

MAX_TRACKED_CHECKPOINTS = 50
"""Bound on checkpoints tracked at once without alignment (Flink keeps as many)."""


class AlignmentAbortReason(enum.Enum):
    """Why a task gave up on a checkpoint before its snapshot."""

    SUBSUMED = "a barrier of a newer checkpoint arrived"
    CANCELLED_UPSTREAM = "an upstream task could not take its snapshot"


@dataclass(frozen=True, slots=True)
class BarrierReceived:
    """A barrier came out of a channel."""

    channel: int
    barrier: CheckpointBarrier


@dataclass(frozen=True, slots=True)
class CancelMarkerReceived:
    """A cancel marker came out of a channel."""

    channel: int
    checkpoint_id: CheckpointId


@dataclass(frozen=True, slots=True)
class ChannelEnded:
    """Nothing more comes out of a channel."""

    channel: int


@dataclass(frozen=True, slots=True)
class CheckpointTriggered:
    """The coordinator asked this task directly: it is a source, or all of its channels ended."""

    barrier: CheckpointBarrier


AlignmentEvent = BarrierReceived | CancelMarkerReceived | ChannelEnded | CheckpointTriggered


@dataclass(frozen=True, slots=True)
class BlockChannel:
    """Take nothing more from a channel."""

    channel: int


@dataclass(frozen=True, slots=True)
class ResumeChannels:
    """Take from these channels again."""

    channels: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TakeSnapshot:
    """Snapshot now, before anything else is processed. `started_ms`: when the first barrier came."""

    barrier: CheckpointBarrier
    started_ms: int


@dataclass(frozen=True, slots=True)
class AbortCheckpoint:
    """Decline a checkpoint, and pass a cancel marker on."""

    checkpoint_id: CheckpointId
    reason: AlignmentAbortReason


AlignmentCommand = BlockChannel | ResumeChannels | TakeSnapshot | AbortCheckpoint

_NONE = CheckpointId(-1)


class BarrierHandler(ABC):
    """Decides when a task with `channel_count` input channels takes its snapshots."""

    def __init__(self, channel_count: int) -> None:
        self._open: set[int] = set(range(channel_count))
        self._last = _NONE

    @property
    def last_decided(self) -> CheckpointId:
        """Highest checkpoint id for which this task took or refused a snapshot; -1 before any."""
        return self._last

    def handle(self, event: AlignmentEvent, now_ms: int) -> list[AlignmentCommand]:
        """Take one event at time `now_ms` and return what the task must do, in order."""
        if isinstance(event, BarrierReceived):
            return self._on_barrier(event.channel, event.barrier, now_ms)
        if isinstance(event, CancelMarkerReceived):
            return self._on_cancel(event.checkpoint_id)
        if isinstance(event, ChannelEnded):
            self._open.discard(event.channel)
            return self._on_channel_ended(event.channel)
        return self._on_trigger(event.barrier, now_ms)

    def _on_trigger(self, barrier: CheckpointBarrier, now_ms: int) -> list[AlignmentCommand]:
        if self._open or barrier.checkpoint_id <= self._last:
            return []
        self._last = barrier.checkpoint_id
        return [TakeSnapshot(barrier, now_ms)]

    @abstractmethod
    def _on_barrier(
        self, channel: int, barrier: CheckpointBarrier, now_ms: int
    ) -> list[AlignmentCommand]: ...

    @abstractmethod
    def _on_cancel(self, checkpoint_id: CheckpointId) -> list[AlignmentCommand]: ...

    @abstractmethod
    def _on_channel_ended(self, channel: int) -> list[AlignmentCommand]: ...

    @abstractmethod
    def validate(self) -> None:
        """Raise `AssertionError` if an invariant of the machine does not hold."""


class BarrierAligner(BarrierHandler):
    """Exactly-once: a channel that delivered the barrier is blocked until all others have too."""

    def __init__(self, channel_count: int) -> None:
        super().__init__(channel_count)
        self._pending: CheckpointBarrier | None = None
        self._started_ms = 0
        self._blocked: set[int] = set()
        self._missing: set[int] = set()

    def _on_barrier(self, channel: int, barrier: CheckpointBarrier, now_ms: int) -> list[AlignmentCommand]:
        if barrier.checkpoint_id <= self._last:
            return []
        commands: list[AlignmentCommand] = []
        if self._pending is None or barrier.checkpoint_id > self._pending.checkpoint_id:
            commands += self._abort_pending(AlignmentAbortReason.SUBSUMED)
            self._pending = barrier
            self._started_ms = now_ms
            self._missing = set(self._open)
        elif barrier.checkpoint_id < self._pending.checkpoint_id:
            return []
        self._missing.discard(channel)
        if not self._missing:
            return commands + self._complete()
        self._blocked.add(channel)
        commands.append(BlockChannel(channel))
        return commands

    def _on_cancel(self, checkpoint_id: CheckpointId) -> list[AlignmentCommand]:
        if checkpoint_id <= self._last:
            return []
        if self._pending is not None and checkpoint_id < self._pending.checkpoint_id:
            return []
        if self._pending is not None and checkpoint_id == self._pending.checkpoint_id:
            return self._abort_pending(AlignmentAbortReason.CANCELLED_UPSTREAM)
        commands = self._abort_pending(AlignmentAbortReason.SUBSUMED)
        self._last = checkpoint_id
        return [*commands, AbortCheckpoint(checkpoint_id, AlignmentAbortReason.CANCELLED_UPSTREAM)]

    def _on_channel_ended(self, channel: int) -> list[AlignmentCommand]:
        self._blocked.discard(channel)
        self._missing.discard(channel)
        if self._pending is not None and not self._missing:
            return self._complete()
        return []

    def _complete(self) -> list[AlignmentCommand]:
        assert self._pending is not None
        barrier, self._pending = self._pending, None
        self._last = barrier.checkpoint_id
        return [TakeSnapshot(barrier, self._started_ms), *self._resume()]

    def _abort_pending(self, reason: AlignmentAbortReason) -> list[AlignmentCommand]:
        if self._pending is None:
            return []
        checkpoint_id, self._pending = self._pending.checkpoint_id, None
        self._last = checkpoint_id
        self._missing = set()
        return [AbortCheckpoint(checkpoint_id, reason), *self._resume()]

    def _resume(self) -> list[AlignmentCommand]:
        if not self._blocked:
            return []
        channels, self._blocked = tuple(sorted(self._blocked)), set()
        return [ResumeChannels(channels)]

    def validate(self) -> None:
        assert self._blocked <= self._open, "an ended channel is blocked"
        if self._pending is None:
            assert not self._blocked, "blocked without a pending checkpoint"
            assert not self._missing, "waits without a pending checkpoint"
        else:
            assert self._missing, "alignment is complete but was not closed"
            assert self._pending.checkpoint_id > self._last, "a decided checkpoint is pending"
            assert self._missing | self._blocked == self._open, "an open channel is unaccounted for"


class BarrierTracker(BarrierHandler):
    """At-least-once: never blocks, counts barriers, and may track several checkpoints at once."""

    def __init__(self, channel_count: int) -> None:
        super().__init__(channel_count)
        self._pending: OrderedDict[CheckpointId, _Tracked] = OrderedDict()

    def _on_barrier(self, channel: int, barrier: CheckpointBarrier, now_ms: int) -> list[AlignmentCommand]:
        if barrier.checkpoint_id <= self._last:
            return []
        tracked = self._pending.get(barrier.checkpoint_id)
        if tracked is None:
            tracked = _Tracked(barrier, now_ms, set(self._open))
            self._pending[barrier.checkpoint_id] = tracked
        tracked.missing.discard(channel)
        commands = self._complete_if_possible()
        while len(self._pending) > MAX_TRACKED_CHECKPOINTS:
            commands += self._drop(min(self._pending), AlignmentAbortReason.SUBSUMED)
        return commands

    def _on_cancel(self, checkpoint_id: CheckpointId) -> list[AlignmentCommand]:
        if checkpoint_id <= self._last:
            return []
        commands: list[AlignmentCommand] = []
        for older in sorted(known for known in self._pending if known < checkpoint_id):
            commands += self._drop(older, AlignmentAbortReason.SUBSUMED)
        return commands + self._drop(checkpoint_id, AlignmentAbortReason.CANCELLED_UPSTREAM)

    def _on_channel_ended(self, channel: int) -> list[AlignmentCommand]:
        for tracked in self._pending.values():
            tracked.missing.discard(channel)
        return self._complete_if_possible()

    def _complete_if_possible(self) -> list[AlignmentCommand]:
        commands: list[AlignmentCommand] = []
        for checkpoint_id in sorted(known for known, tracked in self._pending.items() if not tracked.missing):
            for older in sorted(known for known in self._pending if known < checkpoint_id):
                commands += self._drop(older, AlignmentAbortReason.SUBSUMED)
            tracked = self._pending.pop(checkpoint_id)
            self._last = checkpoint_id
            commands.append(TakeSnapshot(tracked.barrier, tracked.started_ms))
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


def barrier_handler(mode: CheckpointingMode, channel_count: int) -> BarrierHandler:
    """The handler for a checkpointing mode."""
    if mode is CheckpointingMode.EXACTLY_ONCE:
        return BarrierAligner(channel_count)
    return BarrierTracker(channel_count)


def snapshots_in(commands: Iterable[AlignmentCommand]) -> list[TakeSnapshot]:
    """The snapshots among `commands`, in order."""
    return [command for command in commands if isinstance(command, TakeSnapshot)]
