"""Makes the `JobDetails` of a job from its coordinator."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

from ..common.secrets import masked_text
from ..protocol.execution_plan import execution_plan
from ..protocol.ids import SubtaskId
from ..protocol.plan import Subtask, build_execution_graph
from ..protocol.task_metrics import ExecutionState
from .job_client import JobReport
from .job_coordinator import JobCoordinator
from .job_details import JobDetails, JobException, SubtaskDetails
from .job_history import SubtaskState
from .spec import JobSpec
from .statistics import JobStatistics


class Place(NamedTuple):
    """Where a subtask runs: the name of its host, and its process, 0 for the driver's."""

    host: str
    process_id: int


_NOWHERE = Place("", 0)
_CREATED = SubtaskState(ExecutionState.CREATED, 0, 0)


class JobView:
    """One job for those who look at it; used on the coordinator's thread.

    Args:
        spec: The job.
        coordinator: Its coordinator.
        places: Where the subtasks are that have a place; `None` for all in this process.
    """

    def __init__(
        self,
        spec: JobSpec,
        coordinator: JobCoordinator,
        places: Callable[[], Mapping[SubtaskId, Place]] | None = None,
    ) -> None:
        self._spec = spec
        self._coordinator = coordinator
        self._places = places
        self._known_places: dict[SubtaskId, Place] = {}
        self._host = socket.gethostname()

    def details(self, report: JobReport, now_ms: int) -> JobDetails:
        """The job now.

        Args:
            report: Its report, taken at the same time.
            now_ms: By the coordinator's clock.
        """
        history = self._coordinator.history
        graph = build_execution_graph(self._coordinator.graph)
        places = self._current_places()
        return JobDetails(
            job_id=self._spec.job_id,
            report=replace(
                report,
                statistics=_copied(report.statistics),
                cause=None if report.cause is None else masked_text(report.cause),
                details=masked_text(report.details),
            ),
            started_ms=history.started_ms,
            ended_ms=history.ended_ms,
            plan=execution_plan(self._coordinator.graph),
            subtasks=tuple(self._subtask(subtask, places) for subtask in graph.subtasks.values()),
            exceptions=tuple(_placed(one, graph.subtasks, places) for one in history.exceptions),
            configuration=self._spec.settings.configuration,
            coordinator_host=self._host,
            now_ms=now_ms,
        )

    def _current_places(self) -> Mapping[SubtaskId, Place]:
        """A subtask whose process has gone is still told to have been there."""
        if self._places is not None:
            self._known_places.update(self._places())
        return self._known_places

    def _subtask(self, subtask: Subtask, places: Mapping[SubtaskId, Place]) -> SubtaskDetails:
        place = places.get(subtask.subtask_id, _NOWHERE) if self._places else Place(self._host, 0)
        known = self._coordinator.history.subtasks.get(subtask.subtask_id, _CREATED)
        metrics, rates, metrics_ms = self._coordinator.metrics.of(subtask.subtask_id)
        is_waiting = known.state is ExecutionState.INITIALIZING and not place.host
        return SubtaskDetails(
            subtask=subtask.subtask_id,
            state=ExecutionState.DEPLOYING if is_waiting else known.state,
            since_ms=known.since_ms,
            attempt=known.attempt,
            host=place.host,
            process_id=place.process_id,
            metrics=metrics,
            rates=rates,
            metrics_ms=metrics_ms,
        )


def _copied(statistics: JobStatistics) -> JobStatistics:
    """For readers in other threads, while the coordinator goes on with the original."""
    return replace(
        statistics,
        warnings=statistics.warnings.copy(),
        checkpoints=statistics.checkpoints.copy(),
        counts=statistics.counts.copy(),
        recoveries=statistics.recoveries.copy(),
    )


def _placed(
    exception: JobException, subtasks: Mapping[SubtaskId, Subtask], places: Mapping[SubtaskId, Place]
) -> JobException:
    subtask = None if exception.subtask is None else subtasks.get(exception.subtask)
    if subtask is None:
        return exception
    return replace(exception, subtask_name=subtask.name, host=places.get(subtask.subtask_id, _NOWHERE).host)
