"""What happens to the checkpoints of a job, and what the coordinator orders: the messages of its core."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NewType

from ..elements import CheckpointBarrier, SavepointTarget, SnapshotKind
from ..ids import Attempt, CheckpointId, SubtaskId
from .abort_reasons import AbortReason
from .handles import FileHandle, OperatorSnapshot

RequestId = NewType("RequestId", int)
"""One manual request; unique over all coordinators of a job."""


class AcknowledgeResult(enum.Enum):
    """What an acknowledgement meant."""

    SUCCESS = "success"
    DUPLICATE = "duplicate"
    UNKNOWN = "unknown"
    """No such checkpoint, or not a subtask of it, or a message of another attempt."""
    DISCARDED = "discarded"
    """The checkpoint had already ended; its late state is not used."""


@dataclass(frozen=True, slots=True)
class SubtaskMetrics:
    """How one subtask's snapshot went; durations in milliseconds.

    New fields go to the end: manifests hold the values in this order.
    """

    start_delay_ms: float = 0.0
    alignment_ms: float = 0.0
    sync_ms: float = 0.0
    async_ms: float = 0.0
    size_bytes: int = 0
    processed_bytes: int = 0
    """What the subtask processed between the first barrier and the last."""
    persisted_bytes: int = 0
    """What of the records under way was stored with the checkpoint."""
    taken_ms: float | None = None
    """From the trigger until the task began its snapshot; `None` where it is not known."""
    prepare_ms: float = 0.0
    """What operators did before they passed the barrier on."""
    waiting_ms: float = 0.0
    """In the asynchronous part: until the thread that stores snapshots had time for this one."""
    upload_ms: float = 0.0
    """In the asynchronous part: writing to checkpoint storage."""
    report_ms: float = 0.0
    """From the end of the asynchronous part until the task's loop had time to acknowledge."""
    last_channel: int = -1
    """The channel, from 0, whose barrier the snapshot waited for; -1 where the coordinator sent it."""
    queued_ms: float = 0.0
    """How long that barrier was there already and waited for its turn."""
    busy_ms: float = 0.0
    """In how much of that the task was busy."""
    backpressured_ms: float = 0.0
    """In how much of that the task had no credit for its output."""
    acknowledged_ms: float | None = None
    """From the trigger until the acknowledgement was with the coordinator; `None` where it is not known."""
    skew_ms: float = 0.0
    """By how much the task's clock must be ahead of the coordinator's (behind, if negative), at least."""
    worked_ms: float = 0.0
    """How long the task was busy since its snapshot before."""
    upstream: SubtaskId | None = None
    """The subtask at the other end of `last_channel`, as the coordinator knows."""


@dataclass(frozen=True, slots=True)
class StoredSavepoint:
    """One subtask's part of a savepoint: the same snapshots, in files of `directory` only."""

    directory: str
    snapshots: Mapping[str, OperatorSnapshot]


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """One subtask's part of a checkpoint: the snapshots of its operators by uid."""

    snapshots: Mapping[str, OperatorSnapshot]
    metrics: SubtaskMetrics = SubtaskMetrics()
    savepoint: StoredSavepoint | None = None

    def files(self) -> list[FileHandle]:
        """The files that it refers to."""
        return [file for snapshot in self.snapshots.values() for file in snapshot.files()]

    def dropped(self) -> list[FileHandle]:
        """The files that were merged before any acknowledgement named them."""
        return [file for snapshot in self.snapshots.values() for file in snapshot.keyed.dropped]


# ---------------------------------------------------------------- events


@dataclass(frozen=True, slots=True)
class TasksRunning:
    """All subtasks of `attempt` run; periodic checkpoints start after `initial_delay_ms`."""

    attempt: Attempt
    subtasks: frozenset[SubtaskId]
    sources: frozenset[SubtaskId]
    initial_delay_ms: int


@dataclass(frozen=True, slots=True)
class TasksStopped:
    """The attempt is over: `RESTARTED` and `TASK_FAILED` let requests wait, other reasons refuse them."""

    reason: AbortReason = AbortReason.RESTARTED


@dataclass(frozen=True, slots=True)
class CheckpointRequested:
    """Somebody asked for a checkpoint, a savepoint or a stop; `timeout_ms` of `None` is the usual timeout.

    `STOP` stops the job where it stands, `FINAL` after the sources were told to end (drain).
    """

    request_id: RequestId
    kind: SnapshotKind = SnapshotKind.CHECKPOINT
    timeout_ms: int | None = None
    savepoint: SavepointTarget | None = None
    is_forced: bool = False
    """Whether it does not wait until fewer checkpoints are under way than may be."""


@dataclass(frozen=True, slots=True)
class CleaningCounted:
    """So many checkpoints are not needed any more, and not deleted yet."""

    count: int


@dataclass(frozen=True, slots=True)
class TimePassed:
    """Look at the clock: a trigger or a timeout may be due."""


@dataclass(frozen=True, slots=True)
class SubtaskAcknowledged:
    """A subtask persisted its part of a checkpoint."""

    attempt: Attempt
    subtask: SubtaskId
    checkpoint_id: CheckpointId
    acknowledgement: Acknowledgement


@dataclass(frozen=True, slots=True)
class SubtaskDeclined:
    """A subtask could not take its part of a checkpoint."""

    attempt: Attempt
    subtask: SubtaskId
    checkpoint_id: CheckpointId
    cause: str
    reason: AbortReason = AbortReason.DECLINED


@dataclass(frozen=True, slots=True)
class SubtaskInputEnded:
    """All input of the subtask ended, so no barrier reaches it through its channels.

    Attributes:
        is_drained: Whether it has passed everything on and only waits to commit. Otherwise its operators have
            something under way, such as the epochs of a Spark stage; another report follows.
    """

    attempt: Attempt
    subtask: SubtaskId
    is_drained: bool = True


@dataclass(frozen=True, slots=True)
class ManifestWritten:
    """The manifest of a checkpoint is in storage: it exists."""

    checkpoint_id: CheckpointId


@dataclass(frozen=True, slots=True)
class ManifestFailed:
    """The manifest of a checkpoint could not be written."""

    checkpoint_id: CheckpointId
    cause: str


CheckpointEvent = (
    TasksRunning
    | TasksStopped
    | CheckpointRequested
    | CleaningCounted
    | TimePassed
    | SubtaskAcknowledged
    | SubtaskDeclined
    | SubtaskInputEnded
    | ManifestWritten
    | ManifestFailed
)

# ---------------------------------------------------------------- commands


@dataclass(frozen=True, slots=True)
class TriggerSubtasks:
    """Send the barrier to these subtasks; `is_new` when it opens the checkpoint."""

    barrier: CheckpointBarrier
    subtasks: tuple[SubtaskId, ...]
    is_new: bool


@dataclass(frozen=True, slots=True)
class DrainSources:
    """Tell these sources that their input ends here."""

    subtasks: tuple[SubtaskId, ...]


@dataclass(frozen=True, slots=True)
class WriteManifest:
    """Every subtask has acknowledged: make the checkpoint exist."""

    checkpoint_id: CheckpointId
    barrier: CheckpointBarrier
    acknowledgements: Mapping[SubtaskId, Acknowledgement]


@dataclass(frozen=True, slots=True)
class NotifyComplete:
    """Tell these subtasks that a checkpoint is complete."""

    checkpoint_id: CheckpointId
    subtasks: tuple[SubtaskId, ...]


@dataclass(frozen=True, slots=True)
class NotifyAborted:
    """Tell these subtasks that a checkpoint will not complete."""

    checkpoint_id: CheckpointId
    subtasks: tuple[SubtaskId, ...]
    reason: AbortReason
    cause: str
    savepoint: SavepointTarget | None = None
    """Where its savepoint was to be, if it had one."""


@dataclass(frozen=True, slots=True)
class DeleteSubsumed:
    """Begin to delete what is not needed since a checkpoint completed."""

    checkpoint_id: CheckpointId


@dataclass(frozen=True, slots=True)
class RegisterFiles:
    """The last acknowledgement of this subtask refers to these files, so its next one may.

    `is_pending` when the checkpoint is under way and needs them too; else it had ended before.
    """

    subtask: SubtaskId
    checkpoint_id: CheckpointId
    acknowledgement: Acknowledgement
    is_pending: bool


@dataclass(frozen=True, slots=True)
class DiscardFiles:
    """An acknowledgement that is not of this attempt: nobody else needs what only it refers to."""

    acknowledgement: Acknowledgement


@dataclass(frozen=True, slots=True)
class AnswerRequest:
    """What became of a manual request: a completed checkpoint, or the reason why there is none."""

    request_id: RequestId
    checkpoint_id: CheckpointId | None
    reason: AbortReason | None = None
    cause: str = ""
    savepoint: SavepointTarget | None = None
    """Where the savepoint of the checkpoint was requested."""
    savepoint_path: str = ""
    """The requested savepoint; empty until the coordinator fills it in."""


@dataclass(frozen=True, slots=True)
class FailJob:
    """Too many checkpoints failed."""

    cause: str


@dataclass(frozen=True, slots=True)
class UndoDrain:
    """The sources have ended their input for a savepoint that failed: start again where that had not."""

    cause: str


CheckpointCommand = (
    TriggerSubtasks
    | DrainSources
    | WriteManifest
    | NotifyComplete
    | NotifyAborted
    | DeleteSubsumed
    | RegisterFiles
    | DiscardFiles
    | AnswerRequest
    | FailJob
    | UndoDrain
)
