"""The failures of a job, and what follows from each: a restart, or the end of the job."""

from __future__ import annotations

from dataclasses import replace

from ..protocol.scheduling.failover import Failover, GiveUp, RestartDecision
from ..protocol.scheduling.start_errors import StartErrors
from ..protocol.task_events import TaskFailed
from .monitoring.job_history import Failure


class JobFailures:
    """What one coordinator remembers of the failures of its job.

    Args:
        failover: Decides on restarts.
    """

    def __init__(self, failover: Failover) -> None:
        self._failover = failover
        self._start_errors = StartErrors()
        self.latest: Failure | None = None
        """The last failure, if any."""
        self.is_final = False
        """Whether the job failed because no restart can help."""

    def running(self) -> None:
        """All subtasks of an attempt run."""
        self._start_errors.running()

    def repeated(self, event: TaskFailed) -> GiveUp | None:
        """Why the job must not be restarted, if the program failed in the same way at an earlier start."""
        if not event.is_start_error:
            return None
        return self._start_errors.failed(event.subtask.task_id, event.cause)

    def decide(
        self, failure: Failure, is_recoverable: bool, repeated: GiveUp | None, has_restarted: bool
    ) -> RestartDecision:
        """Decide on the latest failure.

        Args:
            failure: The latest failure.
            is_recoverable: Whether a restart can help.
            repeated: Why no restart can help although the failure is recoverable, if so.
            has_restarted: Whether this coordinator has restarted the job before.
        """
        if repeated is not None:
            decision: RestartDecision = repeated
        elif is_recoverable:
            decision = self._failover.on_failure(failure.occurred_ms)
        else:
            decision = GiveUp("")
        if isinstance(decision, GiveUp):
            self.is_final = repeated is not None or not is_recoverable
            if decision.reason and has_restarted:
                self.latest = replace(failure, cause=f"{failure.cause} ({decision.reason})")
        return decision
