"""The life of a job: all transitions stand in one table."""

from __future__ import annotations

import enum

from ..common.job_status import JobStatus
from .invalid_event import InvalidEvent


class JobEvent(enum.Enum):
    """What happened to a job."""

    DEPLOYED = "deployed"
    TASK_FAILED = "task failed"
    TASKS_RUNNING = "all tasks running"
    GAVE_UP = "gave up"
    CANCEL_REQUESTED = "cancel requested"
    TASKS_STOPPED = "tasks stopped"
    TASKS_FINISHED = "tasks finished"
    RESCALED = "rescaled"


TRANSITIONS: dict[tuple[JobStatus, JobEvent], JobStatus] = {
    (JobStatus.CREATED, JobEvent.DEPLOYED): JobStatus.INITIALIZING,
    (JobStatus.CREATED, JobEvent.CANCEL_REQUESTED): JobStatus.CANCELED,
    (JobStatus.CREATED, JobEvent.GAVE_UP): JobStatus.FAILED,
    (JobStatus.INITIALIZING, JobEvent.TASKS_RUNNING): JobStatus.RUNNING,
    (JobStatus.INITIALIZING, JobEvent.TASK_FAILED): JobStatus.RESTARTING,
    (JobStatus.INITIALIZING, JobEvent.CANCEL_REQUESTED): JobStatus.CANCELLING,
    (JobStatus.RUNNING, JobEvent.TASK_FAILED): JobStatus.RESTARTING,
    (JobStatus.RUNNING, JobEvent.RESCALED): JobStatus.RESTARTING,
    (JobStatus.RUNNING, JobEvent.CANCEL_REQUESTED): JobStatus.CANCELLING,
    (JobStatus.RUNNING, JobEvent.TASKS_FINISHED): JobStatus.FINISHED,
    (JobStatus.RESTARTING, JobEvent.TASKS_RUNNING): JobStatus.RUNNING,
    (JobStatus.RESTARTING, JobEvent.TASK_FAILED): JobStatus.RESTARTING,
    (JobStatus.RESTARTING, JobEvent.GAVE_UP): JobStatus.FAILING,
    (JobStatus.RESTARTING, JobEvent.CANCEL_REQUESTED): JobStatus.CANCELLING,
    (JobStatus.FAILING, JobEvent.TASKS_STOPPED): JobStatus.FAILED,
    (JobStatus.CANCELLING, JobEvent.TASKS_STOPPED): JobStatus.CANCELED,
}
"""Anything not in the table is a bug in the caller, and raises."""


class InvalidTransition(InvalidEvent):
    """An event that must not happen in this status."""

    def __init__(self, status: JobStatus, event: JobEvent) -> None:
        super().__init__(f"job in status {status.name} cannot take the event {event.value!r}")
        self.status = status
        self.event = event


class JobLifeCycle:
    """Holds the status of one job and allows only what `TRANSITIONS` lists."""

    def __init__(self) -> None:
        self.status = JobStatus.CREATED

    def allows(self, event: JobEvent) -> bool:
        """Whether `event` may happen now."""
        return (self.status, event) in TRANSITIONS

    def handle(self, event: JobEvent) -> JobStatus:
        """Take one event and return the new status; raises `InvalidTransition`."""
        try:
            self.status = TRANSITIONS[self.status, event]
        except KeyError:
            raise InvalidTransition(self.status, event) from None
        return self.status
