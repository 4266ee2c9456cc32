"""Metrics of jobs and vertices under Flink's names, and the compact document that a page polls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from ....coordinator.monitoring.job_details import JobDetails, SubtaskDetails
from ....coordinator.monitoring.stage_metrics import reports_by_stage, stage_values
from ....coordinator.monitoring.statistics import CheckpointOutcome
from ....protocol.ids import SubtaskId
from ....protocol.task_metrics import ExecutionState
from ...stages import stage_documents, whole_stage_documents
from ..directory import FoundJob
from ..job_graph import VertexView, vertices_of
from ..models import job_models as models
from ..models.stage_models import StageInfo, WholeStageInfo
from .checkpoint_views import checkpoint_info
from .job_views import duration_of, shortened

_LETTERS = {
    ExecutionState.CREATED: "C",
    ExecutionState.DEPLOYING: "D",
    ExecutionState.INITIALIZING: "I",
    ExecutionState.RUNNING: "R",
    ExecutionState.FINISHED: "F",
    ExecutionState.CANCELING: "G",
    ExecutionState.CANCELED: "X",
    ExecutionState.FAILED: "E",
}

_OF_SUBTASK: Mapping[str, Callable[[SubtaskDetails], float | None]] = {
    "accumulateBackPressuredTimeMs": lambda one: one.metrics.backpressured_ms,
    "accumulateBusyTimeMs": lambda one: one.metrics.busy_ms,
    "accumulateIdleTimeMs": lambda one: one.metrics.idle_ms,
    "backPressuredTimeMsPerSecond": lambda one: one.rates.backpressured_ms,
    "busyTimeMsPerSecond": lambda one: one.rates.busy_ms,
    "currentInputWatermark": lambda one: one.metrics.watermark_ms,
    "idleTimeMsPerSecond": lambda one: one.rates.idle_ms,
    "inputQueueSize": lambda one: one.metrics.input_bytes,
    "numBytesIn": lambda one: one.metrics.bytes_in,
    "numBytesInPerSecond": lambda one: one.rates.bytes_in,
    "numBytesOut": lambda one: one.metrics.bytes_out,
    "numBytesOutPerSecond": lambda one: one.rates.bytes_out,
    "numLateRecordsDropped": lambda one: one.metrics.late_records,
    "numRecordsIn": lambda one: one.metrics.records_in,
    "numRecordsInPerSecond": lambda one: one.rates.records_in,
    "numRecordsOut": lambda one: one.metrics.records_out,
    "numRecordsOutPerSecond": lambda one: one.rates.records_out,
    "outputQueueSize": lambda one: one.metrics.output_bytes,
    "stateSize": lambda one: one.metrics.state_bytes,
    "timers": lambda one: one.metrics.timers,
}

_NO_WATERMARK = -(1 << 63)
"""What Flink shows before the first watermark."""


def subtask_metrics(vertex: VertexView, wanted: Sequence[str]) -> list[models.AggregatedMetric]:
    """Metrics over the subtasks of a vertex; the names of those there are when none is wanted."""
    of_stages = _stage_values(vertex)
    if not wanted:
        user = {name for one in vertex.subtasks for name in one.metrics.user}
        user |= {name for values in of_stages.values() for name in values}
        return [models.AggregatedMetric(id=name) for name in [*_OF_SUBTASK, *sorted(user)]]
    return [found for name in wanted if (found := _aggregated(vertex, name, of_stages)) is not None]


def _aggregated(
    vertex: VertexView, name: str, of_stages: Mapping[SubtaskId, Mapping[str, float]]
) -> models.AggregatedMetric | None:
    take = _OF_SUBTASK.get(name) or (lambda one: _user_value(one, name, of_stages[one.subtask]))
    values = [value for value in map(take, vertex.subtasks) if value is not None]
    if not values:
        return None
    total = sum(values)
    return models.AggregatedMetric(
        id=name, min=min(values), max=max(values), avg=total / len(values), sum=total
    )


def _user_value(subtask: SubtaskDetails, name: str, of_stages: Mapping[str, float]) -> float | None:
    value = subtask.metrics.user.get(name)
    return value if isinstance(value, (int, float)) else of_stages.get(name)


def _stage_values(vertex: VertexView) -> dict[SubtaskId, dict[str, float]]:
    """The metrics of the stages in each subtask, after the names of their operators."""
    reports = reports_by_stage(stage for one in vertex.subtasks for stage in one.metrics.stages)
    return {
        one.subtask: {
            f"{stage.operator_name}.{name}": value
            for stage in one.metrics.stages
            for name, value in stage_values(stage, reports[stage.operator_uid]).items()
        }
        for one in vertex.subtasks
    }


def watermarks(vertex: VertexView) -> list[models.MetricValue]:
    """The watermark of every subtask."""
    return [
        models.MetricValue(
            id=f"{one.subtask.index}.currentInputWatermark",
            value=str(_NO_WATERMARK if one.metrics.watermark_ms is None else one.metrics.watermark_ms),
        )
        for one in vertex.subtasks
    ]


def _level(ratio: float) -> str:
    """Flink's words for a part of the time."""
    return "ok" if ratio <= 0.10 else "low" if ratio <= 0.5 else "high"


def backpressure(vertex: VertexView, details: JobDetails) -> models.VertexBackpressure:
    """Backpressure of a vertex and of each of its subtasks."""
    subtasks = [
        models.SubtaskBackpressure(
            subtask=one.subtask.index,
            backpressure_level=_level(one.rates.backpressured_ms / 1_000),
            ratio=one.rates.backpressured_ms / 1_000,
            idle_ratio=one.rates.idle_ms / 1_000,
            busy_ratio=one.rates.busy_ms / 1_000,
        )
        for one in vertex.subtasks
    ]
    return models.VertexBackpressure(
        status="ok",
        backpressure_level=_level(max((one.ratio for one in subtasks), default=0.0)),
        end_timestamp=max((one.metrics_ms for one in vertex.subtasks), default=details.now_ms),
        subtasks=subtasks,
    )


def job_metrics(details: JobDetails, wanted: Sequence[str]) -> list[models.MetricValue]:
    """Metrics of a job; the names of those there are when none is wanted."""
    values = _values(details)
    if not wanted:
        return [models.MetricValue(id=name) for name in values]
    return [models.MetricValue(id=name, value=str(values[name])) for name in wanted if name in values]


def _values(details: JobDetails) -> dict[str, object]:
    report, statistics = details.report, details.report.statistics
    latest, counts = statistics.latest_completed, statistics.counts
    completed = counts[CheckpointOutcome.COMPLETED]
    failed, in_progress = counts[CheckpointOutcome.ABORTED], len(statistics.in_progress)
    runs = report.status.name == "RUNNING"
    return {
        "fullRestarts": report.restarts,
        "lastCheckpointDuration": -1 if latest is None else round(latest.duration_ms),
        "lastCheckpointExternalPath": report.newest_checkpoint or "n/a",
        "lastCheckpointFullSize": -1 if latest is None else latest.size_bytes,
        "lastCheckpointSize": -1 if latest is None else latest.new_bytes,
        "lastCompletedCheckpointId": -1 if latest is None else latest.checkpoint_id,
        "numRestarts": report.restarts,
        "numberOfCompletedCheckpoints": completed,
        "numberOfFailedCheckpoints": failed,
        "numberOfInProgressCheckpoints": in_progress,
        "runningTime": duration_of(details) if runs else 0,
        "totalNumberOfCheckpoints": completed + failed + in_progress,
        "uptime": duration_of(details) if runs else 0,
    }


def live_job(found: FoundJob) -> models.LiveJob:
    """Everything of a job that changes."""
    details, report = found.details, found.details.report
    statistics = report.statistics
    newest = statistics.checkpoints[-1] if statistics.checkpoints else None
    return models.LiveJob(
        jid=details.job_id,
        name=report.job_name,
        state=report.status.name,
        now=details.now_ms,
        start_time=details.started_ms,
        end_time=-1 if details.ended_ms is None else details.ended_ms,
        duration=duration_of(details),
        archived=found.client is None,
        restarts=report.restarts,
        cause=None if report.cause is None else shortened(report.cause, 2_000),
        exceptions=len(details.exceptions),
        metrics_ms=max((one.metrics_ms for one in details.subtasks), default=0),
        vertices=[_live_vertex(vertex) for vertex in vertices_of(details)],
        checkpoints=models.LiveCheckpoints(
            completed=statistics.counts[CheckpointOutcome.COMPLETED],
            failed=statistics.counts[CheckpointOutcome.ABORTED],
            in_progress=len(statistics.in_progress),
            latest=None if newest is None else checkpoint_info(newest, details),
            running=[checkpoint_info(one, details) for one in statistics.in_progress.values()],
        ),
    )


def _live_vertex(vertex: VertexView) -> models.LiveVertex:
    subtasks = vertex.subtasks
    metrics, rates = [one.metrics for one in subtasks], [one.rates for one in subtasks]
    states = [one.state_bytes for one in metrics if one.state_bytes is not None]
    return models.LiveVertex(
        id=vertex.vertex_id,
        name=vertex.name,
        parallelism=vertex.parallelism,
        status=vertex.status,
        counts={name: count for name, count in vertex.counts.items() if count},
        records_in=_rounded(sum(one.records_in for one in rates)),
        records_out=_rounded(sum(one.records_out for one in rates)),
        bytes_in=_rounded(sum(one.bytes_in for one in rates)),
        bytes_out=_rounded(sum(one.bytes_out for one in rates)),
        total_records_in=sum(one.records_in for one in metrics),
        total_records_out=sum(one.records_out for one in metrics),
        busy=_mean(one.busy_ms for one in rates),
        busy_max=_rounded(max((one.busy_ms for one in rates), default=0.0) / 1_000),
        backpressured=_mean(one.backpressured_ms for one in rates),
        backpressured_max=_rounded(max((one.backpressured_ms for one in rates), default=0.0) / 1_000),
        idle=_mean(one.idle_ms for one in rates),
        watermark=min((one.watermark_ms for one in metrics if one.watermark_ms is not None), default=None),
        state_bytes=sum(states) if states else None,
        queued_bytes=sum(one.input_bytes for one in metrics),
        timers=sum(one.timers for one in metrics),
        late_records=sum(one.late_records for one in metrics),
        subtasks=models.LiveSubtasks(
            states="".join(_LETTERS[one.state] for one in subtasks),
            busy=[round(one.busy_ms) for one in rates],
            backpressured=[round(one.backpressured_ms) for one in rates],
            idle=[round(one.idle_ms) for one in rates],
            records_in=[round(one.records_in) for one in rates],
            records_out=[round(one.records_out) for one in rates],
            watermarks=[one.watermark_ms for one in metrics],
        ),
        stages=[StageInfo(**document) for document in stage_documents(subtasks)],
        whole_stages=[WholeStageInfo(**document) for document in whole_stage_documents(subtasks)],
    )


def _rounded(value: float) -> float:
    return round(value, 3)


def _mean(parts: Iterable[float]) -> float:
    """The mean of some milliseconds per second, as a part of 1."""
    values = list(parts)
    return _rounded(sum(values) / len(values) / 1_000) if values else 0.0
