"""The life of a job: all transitions are in one table."""

from __future__ import annotations

import enum

from ..common.job_status import JobStatus
from .life_cycle import LifeCycle


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


class JobLifeCycle(LifeCycle[JobStatus, JobEvent]):
    """Holds the status of one job and allows only what `TRANSITIONS` lists."""

    def __init__(self) -> None:
        super().__init__("job", TRANSITIONS, JobStatus.CREATED)
