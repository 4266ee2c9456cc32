"""Accounts for the outages of a job: what failed first, what was restored, how long results were missing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from ...protocol.ids import Attempt, CheckpointId, SubtaskId
from ...protocol.scheduling.execution_graph import Subtask
from ...protocol.task_metrics import TaskMetrics
from .statistics import JobStatistics, RecoveryStatistics

COORDINATOR_LOST = "the coordinator was started again"


class Recoveries:
    """Writes the recoveries and restarts of a job into its statistics.

    A recovery begins with the first failure: failures while the job restarts belong to it. It ends when every
    subtask runs. The outage around it ends later, with the first result.

    Args:
        statistics: The job's.
    """

    def __init__(self, statistics: Callable[[], JobStatistics]) -> None:
        self._statistics_now = statistics
        self._failed_ms: int | None = None
        self._cause = ""
        self._failures = 0
        self._earlier = 0

    @property
    def _statistics(self) -> JobStatistics:
        return self._statistics_now()

    def resumed(self, now_ms: int) -> None:
        """The coordinator starts and is not the first of its job; it has read the stored statistics."""
        self._earlier = self._statistics.restarts + 1
        self.failed(COORDINATOR_LOST, now_ms)

    def failed(self, cause: str, now_ms: int) -> None:
        """Something failed, or the job is restarted for another reason than another parallelism."""
        if self._failed_ms is None:
            self._failed_ms, self._cause, self._failures = now_ms, cause, 0
        self._failures += 1

    def deployed(self, restarts: int) -> None:
        """An attempt begins; this coordinator has restarted the job that often."""
        self._statistics.restarts = self._earlier + restarts

    def running(
        self, attempt: Attempt, restored: CheckpointId | None, is_rescaled: bool, now_ms: int
    ) -> None:
        """Every subtask runs.

        Args:
            attempt: The attempt.
            restored: The checkpoint or savepoint that it started from.
            is_rescaled: Whether it began for another parallelism, and not because of a failure.
            now_ms: The time.
        """
        failed_ms, self._failed_ms = self._failed_ms, None
        if failed_ms is None or is_rescaled:
            return
        self._statistics.recoveries.append(
            RecoveryStatistics(
                attempt,
                failed_ms,
                now_ms,
                self._cause,
                restored,
                self._failures,
                self._statistics.last_result_ms,
            )
        )

    def measured(
        self, metrics: Mapping[SubtaskId, TaskMetrics], subtasks: Mapping[SubtaskId, Subtask]
    ) -> None:
        """Subtasks of the current attempt say when they gave their first and last results."""
        ends = [one for name, one in metrics.items() if name in subtasks and not subtasks[name].outgoing]
        first_ms = min((one.first_result_ms for one in ends if one.first_result_ms is not None), default=None)
        last_ms = max((one.last_result_ms for one in ends if one.last_result_ms is not None), default=None)
        if first_ms is None or last_ms is None:
            return
        if self._failed_ms is None:
            self._end_outage(first_ms)
        self._statistics.last_result_ms = max(last_ms, self._statistics.last_result_ms or 0)

    def _end_outage(self, first_ms: int) -> None:
        """The newest recoveries without a result between them have their first result.

        Another process may report an earlier one afterwards.
        """
        recoveries = self._statistics.recoveries
        if not recoveries:
            return
        newest = recoveries[-1]
        if newest.first_result_ms is not None and newest.first_result_ms <= first_ms:
            return
        for index in range(len(recoveries) - 1, -1, -1):
            one = recoveries[index]
            if (one.last_result_ms, one.first_result_ms) != (newest.last_result_ms, newest.first_result_ms):
                return
            recoveries[index] = replace(one, first_result_ms=first_ms)
