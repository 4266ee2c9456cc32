"""Where a coordinator is with the tasks of its job: the transitions are one table.

The status of a job says what its user sees. While it is RESTARTING its tasks are stopped, wait for the next
attempt or are deployed, and the same event means something else in each of these phases.
"""

from __future__ import annotations

import enum

from ..common.job_status import JobStatus
from .checkpoints.trigger import NEVER_MS
from .life_cycle import LifeCycle


class TasksPhase(enum.Enum):
    """What happens to the tasks of a job; the text completes "the tasks ..."."""

    WAITING = "wait for the next attempt"
    DEPLOYING = "are deployed and initialize"
    RUNNING = "run"
    STOPPING = "are being stopped for the next attempt"
    ENDING = "are being stopped for good"


class TasksEvent(enum.Enum):
    """What happens to them next."""

    DUE = "time to deploy"
    POSTPONED = "storage does not answer"
    INITIALIZED = "all tasks initialized"
    RESTART = "restart decided"
    STOPPED = "no task runs any more"
    END = "end decided"


TASKS_TRANSITIONS: dict[tuple[TasksPhase, TasksEvent], TasksPhase] = {
    (TasksPhase.WAITING, TasksEvent.DUE): TasksPhase.DEPLOYING,
    (TasksPhase.WAITING, TasksEvent.POSTPONED): TasksPhase.WAITING,
    (TasksPhase.WAITING, TasksEvent.END): TasksPhase.ENDING,
    (TasksPhase.DEPLOYING, TasksEvent.POSTPONED): TasksPhase.WAITING,
    (TasksPhase.DEPLOYING, TasksEvent.INITIALIZED): TasksPhase.RUNNING,
    (TasksPhase.DEPLOYING, TasksEvent.RESTART): TasksPhase.STOPPING,
    (TasksPhase.DEPLOYING, TasksEvent.END): TasksPhase.ENDING,
    (TasksPhase.RUNNING, TasksEvent.RESTART): TasksPhase.STOPPING,
    (TasksPhase.RUNNING, TasksEvent.END): TasksPhase.ENDING,
    (TasksPhase.STOPPING, TasksEvent.STOPPED): TasksPhase.WAITING,
    (TasksPhase.STOPPING, TasksEvent.END): TasksPhase.ENDING,
}
"""An event that is not in the table is a bug in the caller, and raises."""


PHASES: dict[JobStatus, frozenset[TasksPhase]] = {
    JobStatus.CREATED: frozenset({TasksPhase.WAITING}),
    JobStatus.INITIALIZING: frozenset({TasksPhase.WAITING, TasksPhase.DEPLOYING}),
    JobStatus.RUNNING: frozenset({TasksPhase.RUNNING}),
    JobStatus.RESTARTING: frozenset({TasksPhase.STOPPING, TasksPhase.WAITING, TasksPhase.DEPLOYING}),
    JobStatus.FAILING: frozenset({TasksPhase.ENDING}),
    JobStatus.CANCELLING: frozenset({TasksPhase.ENDING}),
    JobStatus.FINISHED: frozenset({TasksPhase.ENDING}),
    JobStatus.FAILED: frozenset({TasksPhase.ENDING, TasksPhase.WAITING}),
    JobStatus.CANCELED: frozenset({TasksPhase.ENDING}),
}
"""The phases that the tasks may be in while the job has a status."""


def check_phase(status: JobStatus, phase: TasksPhase) -> None:
    """Raise `AssertionError` if the tasks of a job cannot be in this phase while it has this status."""
    assert phase in PHASES.get(status, frozenset()), f"the job is {status.name}, but its tasks {phase.value}"


class TasksLifeCycle(LifeCycle[TasksPhase, TasksEvent]):
    """Holds the phase of the tasks of one job, and when the next attempt is due.

    Attributes:
        due_ms: The earliest time of the next attempt, in milliseconds since the Unix epoch.
    """

    def __init__(self) -> None:
        super().__init__("the tasks of the job", TASKS_TRANSITIONS, TasksPhase.WAITING)
        self.due_ms = NEVER_MS

    def restart(self, due_ms: int) -> None:
        """A restart was decided: the tasks stop, and the next attempt begins at `due_ms` or later."""
        self.handle(TasksEvent.RESTART)
        self.due_ms = due_ms

    def postpone(self, due_ms: int) -> None:
        """The next attempt cannot begin yet, and is tried again at `due_ms`."""
        self.handle(TasksEvent.POSTPONED)
        self.due_ms = due_ms

    def next_due_ms(self) -> int:
        """When the next attempt is due; `NEVER_MS` if it does not wait for time."""
        return self.due_ms if self.state is TasksPhase.WAITING else NEVER_MS

    def is_due(self, now_ms: int) -> bool:
        """Whether the next attempt may begin."""
        return self.state is TasksPhase.WAITING and self.due_ms <= now_ms
