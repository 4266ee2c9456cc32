"""A checkpoint from its trigger to its end: the transitions are one table."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ..elements import CheckpointBarrier
from ..ids import CheckpointId, SubtaskId
from ..invalid_event import InvalidEvent
from ..life_cycle import LifeCycle
from .abort_reasons import AbortReason
from .checkpoint_events import Acknowledgement, NotifyAborted, NotifyComplete, RequestId, WriteManifest
from .handles import OperatorSnapshot


class CheckpointState(enum.Enum):
    """How far a checkpoint is. Before it is pending it has no id."""

    PENDING = "subtasks have to acknowledge it"
    WRITING = "its manifest is being written"
    COMPLETED = "it exists"
    ABORTED = "it will not exist"


class CheckpointStep(enum.Enum):
    """What happens to a checkpoint."""

    ACKNOWLEDGED = "acknowledged, others missing"
    INPUT_ENDED = "input of a missing subtask ended"
    ALL_ACKNOWLEDGED = "last acknowledgement"
    DECLINED = "declined"
    EXPIRED = "timeout"
    SUBSUMED = "newer one completed"
    STOPPED = "tasks stopped"
    WRITTEN = "manifest written"
    FAILED = "manifest failed"


CHECKPOINT_TRANSITIONS: dict[tuple[CheckpointState, CheckpointStep], CheckpointState] = {
    (CheckpointState.PENDING, CheckpointStep.ACKNOWLEDGED): CheckpointState.PENDING,
    (CheckpointState.PENDING, CheckpointStep.INPUT_ENDED): CheckpointState.PENDING,
    (CheckpointState.PENDING, CheckpointStep.ALL_ACKNOWLEDGED): CheckpointState.WRITING,
    (CheckpointState.PENDING, CheckpointStep.DECLINED): CheckpointState.ABORTED,
    (CheckpointState.PENDING, CheckpointStep.EXPIRED): CheckpointState.ABORTED,
    (CheckpointState.PENDING, CheckpointStep.SUBSUMED): CheckpointState.ABORTED,
    (CheckpointState.PENDING, CheckpointStep.STOPPED): CheckpointState.ABORTED,
    (CheckpointState.WRITING, CheckpointStep.WRITTEN): CheckpointState.COMPLETED,
    (CheckpointState.WRITING, CheckpointStep.FAILED): CheckpointState.ABORTED,
    (CheckpointState.WRITING, CheckpointStep.SUBSUMED): CheckpointState.ABORTED,
    (CheckpointState.WRITING, CheckpointStep.STOPPED): CheckpointState.ABORTED,
}
"""A decline or a timeout cannot undo a checkpoint whose manifest may exist; both are not listed for it."""


def step_of(reason: AbortReason) -> CheckpointStep:
    """The step in which a checkpoint is aborted for this reason."""
    if reason.is_decline:
        return CheckpointStep.DECLINED
    steps = {
        AbortReason.EXPIRED: CheckpointStep.EXPIRED,
        AbortReason.SUBSUMED: CheckpointStep.SUBSUMED,
        AbortReason.MANIFEST_FAILED: CheckpointStep.FAILED,
    }
    return steps.get(reason, CheckpointStep.STOPPED)


class CheckpointLifeCycle(LifeCycle[CheckpointState, CheckpointStep]):
    """Holds the state of one checkpoint."""

    def __init__(self) -> None:
        super().__init__("the checkpoint", CHECKPOINT_TRANSITIONS, CheckpointState.PENDING)


@dataclass(slots=True)
class PendingCheckpoint:
    """A triggered checkpoint that has neither completed nor been aborted."""

    barrier: CheckpointBarrier
    deadline_ms: int
    missing: set[SubtaskId]
    requests: tuple[RequestId, ...] = ()
    """The manual requests that it answers."""
    acknowledgements: dict[SubtaskId, Acknowledgement] = field(default_factory=dict)
    life: CheckpointLifeCycle = field(default_factory=CheckpointLifeCycle)

    @property
    def checkpoint_id(self) -> CheckpointId:
        """Its id."""
        return self.barrier.checkpoint_id

    @property
    def is_ended(self) -> bool:
        """Whether it has completed or was aborted."""
        return self.life.state in (CheckpointState.COMPLETED, CheckpointState.ABORTED)

    @property
    def is_writing(self) -> bool:
        """Whether all subtasks have acknowledged it, and its manifest is being written."""
        return self.life.state is CheckpointState.WRITING

    def acknowledge(self, subtask: SubtaskId, acknowledgement: Acknowledgement) -> CheckpointStep:
        """A subtask that was missing acknowledged; what happens to the checkpoint by that."""
        self.missing.discard(subtask)
        self.acknowledgements[subtask] = acknowledgement
        return CheckpointStep.ACKNOWLEDGED if self.missing else CheckpointStep.ALL_ACKNOWLEDGED

    def has_expired(self, now_ms: int) -> bool:
        """Whether its timeout has passed, and still counts."""
        return self.life.allows(CheckpointStep.EXPIRED) and self.deadline_ms <= now_ms

    def missed(self) -> str:
        """Which acknowledgements are missing, for errors."""
        timeout_ms = self.deadline_ms - self.barrier.timestamp_ms
        return f"no acknowledgement from {self._missing_text} within {timeout_ms} ms"

    def write_manifest(self) -> WriteManifest:
        """Make it exist."""
        return WriteManifest(self.checkpoint_id, self.barrier, self.acknowledgements)

    def notify_complete(self) -> NotifyComplete:
        """Notify its subtasks that it is complete."""
        return NotifyComplete(self.checkpoint_id, self._subtasks)

    def notify_aborted(self, reason: AbortReason, cause: str) -> NotifyAborted:
        """Notify its subtasks that it will not complete."""
        return NotifyAborted(self.checkpoint_id, self._subtasks, reason, cause, self.barrier.savepoint)

    @property
    def _subtasks(self) -> tuple[SubtaskId, ...]:
        return tuple(sorted(self.missing | set(self.acknowledgements)))

    @property
    def _missing_text(self) -> str:
        return ", ".join(str(subtask) for subtask in sorted(self.missing))

    def check_is_writing(self, event: str) -> None:
        """Raise `InvalidEvent` unless all subtasks have acknowledged: only then is a manifest written."""
        if not self.is_writing:
            raise InvalidEvent(
                f"checkpoint {self.checkpoint_id} cannot take the event {event!r}: {self._missing_text} did "
                f"not acknowledge it yet, so no manifest is being written"
            )


def operator_snapshots(
    acknowledgements: Mapping[SubtaskId, Acknowledgement], uids: Iterable[str]
) -> dict[str, list[OperatorSnapshot]]:
    """Snapshots per operator uid, in subtask order."""
    result: dict[str, list[OperatorSnapshot]] = {}
    for uid in uids:
        having = [s for s in sorted(acknowledgements) if uid in acknowledgements[s].snapshots]
        result[uid] = [acknowledgements[subtask].snapshots[uid] for subtask in having]
    return result
