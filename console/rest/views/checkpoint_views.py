"""Documents about checkpoints, made of the statistics of a job."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any, Literal

from ....common.options.options import CheckpointingOptions, StateBackendOptions
from ....coordinator.monitoring.critical_path import critical_path
from ....coordinator.monitoring.job_details import JobDetails
from ....coordinator.monitoring.statistics import (
    CheckpointOutcome,
    CheckpointStatistics,
    JobStatistics,
    Summary,
)
from ....protocol.checkpoints.checkpoint_events import SubtaskMetrics
from ....protocol.elements import SnapshotKind
from ..job_graph import VertexView, vertices_of
from ..models import checkpoint_models
from .job_views import configuration_of, shortened

_STATUS: Mapping[
    CheckpointOutcome,
    tuple[Literal["completed", "failed", "in_progress"], Literal["COMPLETED", "FAILED", "IN_PROGRESS"]],
] = {
    CheckpointOutcome.COMPLETED: ("completed", "COMPLETED"),
    CheckpointOutcome.ABORTED: ("failed", "FAILED"),
    CheckpointOutcome.IN_PROGRESS: ("in_progress", "IN_PROGRESS"),
}
_TYPES = {
    SnapshotKind.CHECKPOINT: "CHECKPOINT",
    SnapshotKind.FINAL: "SYNC_SAVEPOINT",
    SnapshotKind.SAVEPOINT: "SAVEPOINT",
    SnapshotKind.STOP: "SYNC_SAVEPOINT",
}


def checkpointing_statistics(
    details: JobDetails, offset: int, limit: int
) -> checkpoint_models.CheckpointingStatistics:
    """All checkpoints of a job; of its history the part from `offset` on, the newest first."""
    statistics = details.report.statistics
    newest_first = [*reversed(statistics.in_progress.values()), *reversed(statistics.checkpoints)]
    return checkpoint_models.CheckpointingStatistics(
        counts=_counts(statistics),
        summary=_summary(statistics),
        latest=_latest(details),
        history=[checkpoint_info(one, details) for one in islice(newest_first, offset, offset + limit)],
        page=checkpoint_models.CheckpointPage(offset=offset, limit=limit, total=len(newest_first)),
    )


def _counts(statistics: JobStatistics) -> checkpoint_models.CheckpointCounts:
    completed = statistics.counts[CheckpointOutcome.COMPLETED]
    failed, in_progress = statistics.counts[CheckpointOutcome.ABORTED], len(statistics.in_progress)
    return checkpoint_models.CheckpointCounts(
        restored=statistics.restored_count,
        total=completed + failed + in_progress,
        in_progress=in_progress,
        completed=completed,
        failed=failed,
    )


def _summary(statistics: JobStatistics) -> checkpoint_models.CheckpointSummary | None:
    found = statistics.summaries()
    if not found:
        return None
    nothing = checkpoint_models.Spread(**dict.fromkeys(checkpoint_models.Spread.model_fields, 0.0))
    return checkpoint_models.CheckpointSummary(
        checkpointed_size=_spread(found["new_bytes"]),
        state_size=_spread(found["size_bytes"]),
        end_to_end_duration=_spread(found["duration_ms"]),
        alignment_buffered=nothing,
        processed_data=_spread(found["processed_bytes"]),
        persisted_data=_spread(found["persisted_bytes"]),
        start_delay=_spread(found["start_delay_ms"]),
        alignment_duration=_spread(found["alignment_ms"]),
        sync_duration=_spread(found["sync_ms"]),
        async_duration=_spread(found["async_ms"]),
    )


def _spread(summary: Summary) -> checkpoint_models.Spread:
    return checkpoint_models.Spread(
        min=summary.minimum,
        max=summary.maximum,
        avg=summary.average,
        p50=summary.p50,
        p90=summary.p90,
        p95=summary.p95,
        p99=summary.p99,
    )


def _latest(details: JobDetails) -> checkpoint_models.LatestCheckpoints:
    statistics = details.report.statistics

    def shown(checkpoint: CheckpointStatistics | None) -> checkpoint_models.CheckpointInfo | None:
        return None if checkpoint is None else checkpoint_info(checkpoint, details)

    restored = statistics.latest_restored
    return checkpoint_models.LatestCheckpoints(
        completed=shown(statistics.latest_completed),
        savepoint=shown(statistics.latest_savepoint),
        failed=shown(statistics.latest_aborted),
        restored=None
        if restored is None
        else checkpoint_models.RestoredCheckpointInfo(
            id=restored.checkpoint_id,
            restore_timestamp=restored.restored_ms,
            is_savepoint=restored.kind is SnapshotKind.SAVEPOINT,
            external_path=None,
        ),
    )


def find_checkpoint(details: JobDetails, checkpoint_id: int) -> CheckpointStatistics | None:
    """A checkpoint in the history, or in progress."""
    statistics = details.report.statistics
    under_way = list(statistics.in_progress.values())
    return next(
        (one for one in [*under_way, *statistics.checkpoints] if one.checkpoint_id == checkpoint_id), None
    )


def checkpoint_info(
    checkpoint: CheckpointStatistics,
    details: JobDetails,
    tasks: dict[str, checkpoint_models.VertexCheckpoint] | None = None,
) -> checkpoint_models.CheckpointInfo:
    """One checkpoint; without its tasks where none are given."""
    class_name, status = _STATUS[checkpoint.outcome]
    is_failed = checkpoint.outcome is CheckpointOutcome.ABORTED
    ended_ms = round(checkpoint.triggered_ms + checkpoint.duration_ms)
    newest = details.report.newest_checkpoint
    is_newest = newest is not None and newest.endswith(f"/chk-{checkpoint.checkpoint_id}")
    return checkpoint_models.CheckpointInfo(
        class_name=class_name,
        id=checkpoint.checkpoint_id,
        status=status,
        is_savepoint=checkpoint.kind is not SnapshotKind.CHECKPOINT,
        trigger_timestamp=checkpoint.triggered_ms,
        latest_ack_timestamp=ended_ms if checkpoint.duration_ms else -1,
        checkpointed_size=checkpoint.new_bytes,
        state_size=checkpoint.size_bytes,
        end_to_end_duration=round(checkpoint.duration_ms),
        alignment_buffered=0,
        processed_data=checkpoint.processed_bytes,
        persisted_data=checkpoint.persisted_bytes,
        num_subtasks=max(checkpoint.subtask_count, len(checkpoint.subtasks)),
        num_acknowledged_subtasks=_acknowledged(checkpoint),
        checkpoint_type=_TYPES[checkpoint.kind],
        tasks={} if tasks is None else tasks,
        external_path=newest if is_newest else None,
        failure_timestamp=ended_ms if is_failed else None,
        failure_message=shortened(checkpoint.reason, 2_000) if is_failed else None,
        start_delay=round(checkpoint.start_delay_ms, 3),
        alignment_duration=round(checkpoint.alignment_ms, 3),
        sync_duration=round(checkpoint.sync_ms, 3),
        async_duration=round(checkpoint.async_ms, 3),
    )


def _acknowledged(checkpoint: CheckpointStatistics) -> int:
    """Old checkpoints do not tell their subtasks any more, but a complete one had them all."""
    is_complete = checkpoint.outcome is CheckpointOutcome.COMPLETED
    return max(checkpoint.subtask_count if is_complete else 0, len(checkpoint.subtasks))


def checkpoint_details(
    checkpoint: CheckpointStatistics, details: JobDetails
) -> checkpoint_models.CheckpointInfo:
    """One checkpoint with its vertices."""
    tasks = {
        vertex.vertex_id: _vertex_checkpoint(vertex, checkpoint)
        for vertex in vertices_of(details)
        if checkpoint.subtasks
    }
    return checkpoint_info(checkpoint, details, tasks)


def _vertex_checkpoint(
    vertex: VertexView, checkpoint: CheckpointStatistics
) -> checkpoint_models.VertexCheckpoint:
    return checkpoint_models.VertexCheckpoint(id=vertex.vertex_id, **_totals(vertex, checkpoint))


def _parts(vertex: VertexView, checkpoint: CheckpointStatistics) -> dict[int, SubtaskMetrics]:
    return {
        subtask.index: part
        for subtask, part in checkpoint.subtasks.items()
        if subtask.task_id == vertex.vertex_id
    }


def _totals(vertex: VertexView, checkpoint: CheckpointStatistics) -> dict[str, Any]:
    parts = _parts(vertex, checkpoint)
    duration_ms = round(max(map(_duration_ms, parts.values()), default=0))
    size_bytes = sum(part.size_bytes for part in parts.values())
    return {
        "status": _STATUS[checkpoint.outcome][1],
        "latest_ack_timestamp": checkpoint.triggered_ms + duration_ms if parts else -1,
        "checkpointed_size": size_bytes,
        "state_size": size_bytes,
        "end_to_end_duration": duration_ms,
        "alignment_buffered": 0,
        "processed_data": sum(part.processed_bytes for part in parts.values()),
        "persisted_data": sum(part.persisted_bytes for part in parts.values()),
        "num_subtasks": _width(vertex, parts),
        "num_acknowledged_subtasks": len(parts),
    }


def _width(vertex: VertexView, parts: Mapping[int, SubtaskMetrics]) -> int:
    """How many subtasks the vertex had then: its parallelism may have been another one."""
    return max([vertex.parallelism, *(index + 1 for index in parts)])


def _duration_ms(part: SubtaskMetrics) -> float:
    """From the trigger to the acknowledgement, where that is known, else what is known of it."""
    if part.acknowledged_ms is not None:
        return part.acknowledged_ms
    return part.start_delay_ms + part.alignment_ms + part.sync_ms + part.async_ms


def vertex_checkpoint_details(
    vertex: VertexView, checkpoint: CheckpointStatistics
) -> checkpoint_models.VertexCheckpointDetails:
    """One vertex's part of a checkpoint, by subtask."""
    parts = _parts(vertex, checkpoint)
    return checkpoint_models.VertexCheckpointDetails(
        id=checkpoint.checkpoint_id,
        summary=_part_summary(list(parts.values())),
        subtasks=[
            _subtask_checkpoint(index, parts.get(index), checkpoint) for index in range(_width(vertex, parts))
        ],
        **_totals(vertex, checkpoint),
    )


def _subtask_checkpoint(
    index: int, part: SubtaskMetrics | None, checkpoint: CheckpointStatistics
) -> checkpoint_models.SubtaskCheckpoint:
    if part is None:
        return checkpoint_models.SubtaskCheckpoint(
            class_name="pending", index=index, status="pending_or_failed"
        )
    duration_ms = round(_duration_ms(part))
    return checkpoint_models.SubtaskCheckpoint(
        class_name="completed",
        index=index,
        status="completed",
        ack_timestamp=checkpoint.triggered_ms + duration_ms,
        end_to_end_duration=duration_ms,
        checkpointed_size=part.size_bytes,
        state_size=part.size_bytes,
        checkpoint=checkpoint_models.CheckpointDurations(
            sync=part.sync_ms, async_=part.async_ms, upload=part.upload_ms
        ),
        alignment=checkpoint_models.Alignment(
            buffered=0,
            processed=part.processed_bytes,
            persisted=part.persisted_bytes,
            duration=part.alignment_ms,
        ),
        start_delay=part.start_delay_ms,
        unaligned_checkpoint=part.persisted_bytes > 0,
        aborted=checkpoint.outcome is CheckpointOutcome.ABORTED,
    )


def _part_summary(parts: Sequence[SubtaskMetrics]) -> checkpoint_models.VertexCheckpointSummary | None:
    if not parts:
        return None

    def spread(figure: Callable[[SubtaskMetrics], float]) -> checkpoint_models.MinMaxAvg:
        values = [figure(part) for part in parts]
        return checkpoint_models.MinMaxAvg(min=min(values), max=max(values), avg=sum(values) / len(values))

    return checkpoint_models.VertexCheckpointSummary(
        checkpointed_size=spread(lambda part: part.size_bytes),
        state_size=spread(lambda part: part.size_bytes),
        end_to_end_duration=spread(_duration_ms),
        checkpoint_duration=checkpoint_models.DurationSpreads(
            sync=spread(lambda part: part.sync_ms), async_=spread(lambda part: part.async_ms)
        ),
        alignment=checkpoint_models.AlignmentSpreads(
            buffered=spread(lambda part: 0),
            processed=spread(lambda part: part.processed_bytes),
            persisted=spread(lambda part: part.persisted_bytes),
            duration=spread(lambda part: part.alignment_ms),
        ),
        start_delay=spread(lambda part: part.start_delay_ms),
    )


def critical_path_info(checkpoint: CheckpointStatistics) -> checkpoint_models.CriticalPathInfo:
    """What made a checkpoint as long as it was."""
    path = critical_path(checkpoint)
    return checkpoint_models.CriticalPathInfo(
        id=checkpoint.checkpoint_id,
        duration_ms=round(sum(step.duration_ms for step in path.steps), 3),
        cause=path.cause,
        steps=[
            checkpoint_models.CriticalStep(
                name=step.name,
                vertex=None if step.subtask is None else step.subtask.task_id,
                subtask=None if step.subtask is None else step.subtask.index,
                subtask_name=step.subtask_name,
                start_ms=round(step.start_ms, 3),
                duration_ms=round(step.duration_ms, 3),
                cause=shortened(step.cause, 2_000),
            )
            for step in path.steps
        ],
    )


def checkpoint_config(details: JobDetails) -> checkpoint_models.CheckpointConfigInfo:
    """How a job takes its checkpoints."""
    settings, options = configuration_of(details), CheckpointingOptions
    interval = settings.get(options.CHECKPOINTING_INTERVAL)
    retention = settings.get(options.EXTERNALIZED_CHECKPOINT_RETENTION)
    return checkpoint_models.CheckpointConfigInfo(
        mode=settings.get(options.CHECKPOINTING_CONSISTENCY_MODE).lower(),
        interval=-1 if interval is None else interval.to_millis(),
        timeout=settings.get(options.CHECKPOINTING_TIMEOUT).to_millis(),
        min_pause=settings.get(options.MIN_PAUSE_BETWEEN_CHECKPOINTS).to_millis(),
        max_concurrent=settings.get(options.MAX_CONCURRENT_CHECKPOINTS),
        externalization=checkpoint_models.Externalization(
            enabled=retention != "NO_EXTERNALIZED_CHECKPOINTS",
            delete_on_cancellation=retention != "RETAIN_ON_CANCELLATION",
        ),
        state_backend=settings.get(StateBackendOptions.STATE_BACKEND),
        checkpoint_storage=settings.get(options.CHECKPOINTS_DIRECTORY) or "",
        unaligned_checkpoints=settings.get(options.ENABLE_UNALIGNED),
        tolerable_failed_checkpoints=settings.get(options.TOLERABLE_FAILURE_NUMBER),
        aligned_checkpoint_timeout=settings.get(options.ALIGNED_CHECKPOINT_TIMEOUT).to_millis(),
        checkpoints_after_tasks_finish=True,
        state_changelog_enabled=False,
    )
