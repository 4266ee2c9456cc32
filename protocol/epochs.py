"""Decides when the records of a stage become an epoch, when the epoch runs, and when its results leave.

A stage gathers records, runs each epoch of them outside the task's loop, and emits the results when they
arrive. Gathered records, and epochs whose results have not been emitted, are the stage's state. So a barrier
never waits for a run:

    gathering ──end──> waiting ──start──> running ──finish──> finished ──emit──> emitting ──> (gone)

* Up to the moment when the first result of an epoch is emitted, a checkpoint contains its records. A restored
  epoch runs again and may return its rows in another order: no checkpoint has seen the first order.
* From that moment on a checkpoint contains the results that have not been emitted, and the epoch never runs
  again. So results leave only as fast as the tasks downstream take them, and a barrier waits for no more
  than one batch.
* Epochs are emitted in the order in which they were gathered, also if a later one finishes first.
* A watermark follows the epoch whose records came before it. It does not end that epoch, so it may also wait
  for records that came after it, which is safe.
* An epoch ends when it is full, when the input ends, or when it is due and a run can begin. It is due after
  the interval that follows its first record, or when the buffer is full. While nothing can run, an epoch
  keeps gathering: many small epochs would cost a run each.

A barrier or a watermark does not end an epoch. For a stage with several subtasks, the next barrier or
watermark after an epoch is due is the position at which all of them can end it (see ADR 084).
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from .elements import Watermark, WatermarkStatus
from .epoch_messages import FromLeader, ToLeader
from .ids import CheckpointId
from .invalid_event import InvalidEvent

Control = Watermark | WatermarkStatus


@dataclass(frozen=True, slots=True)
class EpochLimits:
    """What bounds the epochs of a stage.

    Attributes:
        max_records: An epoch with this number of records is full.
        interval_ms: When an epoch is due, in milliseconds after its first record.
        max_running: How many epochs may run at once.
        buffer_bytes: With this number of bytes in all epochs together, the stage takes no more records.
        memory_bytes: With this number of bytes in memory, records that are being gathered go to local disk.
    """

    max_records: int
    interval_ms: int
    max_running: int = 1
    buffer_bytes: int = 256 << 20
    memory_bytes: int = 64 << 20


# ---------------------------------------------------------------- events


@dataclass(frozen=True, slots=True)
class RecordsGathered:
    """A batch of records came in and is stored with the epoch that `EpochMachine.gathering` names."""

    records: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class ControlReceived:
    """A watermark, or a change of idleness, came in."""

    element: Control


@dataclass(frozen=True, slots=True)
class BarrierReceived:
    """A barrier came in."""

    checkpoint_id: CheckpointId


@dataclass(frozen=True, slots=True)
class RunnerStarted:
    """Epochs can run from now on."""


@dataclass(frozen=True, slots=True)
class EpochFinished:
    """The results of an epoch have arrived. A repeated one is ignored."""

    number: int


@dataclass(frozen=True, slots=True)
class ResultsEmitted:
    """The last result of the epoch of an `EmitEpoch` has been emitted."""

    number: int


@dataclass(frozen=True, slots=True)
class TimePassed:
    """The time of a `WakeAt` has come."""


@dataclass(frozen=True, slots=True)
class InputEnded:
    """No more records follow."""


@dataclass(frozen=True, slots=True)
class EpochRestored:
    """A checkpoint contained the records of an epoch. Comes before all other events, oldest epoch first."""

    number: int
    records: int
    size_bytes: int
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class ResultsRestored:
    """A checkpoint contained results of an epoch. Comes before all other events."""


EpochEvent = (
    RecordsGathered
    | ControlReceived
    | BarrierReceived
    | RunnerStarted
    | EpochFinished
    | ResultsEmitted
    | TimePassed
    | InputEnded
    | EpochRestored
    | ResultsRestored
)


# ---------------------------------------------------------------- commands


@dataclass(frozen=True, slots=True)
class StartEpoch:
    """Run the function on the records of an epoch, which gathers no more. Its end is an `EpochFinished`."""

    number: int


@dataclass(frozen=True, slots=True)
class EmitEpoch:
    """Drop the records of an epoch, and emit its results as downstream takes them, until `ResultsEmitted`."""

    number: int


@dataclass(frozen=True, slots=True)
class ForwardControl:
    """Emit a watermark or a change of idleness, now."""

    element: Control


@dataclass(frozen=True, slots=True)
class StoreEpochs:
    """The stage's state at the barrier.

    Attributes:
        numbers: Epochs whose records it contains.
        emitting: The epoch whose results it contains, those that have not been emitted.
    """

    numbers: tuple[int, ...]
    emitting: int | None = None


@dataclass(frozen=True, slots=True)
class SpillRecords:
    """Move the records of an epoch that are in memory to local disk."""

    number: int


@dataclass(frozen=True, slots=True)
class WakeAt:
    """Report `TimePassed` at this time."""

    timestamp_ms: int


EpochCommand = StartEpoch | EmitEpoch | ForwardControl | StoreEpochs | SpillRecords | WakeAt


# ---------------------------------------------------------------- of a stage with several subtasks


@dataclass(frozen=True, slots=True)
class RestoredShare:
    """The records of an epoch in a checkpoint."""

    number: int
    records: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class StageRestored:
    """The subtask opens; comes first, also without a checkpoint.

    Attributes:
        began: The last epoch that any subtask had begun to emit; 0 for none.
        gathering: The last epoch that any subtask had gathered; at least 1.
        has_results: Whether results of epochs up to `began` were restored to this subtask.
        shares: What was restored to this subtask of the epochs after `began`.
    """

    began: int = 0
    gathering: int = 1
    has_results: bool = False
    shares: Sequence[RestoredShare] = ()


@dataclass(frozen=True, slots=True)
class BarrierPassed:
    """The snapshot that a barrier asked for has been taken."""

    checkpoint_id: CheckpointId


@dataclass(frozen=True, slots=True)
class RunReturned:
    """A run of an epoch returned: how each subtask gets its part of the results."""

    number: int
    parts: tuple[object, ...] = field(compare=False)


@dataclass(frozen=True, slots=True)
class ResultsArrived:
    """The subtask's part of an epoch's results is here."""

    number: int


ShareEvent = (
    StageRestored
    | RecordsGathered
    | ControlReceived
    | BarrierReceived
    | BarrierPassed
    | RunnerStarted
    | RunReturned
    | ResultsArrived
    | ResultsEmitted
    | TimePassed
    | InputEnded
    | FromLeader
)


@dataclass(frozen=True, slots=True)
class SendToLeader:
    """Send a message to the leader."""

    message: ToLeader


@dataclass(frozen=True, slots=True)
class StartRun:
    """Run an epoch. Its end is a `RunReturned`."""

    number: int
    offers: tuple[object, ...] = field(compare=False)


@dataclass(frozen=True, slots=True)
class CollectResults:
    """Get the subtask's part of an epoch's results, then report `ResultsArrived`."""

    number: int
    part: object = field(compare=False)


@dataclass(frozen=True, slots=True)
class StoreShares:
    """The stage's state at the barrier.

    Attributes:
        began: The last epoch that this subtask began to emit.
        gathering: The epoch that it gathers.
        numbers: Epochs whose records it contains.
        held: Epochs whose results it contains, as this subtask holds them.
        emitting: The epoch whose results it contains, those that have not been emitted.
    """

    began: int
    gathering: int
    numbers: tuple[int, ...]
    held: tuple[int, ...] = ()
    emitting: int | None = None


ShareCommand = (
    SendToLeader
    | StartRun
    | CollectResults
    | EmitEpoch
    | ForwardControl
    | StoreShares
    | SpillRecords
    | WakeAt
)

# ---------------------------------------------------------------- the machine


class EpochPhase(enum.Enum):
    """What an epoch is doing."""

    GATHERING = enum.auto()
    WAITING = enum.auto()
    RUNNING = enum.auto()
    FINISHED = enum.auto()
    EMITTING = enum.auto()


@dataclass(slots=True)
class _Epoch:
    number: int
    due_ms: int
    phase: EpochPhase = EpochPhase.GATHERING
    records: int = 0
    size_bytes: int = 0
    memory_bytes: int = 0
    followers: list[Control] = field(default_factory=list)

    @property
    def is_movable(self) -> bool:
        """Whether records are in memory that no run uses."""
        return self.memory_bytes > 0 and self.phase in (EpochPhase.GATHERING, EpochPhase.WAITING)


RESTORED_RESULTS = 0
"""Number of the epoch whose results a checkpoint contained."""
_SPILLED_PART = 4
"""This fraction of the memory, or more, is spilled at once, so that files on local disk are not tiny."""


class EpochMachine:
    """The epochs of one subtask of a stage. The last of them may still gather records.

    Args:
        limits: What bounds them.
    """

    def __init__(self, limits: EpochLimits) -> None:
        self._limits = limits
        self._epochs: deque[_Epoch] = deque()
        self._next_number = 1
        self._has_runner = False
        self._has_ended = False

    @property
    def gathering(self) -> int:
        """Number of the epoch that takes the next records."""
        last = self._epochs[-1] if self._epochs else None
        return last.number if last is not None and last.phase is EpochPhase.GATHERING else self._next_number

    @property
    def is_empty(self) -> bool:
        """Whether everything that came in has been emitted."""
        return not self._epochs

    @property
    def is_full(self) -> bool:
        """Whether the stage takes no more records for now."""
        return self.buffered_bytes >= self._limits.buffer_bytes

    @property
    def buffered_bytes(self) -> int:
        """Size of all records that have no results."""
        return sum(epoch.size_bytes for epoch in self._epochs)

    @property
    def phases(self) -> dict[int, EpochPhase]:
        """What each epoch is doing, by its number."""
        return {epoch.number: epoch.phase for epoch in self._epochs}

    def handle(self, event: EpochEvent, now_ms: int) -> list[EpochCommand]:
        """Take an event; what is to be done, in this order and before the next event.

        Raises:
            InvalidEvent: The event cannot happen now.
        """
        match event:
            case RecordsGathered():
                commands = self._gather(event, now_ms)
            case ControlReceived(element):
                return self._hold(element)
            case BarrierReceived():
                return [self._stored()]
            case EpochRestored():
                return self._restore(event, now_ms)
            case ResultsRestored():
                return self._restore_results()
            case RunnerStarted():
                self._has_runner, commands = True, []
            case InputEnded():
                self._has_ended, commands = True, []
            case EpochFinished(number):
                self._finish(number)
                commands = self._emit()
            case ResultsEmitted(number):
                commands = self._emitted(number)
            case TimePassed():
                commands = []
        return commands + self._start(now_ms)

    # ------------------------------------------------------------ what comes in

    def _gather(self, event: RecordsGathered, now_ms: int) -> list[EpochCommand]:
        if self._has_ended:
            raise InvalidEvent("records follow the end of input")
        if not event.records:
            return []
        commands: list[EpochCommand] = []
        if self.gathering == self._next_number:
            commands += self._open(self._next_number, now_ms + self._limits.interval_ms)
        epoch = self._epochs[-1]
        epoch.records += event.records
        epoch.size_bytes += event.size_bytes
        epoch.memory_bytes += event.size_bytes
        if epoch.records >= self._limits.max_records:
            epoch.phase = EpochPhase.WAITING
        return commands + self._spill()

    def _open(self, number: int, due_ms: int) -> list[EpochCommand]:
        self._epochs.append(_Epoch(number, due_ms))
        self._next_number = number + 1
        return [WakeAt(due_ms)]

    def _spill(self) -> list[EpochCommand]:
        """Keep memory within its limit and a quarter of it; newest records first, which run last."""
        limit = self._limits.memory_bytes
        excess = sum(epoch.memory_bytes for epoch in self._epochs) - limit
        movable = [epoch for epoch in reversed(self._epochs) if epoch.is_movable]
        least = limit // (_SPILLED_PART * self._limits.max_running)
        if excess <= 0 or sum(epoch.memory_bytes for epoch in movable) < least:
            return []
        commands: list[EpochCommand] = []
        for epoch in movable:
            if excess > 0 or least > 0:
                commands.append(SpillRecords(epoch.number))
                excess, least = excess - epoch.memory_bytes, least - epoch.memory_bytes
                epoch.memory_bytes = 0
        return commands

    def _hold(self, element: Control) -> list[EpochCommand]:
        if not self._epochs:
            return [ForwardControl(element)]
        followers = self._epochs[-1].followers
        if followers and isinstance(followers[-1], Watermark) and isinstance(element, Watermark):
            followers.pop()
        followers.append(element)
        return []

    def _stored(self) -> StoreEpochs:
        emitting = [epoch.number for epoch in self._epochs if epoch.phase is EpochPhase.EMITTING]
        numbers = tuple(epoch.number for epoch in self._epochs if epoch.number not in emitting)
        return StoreEpochs(numbers, emitting[0] if emitting else None)

    def _restore_results(self) -> list[EpochCommand]:
        if self._epochs:
            raise InvalidEvent("results are restored after epochs")
        self._epochs.append(_Epoch(RESTORED_RESULTS, 0, EpochPhase.EMITTING))
        return [EmitEpoch(RESTORED_RESULTS)]

    def _restore(self, event: EpochRestored, now_ms: int) -> list[EpochCommand]:
        if event.number < self._next_number:
            raise InvalidEvent(f"epoch {event.number} is restored after epoch {self._next_number - 1}")
        if self._epochs and self._epochs[-1].phase is EpochPhase.GATHERING:
            # A later epoch exists, so this one had ended.
            self._epochs[-1].phase = EpochPhase.WAITING
        commands = self._open(event.number, now_ms)
        epoch = self._epochs[-1]
        epoch.records, epoch.size_bytes = event.records, event.size_bytes
        epoch.memory_bytes = event.memory_bytes
        return commands + self._spill()

    # ------------------------------------------------------------ what runs, and what leaves

    def _start(self, now_ms: int) -> list[EpochCommand]:
        commands: list[EpochCommand] = []
        if not self._has_runner:
            return commands
        # Results that wait for those of an earlier epoch use a place as well, or they would pile up.
        used = (EpochPhase.RUNNING, EpochPhase.FINISHED)
        running = sum(epoch.phase in used for epoch in self._epochs)
        for epoch in self._epochs:
            if running >= self._limits.max_running:
                break
            if epoch.phase is EpochPhase.WAITING or self._is_due(epoch, now_ms):
                epoch.phase = EpochPhase.RUNNING
                running += 1
                commands.append(StartEpoch(epoch.number))
        return commands

    def _is_due(self, epoch: _Epoch, now_ms: int) -> bool:
        is_wanted = self._has_ended or self.is_full or now_ms >= epoch.due_ms
        return epoch.phase is EpochPhase.GATHERING and is_wanted

    def _finish(self, number: int) -> None:
        for epoch in self._epochs:
            if epoch.number == number and epoch.phase is EpochPhase.RUNNING:
                epoch.phase = EpochPhase.FINISHED

    def _emit(self) -> list[EpochCommand]:
        if not self._epochs or self._epochs[0].phase is not EpochPhase.FINISHED:
            return []
        epoch = self._epochs[0]
        epoch.phase, epoch.size_bytes, epoch.memory_bytes = EpochPhase.EMITTING, 0, 0
        return [EmitEpoch(epoch.number)]

    def _emitted(self, number: int) -> list[EpochCommand]:
        first = self._epochs[0] if self._epochs else None
        if first is None or first.phase is not EpochPhase.EMITTING or first.number != number:
            raise InvalidEvent(f"epoch {number} has been emitted, but its results were not to be")
        self._epochs.popleft()
        return [*map(ForwardControl, first.followers), *self._emit()]

    def validate(self) -> None:
        """Raise `AssertionError` if an invariant does not hold."""
        epochs = list(self._epochs)
        numbers = [epoch.number for epoch in epochs]
        assert numbers == sorted(set(numbers)), "epochs are out of order"
        assert all(number < self._next_number for number in numbers), "a number will be given twice"
        assert all(epoch.records or not epoch.number for epoch in epochs), "an epoch has no records"
        phases = [epoch.phase for epoch in epochs]
        assert EpochPhase.EMITTING not in phases[1:], "an epoch is emitted before an earlier one"
        assert all(epoch.phase is not EpochPhase.GATHERING for epoch in epochs[:-1]), "two epochs gather"
        running = sum(epoch.phase is EpochPhase.RUNNING for epoch in epochs)
        assert running <= self._limits.max_running, "too many epochs run"
        assert not epochs or epochs[0].phase is not EpochPhase.FINISHED, "results wait without a reason"
        assert self._has_runner or running == 0, "an epoch runs before epochs can run"
