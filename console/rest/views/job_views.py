"""Documents about jobs and their vertices, made of `JobDetails`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ....common.configuration import Configuration
from ....common.job_status import JobStatus
from ....common.options.options import CheckpointingOptions, CoreOptions, RestartStrategyOptions
from ....coordinator.monitoring.job_details import JobDetails, JobException, SubtaskDetails
from ....protocol.ids import SubtaskId
from ..directory import FoundJob, ListedJob
from ..job_graph import VertexView, plan_of, vertices_of
from ..models import job_models as models

MAX_TEXT = 20_000
"""Characters of a traceback or a cause that an answer may hold."""


def shortened(text: str, limit: int = MAX_TEXT) -> str:
    """A text of at most `limit` characters, with a mark where it was cut."""
    return text if len(text) <= limit else f"{text[: limit - 2]} …"


def configuration_of(details: JobDetails) -> Configuration:
    """The settings of a job, to be read with their options."""
    return Configuration.from_dict(dict(details.configuration))


def summary_of(job: ListedJob) -> models.JobSummary:
    """One line of the list of jobs."""
    if job.found is None:
        nothing = models.TaskCounts(**dict.fromkeys(models.TaskCounts.model_fields, 0))
        return models.JobSummary(
            jid=job.job_id,
            name="",
            state="SUSPENDED",
            start_time=-1,
            end_time=-1,
            duration=0,
            last_modification=-1,
            tasks=nothing,
            archived=True,
            error=shortened(job.error or "", 2_000),
        )
    details = job.found.details
    return models.JobSummary(
        jid=details.job_id,
        name=shortened(details.report.job_name, 1_000),
        state=details.report.status.name,
        start_time=details.started_ms,
        end_time=-1 if details.ended_ms is None else details.ended_ms,
        duration=duration_of(details),
        last_modification=max([details.started_ms, *(each.since_ms for each in details.subtasks)]),
        tasks=_task_counts(details.subtasks),
        archived=job.found.client is None,
    )


def duration_of(details: JobDetails) -> int:
    """How long the job has run, or ran."""
    return max(0, (details.now_ms if details.ended_ms is None else details.ended_ms) - details.started_ms)


def _task_counts(subtasks: Sequence[SubtaskDetails]) -> models.TaskCounts:
    counts = Counter(subtask.state.value.lower() for subtask in subtasks)
    names = set(models.TaskCounts.model_fields) - {"total"}
    return models.TaskCounts(total=len(subtasks), **{name: counts[name] for name in names})


def job_info(found: FoundJob) -> models.JobDetailsInfo:
    """The page of one job."""
    details, report = found.details, found.details.report
    vertices = vertices_of(details)
    counts = Counter(vertex.status for vertex in vertices)
    return models.JobDetailsInfo(
        jid=details.job_id,
        name=report.job_name,
        is_stoppable=found.client is not None and report.status is JobStatus.RUNNING,
        state=report.status.name,
        job_type="STREAMING",
        start_time=details.started_ms,
        end_time=-1 if details.ended_ms is None else details.ended_ms,
        duration=duration_of(details),
        max_parallelism=max((vertex.max_parallelism for vertex in vertices), default=-1),
        now=details.now_ms,
        timestamps=_timestamps(details),
        vertices=[_vertex(vertex, details) for vertex in vertices],
        status_counts={name: counts[name] for name in (vertices[0].counts if vertices else {})},
        plan=plan_of(details),
        archived=found.client is None,
        restarts=report.restarts,
        cause=None if report.cause is None else shortened(report.cause),
        stopped_with=report.stopped_with,
        newest_checkpoint=report.newest_checkpoint,
        savepoint_directory=configuration_of(details).get(CheckpointingOptions.SAVEPOINT_DIRECTORY) or "",
        coordinator_host=details.coordinator_host,
        warnings=[shortened(text, 2_000) for text in list(report.statistics.warnings)[-20:]],
    )


def _timestamps(details: JobDetails) -> dict[str, int]:
    """When the job came into each state; 0 for those that it was never in, or of which nobody knows."""
    times = {status.name: 0 for status in JobStatus}
    times[JobStatus.INITIALIZING.name] = details.started_ms
    if details.ended_ms is not None:
        times[details.report.status.name] = details.ended_ms
    return times


def _vertex(vertex: VertexView, details: JobDetails) -> models.Vertex:
    since = [subtask.since_ms for subtask in vertex.subtasks]
    is_over = details.ended_ms is not None or vertex.status == "FINISHED"
    end = max(since, default=details.started_ms) if is_over else -1
    return models.Vertex(
        id=vertex.vertex_id,
        name=vertex.name,
        slot_sharing_group_id="default",
        max_parallelism=vertex.max_parallelism,
        parallelism=vertex.parallelism,
        status=vertex.status,
        start_time=details.started_ms,
        end_time=end,
        duration=max(0, (end if is_over else details.now_ms) - details.started_ms),
        tasks=vertex.counts,
        metrics=io_metrics(vertex.subtasks),
    )


def io_metrics(subtasks: Sequence[SubtaskDetails]) -> models.IoMetrics:
    """What some subtasks did in their attempts, together."""
    metrics = [subtask.metrics for subtask in subtasks]
    is_complete = all(subtask.metrics_ms for subtask in subtasks)
    return models.IoMetrics(
        read_bytes=sum(one.bytes_in for one in metrics),
        read_bytes_complete=is_complete,
        write_bytes=sum(one.bytes_out for one in metrics),
        write_bytes_complete=is_complete,
        read_records=sum(one.records_in for one in metrics),
        read_records_complete=is_complete,
        write_records=sum(one.records_out for one in metrics),
        write_records_complete=is_complete,
        accumulated_backpressured_time=int(sum(one.backpressured_ms for one in metrics)),
        accumulated_idle_time=int(sum(one.idle_ms for one in metrics)),
        accumulated_busy_time=sum(one.busy_ms for one in metrics),
    )


def vertex_details(vertex: VertexView, details: JobDetails) -> models.VertexDetails:
    """The page of one vertex."""
    return models.VertexDetails(
        id=vertex.vertex_id,
        name=vertex.name,
        parallelism=vertex.parallelism,
        max_parallelism=vertex.max_parallelism,
        now=details.now_ms,
        subtasks=[_subtask(subtask, details) for subtask in vertex.subtasks],
    )


def _subtask(subtask: SubtaskDetails, details: JobDetails) -> models.SubtaskInfo:
    is_over = subtask.state.value in ("FINISHED", "CANCELED", "FAILED")
    return models.SubtaskInfo(
        subtask=subtask.subtask.index,
        status=subtask.state.value,
        attempt=subtask.attempt,
        endpoint=subtask.host,
        start_time=subtask.since_ms,
        end_time=subtask.since_ms if is_over else -1,
        duration=max(0, details.now_ms - subtask.since_ms),
        metrics=io_metrics([subtask]),
        taskmanager_id=f"{subtask.host}:{subtask.process_id}",
        pid=subtask.process_id,
    )


def job_config(details: JobDetails) -> models.JobConfig:
    """The settings of a job."""
    settings = configuration_of(details)
    return models.JobConfig(
        jid=details.job_id,
        name=details.report.job_name,
        execution_config=models.ExecutionConfig(
            execution_mode="PIPELINED",
            restart_strategy=settings.get(RestartStrategyOptions.RESTART_STRATEGY) or "default",
            job_parallelism=settings.get(CoreOptions.DEFAULT_PARALLELISM),
            object_reuse_mode=True,
            user_config={key: shortened(value, 2_000) for key, value in details.configuration.items()},
        ),
    )


def job_exceptions(details: JobDetails, limit: int) -> models.JobExceptions:
    """The failures of a job, at most `limit` of them."""
    entries = [_exception(one) for one in details.exceptions[:limit]]
    report = details.report
    newest = details.exceptions[0] if details.exceptions else None
    root = (
        None if report.cause is None else shortened("\n".join(filter(None, (report.cause, report.details))))
    )
    return models.JobExceptions(
        root_exception=root,
        timestamp=None if newest is None else newest.occurred_ms,
        all_exceptions=[],
        truncated=len(entries) < len(details.exceptions),
        exception_history=models.ExceptionHistory(
            entries=entries, truncated=len(entries) < len(details.exceptions)
        ),
    )


def _exception(exception: JobException) -> models.ExceptionEntry:
    return models.ExceptionEntry(
        exception_name=shortened(exception.cause),
        stacktrace=shortened(exception.details or exception.cause),
        timestamp=exception.occurred_ms,
        task_name=exception.subtask_name or _name(exception.subtask),
        endpoint=exception.host or None,
        task_manager_id=exception.host or None,
        attempt=exception.attempt,
    )


def _name(subtask: SubtaskId | None) -> str | None:
    return None if subtask is None else str(subtask)
