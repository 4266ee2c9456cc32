"""Makes the `JobReport` and the `JobDetails` of a job from its coordinator."""

from __future__ import annotations

import socket
from dataclasses import replace

from ...common.secrets import masked_text
from ...protocol.scheduling.execution_graph import Subtask
from ...protocol.scheduling.execution_plan import execution_plan
from ...protocol.scheduling.rescaling import parallelism_of
from ...protocol.task_metrics import ExecutionState, TaskRates
from ..job_coordinator import JobCoordinator
from ..spec import JobSpec
from .bounded_statistics import BoundedStatistics
from .job_details import JobDetails, SubtaskDetails
from .job_history import SubtaskState
from .job_report import JobReport

_NO_RATES = TaskRates()
_CREATED = SubtaskState(ExecutionState.CREATED, 0, 0)


class JobView:
    """One job for those who look at it; used on the coordinator's thread.

    Args:
        spec: The job.
        coordinator: Its coordinator.
    """

    def __init__(self, spec: JobSpec, coordinator: JobCoordinator) -> None:
        self._spec = spec
        self._coordinator = coordinator
        self._statistics = BoundedStatistics()
        self._host = socket.gethostname()

    def details(self, report: JobReport, now_ms: int) -> JobDetails:
        """The job now.

        Args:
            report: Its report, taken at the same time.
            now_ms: By the coordinator's clock.
        """
        history = self._coordinator.observer.history
        return JobDetails(
            job_id=self._spec.job_id,
            report=replace(
                report,
                statistics=self._statistics.copy(report.statistics),
                cause=None if report.cause is None else masked_text(report.cause),
                details=masked_text(report.details),
            ),
            started_ms=history.started_ms,
            ended_ms=history.ended_ms,
            plan=execution_plan(self._coordinator.graph),
            subtasks=tuple(self._subtask(subtask) for subtask in self._coordinator.subtasks.values()),
            exceptions=tuple(history.exceptions),
            configuration=self._spec.settings.configuration,
            coordinator_host=self._host,
            now_ms=now_ms,
        )

    def _subtask(self, subtask: Subtask) -> SubtaskDetails:
        subtask_id = subtask.subtask_id
        known = self._coordinator.observer.history.subtasks.get(subtask_id, _CREATED)
        sample = self._coordinator.metrics.of(subtask_id)
        is_waiting = known.state is ExecutionState.INITIALIZING and not sample.host
        is_running = known.state is ExecutionState.RUNNING
        return SubtaskDetails(
            subtask=subtask_id,
            state=ExecutionState.DEPLOYING if is_waiting else known.state,
            since_ms=known.since_ms,
            attempt=known.attempt,
            host=sample.host,
            process_id=sample.process_id,
            metrics=sample.metrics,
            rates=sample.rates if is_running else _NO_RATES,
            metrics_ms=sample.taken_ms,
        )


def report_of(coordinator: JobCoordinator) -> JobReport:
    """A view of a coordinator's job."""
    failure, store, checkpoints = coordinator.failure, coordinator.store, coordinator.checkpoints
    newest = store.newest if store is not None else None
    return JobReport(
        status=coordinator.status,
        cause=None if failure is None else failure.cause,
        details="" if failure is None else failure.details,
        restarts=coordinator.statistics.restarts,
        statistics=coordinator.statistics.frozen(),
        newest_checkpoint=None
        if store is None or newest is None
        else store.directory_of(newest.checkpoint_id),
        stopped_with=coordinator.ownership.stopped_with,
        job_name=coordinator.job_name,
        checkpointing_mode="" if checkpoints is None else str(checkpoints.mode),
        parallelism=parallelism_of(coordinator.graph),
        rescaling=coordinator.rescaling,
        metrics_url=coordinator.metrics.url,
        fail_points=() if coordinator.fail_points is None else coordinator.fail_points.reports(),
    )
