"""Changes how a task handles barriers while the job runs: every barrier says how it is to be handled."""

from __future__ import annotations

from collections.abc import Collection

from ..elements import CheckpointBarrier, CheckpointingMode
from ..ids import CheckpointId
from .alignment import BarrierAligner, BarrierTracker
from .barrier_handler import (
    AlignmentCommand,
    AlignmentEvent,
    BarrierAnnounced,
    BarrierHandler,
    BarrierKnown,
    BarrierReceived,
    CheckpointTriggered,
)


class SwitchingHandler:
    """A `BarrierHandler` that becomes another one at the first newer barrier of another mode.

    By then the one before has nothing under way: the coordinator changes the mode only when no checkpoint is,
    and the barrier says so.

    Args:
        mode: The mode until a barrier says otherwise.
        channel_count: Number of input channels.
        never_overtaken: See `BarrierAligner`.
        max_buffered_bytes: See `BarrierAligner`.
    """

    def __init__(
        self,
        mode: CheckpointingMode,
        channel_count: int,
        never_overtaken: Collection[int] = (),
        max_buffered_bytes: int | None = None,
    ) -> None:
        self._mode = mode
        self._channel_count = channel_count
        self._never_overtaken = never_overtaken
        self._max_buffered_bytes = max_buffered_bytes
        self._handler = self._new_handler(mode)

    def _new_handler(self, mode: CheckpointingMode) -> BarrierHandler:
        if mode is CheckpointingMode.EXACTLY_ONCE:
            return BarrierAligner(self._channel_count, self._never_overtaken, self._max_buffered_bytes)
        return BarrierTracker(self._channel_count)

    @property
    def mode(self) -> CheckpointingMode:
        """How the newest barrier was handled."""
        return self._mode

    @property
    def last_decided(self) -> CheckpointId:
        """See `BarrierHandler`."""
        return self._handler.last_decided

    @property
    def due_ms(self) -> int | None:
        """See `BarrierHandler`."""
        return self._handler.due_ms

    @property
    def is_aligning(self) -> bool:
        """See `BarrierHandler`."""
        return self._handler.is_aligning

    @property
    def counts_buffered(self) -> bool:
        """See `BarrierHandler`."""
        return self._handler.counts_buffered

    def handle(self, event: AlignmentEvent, now_ms: int, consumed_bytes: int = 0) -> list[AlignmentCommand]:
        """See `BarrierHandler`."""
        commands: list[AlignmentCommand] = []
        if isinstance(event, BarrierReceived | BarrierKnown | BarrierAnnounced | CheckpointTriggered):
            commands = self._handler.give_up_before(event.barrier.oldest_pending)
            self._switch(event.barrier)
        return commands + self._handler.handle(event, now_ms, consumed_bytes)

    def _switch(self, barrier: CheckpointBarrier) -> None:
        if barrier.mode in (None, self._mode) or barrier.checkpoint_id <= self._handler.newest:
            return
        self._mode = barrier.mode
        before, self._handler = self._handler, self._new_handler(barrier.mode)
        self._handler.take_over(before)

    def validate(self) -> None:
        """Raise `AssertionError` if an invariant of the machine does not hold."""
        self._handler.validate()
