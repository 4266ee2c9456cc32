"""What the coordinator and the tasks say to each other, apart from checkpoint acknowledgements."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

from .checkpoints.checkpoint_events import SubtaskAcknowledged, SubtaskDeclined, SubtaskInputEnded
from .elements import CheckpointBarrier
from .ids import Attempt, ChannelId, CheckpointId, SubtaskId
from .source_events import CoordinatorEvent, ReaderEvent
from .stages.epoch_messages import FromLeader, ToLeader
from .task_metrics import TaskMetrics

# ---------------------------------------------------------------- to a task


@dataclass(frozen=True, slots=True)
class StartRunning:
    """Every subtask is initialised: begin to process."""


@dataclass(frozen=True, slots=True)
class TriggerCheckpoint:
    """Take a snapshot, if no barrier of it will come through a channel."""

    barrier: CheckpointBarrier


@dataclass(frozen=True, slots=True)
class EndSource:
    """The input of this source ends here, whatever it still has (drain)."""


@dataclass(frozen=True, slots=True)
class CheckpointCompleted:
    """A checkpoint is complete."""

    checkpoint_id: CheckpointId
    trace_context: str | None = None
    """W3C traceparent of the checkpoint's root span."""


@dataclass(frozen=True, slots=True)
class CheckpointAborted:
    """A checkpoint will not complete."""

    checkpoint_id: CheckpointId


@dataclass(frozen=True, slots=True)
class CancelTask:
    """Stop processing, close the operators and send nothing more."""


@dataclass(frozen=True, slots=True)
class CreditReturned:
    """The receiver consumed messages of `size_bytes` on this output channel."""

    channel: ChannelId
    size_bytes: int


@dataclass(frozen=True, slots=True)
class SendFailed:
    """The transport reports that a marker did not arrive, or that its answer did not."""

    channel: ChannelId
    sequence_number: int
    cause: str


@dataclass(frozen=True, slots=True)
class ConnectionFailed:
    """The direct connection that carries a channel, in or out, was lost for too long."""

    channel: ChannelId
    cause: str


@dataclass(frozen=True, slots=True)
class ResultsTaken:
    """The driver took collected results of `size_bytes`."""

    size_bytes: int


@dataclass(frozen=True, slots=True)
class QueryState:
    """Look up one key of a keyed state and report `StateQueried`."""

    query_id: int
    operator_uid: str
    state_name: str
    key: Any
    namespace: Any


@dataclass(frozen=True, slots=True)
class ToOperator:
    """The coordinator's half of an operator speaks to its other half in a subtask."""

    operator_uid: str
    event: CoordinatorEvent | FromLeader


@dataclass(frozen=True, slots=True)
class Numbered:
    """Mail that must be taken in the order of its numbers, which start at 0 in every attempt."""

    number: int
    mail: TaskMail


@dataclass(frozen=True, slots=True)
class NumberedSent:
    """How many `Numbered` the coordinator has sent to this subtask in this attempt."""

    count: int


TaskMail: TypeAlias = (
    StartRunning
    | TriggerCheckpoint
    | EndSource
    | CheckpointCompleted
    | CheckpointAborted
    | CancelTask
    | CreditReturned
    | SendFailed
    | ConnectionFailed
    | ResultsTaken
    | QueryState
    | ToOperator
    | Numbered
    | NumberedSent
)

# ---------------------------------------------------------------- from a task


@dataclass(frozen=True, slots=True)
class TaskInitialized:
    """State is restored and all functions are open."""

    attempt: Attempt
    subtask: SubtaskId


@dataclass(frozen=True, slots=True)
class TaskFinished:
    """Everything is processed and committed; the operators are closed."""

    attempt: Attempt
    subtask: SubtaskId
    metrics: TaskMetrics = field(default_factory=TaskMetrics, compare=False)
    """The last ones: nobody asks a task that has ended."""


@dataclass(frozen=True, slots=True)
class TaskStopped:
    """The subtask runs no more, because it was cancelled or its process is gone."""

    attempt: Attempt
    subtask: SubtaskId


@dataclass(frozen=True, slots=True)
class TaskFailed:
    """The subtask failed. `is_recoverable` is false when a restart cannot help."""

    attempt: Attempt
    subtask: SubtaskId
    cause: str
    details: str = ""
    is_recoverable: bool = True
    is_start_error: bool = False
    """Whether it is an error of the program, raised while the subtask was initialised."""
    is_network_error: bool = False
    """Whether the network lost a message or a connection: the connections of the process may not work."""


@dataclass(frozen=True, slots=True)
class ResultsCollected:
    """Records for the driver. `key` makes a repeated delivery after a restart recognisable."""

    attempt: Attempt
    subtask: SubtaskId
    key: str
    values: Any
    size_bytes: int


@dataclass(frozen=True, slots=True)
class SpansRecorded:
    """Finished trace spans of a subtask, as plain dicts."""

    attempt: Attempt
    subtask: SubtaskId
    spans: tuple[Any, ...]
    notified: CheckpointId | None = None
    """The checkpoint whose completion the subtask has dealt with."""


@dataclass(frozen=True, slots=True)
class StateQueried:
    """The answer to a `QueryState`: the pickled value, or why there is none."""

    attempt: Attempt
    subtask: SubtaskId
    query_id: int
    value: bytes
    error: str | None = None


@dataclass(frozen=True, slots=True)
class FromOperator:
    """An operator in a subtask speaks to its half in the coordinator."""

    attempt: Attempt
    subtask: SubtaskId
    operator_uid: str
    event: ReaderEvent | ToLeader


TaskEvent = (
    SpansRecorded
    | FromOperator
    | StateQueried
    | TaskInitialized
    | TaskFinished
    | TaskStopped
    | TaskFailed
    | ResultsCollected
    | SubtaskAcknowledged
    | SubtaskDeclined
    | SubtaskInputEnded
)
