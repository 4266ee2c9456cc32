"""What goes into and out of the epochs of a stage: their limits, events and commands.

A stage gathers records, runs each epoch of them outside the tasks' loops, and emits the results when they
arrive. Gathered records, and epochs whose results have not been emitted, are the stage's state. So a barrier
never waits for a run. `epoch_shares` is the machine of one subtask, `epoch_leader` leads all of them.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field

from ..elements import Watermark, WatermarkStatus
from ..ids import CheckpointId
from .epoch_messages import FromLeader, ToLeader

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


class EpochPhase(enum.Enum):
    """What a subtask's share of an epoch is doing."""

    GATHERING = enum.auto()
    WAITING = enum.auto()
    RUNNING = enum.auto()
    FINISHED = enum.auto()
    """Its results are here."""
    EMITTING = enum.auto()


# ---------------------------------------------------------------- events


@dataclass(frozen=True, slots=True)
class RecordsGathered:
    """A batch of records came in and is stored with the epoch that `ShareMachine.gathering` names."""

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


# ---------------------------------------------------------------- commands


@dataclass(frozen=True, slots=True)
class EmitEpoch:
    """Drop the records of an epoch, and emit its results as downstream takes them, until `ResultsEmitted`."""

    number: int


@dataclass(frozen=True, slots=True)
class ForwardControl:
    """Emit a watermark or a change of idleness, now."""

    element: Control


@dataclass(frozen=True, slots=True)
class SpillRecords:
    """Move the records of an epoch that are in memory to local disk."""

    number: int


@dataclass(frozen=True, slots=True)
class WakeAt:
    """Report `TimePassed` at this time."""

    timestamp_ms: int


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
