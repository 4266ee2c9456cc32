"""The life of a job as its client sees it (names of `pyflink.common.job_status`)."""

from __future__ import annotations

from enum import Enum

__all__ = ["JobStatus"]


class JobStatus(Enum):
    """What a job is doing."""

    CREATED = 0
    """Accepted; no task runs yet."""
    RUNNING = 1
    """Tasks are deployed, run or have finished."""
    FAILING = 2
    """Failed for good; its tasks are being stopped."""
    FAILED = 3
    """Ended by a failure that no restart could mend."""
    CANCELLING = 4
    """Cancelled by its user; its tasks are being stopped."""
    CANCELED = 5
    """Ended by its user."""
    FINISHED = 6
    """Every task has processed all of its input."""
    RESTARTING = 7
    """Being brought back to its newest checkpoint after a failure."""
    SUSPENDED = 8
    """Stopped here, but kept so that another coordinator can take it over."""
    RECONCILING = 9
    """Its coordinator was restarted and waits for reports of tasks that still run."""
    INITIALIZING = 10
    """Its coordinator is starting."""

    def is_globally_terminal_state(self) -> bool:
        """Return whether the job has ended everywhere, so that no coordinator may resume it."""
        return self in (JobStatus.FAILED, JobStatus.CANCELED, JobStatus.FINISHED)

    def is_terminal_state(self) -> bool:
        """Return whether this coordinator has nothing more to do for the job."""
        return self.is_globally_terminal_state() or self is JobStatus.SUSPENDED
