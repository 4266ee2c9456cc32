"""What a task's barrier handler hears and answers: the events and commands of alignment and tracking.

A barrier is seen up to three times. It is *known* when its message has arrived ahead of records that are
before it in its channel; it is *announced* when these have arrived too; it is *received* when its turn comes,
behind them. A barrier that overtakes is acted on as soon as it is known or announced.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from dataclasses import dataclass

from ..elements import CheckpointBarrier
from ..ids import CheckpointId
from ..invalid_event import InvalidEvent

NO_CHECKPOINT = CheckpointId(-1)
FROM_COORDINATOR = -1
"""The channel of what did not come through a channel."""


class AlignmentAbortReason(enum.Enum):
    """Why a task gave up on a checkpoint."""

    SUBSUMED = "a barrier of a newer checkpoint arrived"
    CANCELLED_UPSTREAM = "an upstream task could not take its snapshot"
    TOO_MUCH_BUFFERED = "more was held back or recorded than tidegate.checkpointing.alignment.max-size"
    GIVEN_UP = "the coordinator gave it up"


# ---------------------------------------------------------------- events


@dataclass(frozen=True, slots=True)
class BarrierKnown:
    """A barrier arrived in a channel ahead of records that were sent before it."""

    channel: int
    barrier: CheckpointBarrier


@dataclass(frozen=True, slots=True)
class BarrierAnnounced:
    """A barrier arrived in a channel, and every record before it; those may still wait to be processed."""

    channel: int
    barrier: CheckpointBarrier


@dataclass(frozen=True, slots=True)
class BarrierReceived:
    """A barrier came out of a channel."""

    channel: int
    barrier: CheckpointBarrier


@dataclass(frozen=True, slots=True)
class CancelMarkerAnnounced:
    """A cancel marker arrived in a channel."""

    channel: int
    checkpoint_id: CheckpointId


@dataclass(frozen=True, slots=True)
class CancelMarkerReceived:
    """A cancel marker came out of a channel."""

    channel: int
    checkpoint_id: CheckpointId


@dataclass(frozen=True, slots=True)
class EndAnnounced:
    """Everything that will ever come out of a channel has arrived in it."""

    channel: int


@dataclass(frozen=True, slots=True)
class ChannelEnded:
    """Nothing more comes out of a channel."""

    channel: int


@dataclass(frozen=True, slots=True)
class CheckpointTriggered:
    """The coordinator asked this task directly: it is a source, or all of its channels ended."""

    barrier: CheckpointBarrier


@dataclass(frozen=True, slots=True)
class CheckpointGivenUp:
    """The coordinator said that a checkpoint will not complete."""

    checkpoint_id: CheckpointId


@dataclass(frozen=True, slots=True)
class BytesBuffered:
    """So much waits in blocked channels, or is recorded, at this moment."""

    size_bytes: int


@dataclass(frozen=True, slots=True)
class AlignmentTimePassed:
    """Look at the clock: `BarrierHandler.due_ms` has come."""


AlignmentEvent = (
    BarrierKnown
    | BarrierAnnounced
    | BarrierReceived
    | CancelMarkerAnnounced
    | CancelMarkerReceived
    | EndAnnounced
    | ChannelEnded
    | CheckpointTriggered
    | CheckpointGivenUp
    | BytesBuffered
    | AlignmentTimePassed
)


def checkpoint_of(event: AlignmentEvent) -> CheckpointId:
    """The checkpoint that an event is about, `NO_CHECKPOINT` if it is about none."""
    if isinstance(event, BarrierKnown | BarrierAnnounced | BarrierReceived | CheckpointTriggered):
        return event.barrier.checkpoint_id
    if isinstance(event, CancelMarkerAnnounced | CancelMarkerReceived | CheckpointGivenUp):
        return event.checkpoint_id
    return NO_CHECKPOINT


# ---------------------------------------------------------------- commands


@dataclass(frozen=True, slots=True)
class BlockChannel:
    """Take nothing more from a channel."""

    channel: int


@dataclass(frozen=True, slots=True)
class ResumeChannels:
    """Take from these channels again."""

    channels: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RecordChannels:
    """The barrier overtakes: record what waits in these channels before it, and what still comes before it.

    Goes ahead of the `TakeSnapshot` of the checkpoint, which is complete only with `FinishRecording`.
    """

    checkpoint_id: CheckpointId
    channels: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TakeSnapshot:
    """Snapshot now, before anything else is processed.

    Attributes:
        started_ms: When the first barrier came.
        channel: The channel whose event led to the snapshot; -1 for the coordinator.
        processed_bytes: What was processed since the first barrier.
    """

    barrier: CheckpointBarrier
    started_ms: int
    channel: int
    processed_bytes: int


@dataclass(frozen=True, slots=True)
class FinishRecording:
    """Everything that the barrier overtook is here: store it. `processed_bytes`: since its first barrier."""

    checkpoint_id: CheckpointId
    processed_bytes: int


@dataclass(frozen=True, slots=True)
class AbortCheckpoint:
    """Decline a checkpoint, pass a cancel marker on, and drop what was recorded for it."""

    checkpoint_id: CheckpointId
    reason: AlignmentAbortReason


AlignmentCommand = (
    BlockChannel | ResumeChannels | RecordChannels | TakeSnapshot | FinishRecording | AbortCheckpoint
)


class BarrierHandler(ABC):
    """Decides when a task with `channel_count` input channels takes its snapshots."""

    def __init__(self, channel_count: int) -> None:
        self._open: set[int] = set(range(channel_count))
        self._last = NO_CHECKPOINT

    @property
    def last_decided(self) -> CheckpointId:
        """Highest checkpoint id for which this task took or refused a snapshot; -1 before any."""
        return self._last

    @property
    def due_ms(self) -> int | None:
        """When `AlignmentTimePassed` is due, `None` if nothing waits for time."""
        return None

    @property
    def is_aligning(self) -> bool:
        """Whether the barrier of some checkpoint has come on some channels, and not yet on all."""
        return False

    @property
    def counts_buffered(self) -> bool:
        """Whether `BytesBuffered` is of interest now."""
        return False

    @property
    def newest(self) -> CheckpointId:
        """Highest checkpoint id that is decided or pending."""
        return self._last

    def take_over(self, before: BarrierHandler) -> None:
        """Go on in the place of another handler, which has nothing under way."""
        self._open, self._last = set(before._open), before._last

    def handle(self, event: AlignmentEvent, now_ms: int, consumed_bytes: int = 0) -> list[AlignmentCommand]:
        """Take one event and return what the task must do, in order.

        Args:
            event: What happened.
            now_ms: The time.
            consumed_bytes: What the task has processed of its input since it began.

        Raises:
            InvalidEvent: A channel that has ended brings a barrier.
        """
        commands: list[AlignmentCommand] = []
        if isinstance(event, BarrierKnown | BarrierAnnounced | BarrierReceived | CheckpointTriggered):
            commands = self.give_up_before(event.barrier.oldest_pending)
        if isinstance(event, BarrierReceived) and event.channel not in self._open:
            barrier = event.barrier.checkpoint_id
            raise InvalidEvent(f"channel {event.channel} is not open, but it brings barrier {barrier}")
        if isinstance(event, ChannelEnded):
            self._open.discard(event.channel)
        return commands + self._take(event, now_ms, consumed_bytes)

    def give_up_before(self, oldest_pending: CheckpointId | None) -> list[AlignmentCommand]:
        """Refuse checkpoints that have ended elsewhere and are not decided here.

        Tasks downstream that got such a barrier from others have to be notified, or they would wait for ours.
        """
        if oldest_pending is None or oldest_pending - 1 <= self._last:
            return []
        return self._expired(CheckpointId(oldest_pending - 1))

    @abstractmethod
    def _expired(self, checkpoint_id: CheckpointId) -> list[AlignmentCommand]:
        """Abort a checkpoint and all older ones, of which that one is not decided."""

    @abstractmethod
    def _take(self, event: AlignmentEvent, now_ms: int, consumed_bytes: int) -> list[AlignmentCommand]:
        """Take one event."""

    def _trigger(self, barrier: CheckpointBarrier, now_ms: int) -> list[AlignmentCommand]:
        if self._open or barrier.checkpoint_id <= self._last:
            return []
        self._last = barrier.checkpoint_id
        return [TakeSnapshot(barrier, now_ms, FROM_COORDINATOR, 0)]

    @abstractmethod
    def validate(self) -> None:
        """Raise `AssertionError` if an invariant of the machine does not hold."""
