"""The life of a task: all transitions stand in one table. Also: which checkpoint ends the task."""

from __future__ import annotations

import enum

from .elements import SnapshotKind
from .ids import CheckpointId
from .life_cycle import LifeCycle


class TaskPhase(enum.Enum):
    """What a task is doing."""

    CREATED = "created"
    """Nothing is built yet."""
    INITIALIZED = "initialized"
    """State is restored and functions are open; waiting for the others."""
    RUNNING = "running"
    """Processing."""
    COMMITTING = "committing"
    """All input ended; waiting for the final checkpoint to commit."""
    STOPPING = "stopping"
    """Processing nothing after the barrier of a stop; waiting until it is complete, or given up."""
    FINISHED = "finished"
    CANCELED = "canceled"
    FAILED = "failed"

    @property
    def is_terminal(self) -> bool:
        """Whether the task will do nothing more."""
        return self in (TaskPhase.FINISHED, TaskPhase.CANCELED, TaskPhase.FAILED)


class TaskLifeEvent(enum.Enum):
    """What happened to a task."""

    OPENED = "operators are open"
    STARTED = "started by the coordinator"
    STOP_TAKEN = "took the snapshot of a stop"
    STOP_GIVEN_UP = "the stop was given up"
    INPUT_ENDED = "all input ended"
    ENDED = "nothing is left to commit"
    CANCEL_REQUESTED = "cancel requested"
    FAILED = "failed"


_Phase, _Event = TaskPhase, TaskLifeEvent

TRANSITIONS: dict[tuple[TaskPhase, TaskLifeEvent], TaskPhase] = {
    (_Phase.CREATED, _Event.OPENED): _Phase.INITIALIZED,
    (_Phase.INITIALIZED, _Event.STARTED): _Phase.RUNNING,
    (_Phase.RUNNING, _Event.STOP_TAKEN): _Phase.STOPPING,
    (_Phase.STOPPING, _Event.STOP_GIVEN_UP): _Phase.RUNNING,
    (_Phase.RUNNING, _Event.INPUT_ENDED): _Phase.COMMITTING,
    # The end of a channel was what the stop waited for, and it was the last channel.
    (_Phase.STOPPING, _Event.INPUT_ENDED): _Phase.COMMITTING,
    # The checkpoint that the job was restored from had been its last.
    (_Phase.INITIALIZED, _Event.ENDED): _Phase.FINISHED,
    (_Phase.RUNNING, _Event.ENDED): _Phase.FINISHED,
    (_Phase.STOPPING, _Event.ENDED): _Phase.FINISHED,
    (_Phase.COMMITTING, _Event.ENDED): _Phase.FINISHED,
    **{(phase, _Event.CANCEL_REQUESTED): _Phase.CANCELED for phase in _Phase if not phase.is_terminal},
    # Also where an error follows the end: it must not be lost.
    **{(phase, _Event.FAILED): _Phase.FAILED for phase in _Phase},
}
"""Anything not in the table is a bug in the caller, and raises."""


class TaskLife(LifeCycle[TaskPhase, TaskLifeEvent]):
    """Holds the phase of one task in one attempt, and which checkpoint ends it.

    Attributes:
        is_running: Whether the task processes records.
        is_over: Whether the task will do nothing more.
    """

    def __init__(self) -> None:
        super().__init__("the task", TRANSITIONS, TaskPhase.CREATED)
        self.is_running = False
        self.is_over = False
        # The checkpoint whose completion ends the task.
        self._final_id: CheckpointId | None = None
        self._newest_final_id = CheckpointId(0)
        self._given_up_id = CheckpointId(0)

    def handle(self, event: TaskLifeEvent) -> TaskPhase:
        phase = super().handle(event)
        self.is_running = phase is TaskPhase.RUNNING
        self.is_over = phase.is_terminal
        return phase

    def snapshot_taken(self, kind: SnapshotKind, checkpoint_id: CheckpointId) -> None:
        """The barrier of a checkpoint has passed."""
        is_running = self.is_running
        if kind is SnapshotKind.STOP and checkpoint_id > self._given_up_id:
            # Else it was given up before its barrier came, and no later message would resume this task.
            self._final_id = checkpoint_id
            if is_running:
                self.handle(TaskLifeEvent.STOP_TAKEN)
        elif kind is SnapshotKind.FINAL and not is_running:
            # An earlier one must not end the task: others still run, and their checkpoints need it.
            self._final_id = self._final_id or checkpoint_id
            self._newest_final_id = checkpoint_id

    def ends_with(self, checkpoint_id: CheckpointId) -> bool:
        """Whether the task ends because a checkpoint is complete."""
        return self._final_id is not None and checkpoint_id >= self._final_id

    def checkpoint_given_up(self, checkpoint_id: CheckpointId) -> bool:
        """A checkpoint will not complete; whether the task runs again for that."""
        self._given_up_id = max(self._given_up_id, checkpoint_id)
        if checkpoint_id != self._final_id:
            return False
        # Its abort may arrive after the barrier of the next one.
        is_followed = self._newest_final_id > checkpoint_id
        self._final_id = self._newest_final_id if is_followed else None
        return self._resumed()

    def source_ends(self) -> bool:
        """The job goes on, to the end of its sources; whether the task runs again for that."""
        return self._final_id is not None and self.job_continues(CheckpointId(self._final_id + 1))

    def job_continues(self, checkpoint_id: CheckpointId) -> bool:
        """The job takes a checkpoint that does not follow a stop; whether the task runs again for that.

        The stop was given up, and what comes next may arrive before that message.
        """
        if self._final_id is None or self._final_id >= checkpoint_id:
            return False
        self._final_id = None
        return self._resumed()

    def _resumed(self) -> bool:
        is_stopping = self.state is TaskPhase.STOPPING
        if is_stopping:
            self.handle(TaskLifeEvent.STOP_GIVEN_UP)
        return is_stopping
