"""What the tasks of an attempt are told about their job and the checkpoint they start from."""

from __future__ import annotations

from dataclasses import dataclass

from ...protocol.checkpoints.manifest import CheckpointManifest
from ...protocol.ids import Attempt, JobId
from ...protocol.scheduling.execution_graph import ExecutionGraph
from ...protocol.scheduling.plan import JobGraph
from ...runtime.ports import TaskDeployment, TaskSettings
from ...state.storage.inline_storage import InlineStorage
from ..checkpoints.checkpoint_store import CheckpointStore
from ..job_fail_points import JobFailPoints
from ..restore.restore import recovered_records, restored_state
from ..spec import JobSpec


def task_settings(
    spec: JobSpec, store: CheckpointStore | None, fail_points: JobFailPoints | None
) -> TaskSettings:
    """The settings of a job's tasks; without a store they take no snapshots."""
    settings, storage = spec.settings, None
    if store is not None:
        limit = settings.max_inline_state_bytes
        threshold = settings.inline_threshold_bytes if limit is None else None
        storage = InlineStorage(store.storage, threshold)
    return TaskSettings(
        state_backend=settings.state_backend,
        storage=storage,
        storage_probe=None if store is None else store.probe,
        max_inline_state_bytes=settings.max_inline_state_bytes,
        max_buffered_bytes=settings.max_buffered_bytes,
        local_dir=settings.local_dir,
        local_snapshots_dir=settings.local_snapshots_dir,
        is_checkpointing=settings.trigger is not None,
        takes_checkpoints=settings.takes_checkpoints,
        mode=settings.mode,
        batch_size=settings.batch_size,
        buffer_timeout_ms=settings.buffer_timeout_ms,
        auto_watermark_interval_ms=settings.auto_watermark_interval_ms,
        channel_credit_bytes=settings.channel_credit_bytes,
        result_credit_bytes=settings.result_credit_bytes,
        job_parameters=settings.job_parameters,
        files=settings.files,
        is_batch=settings.is_batch,
        allow_non_restored_state=settings.allow_non_restored_state,
        gap_timeout_ms=settings.gap_timeout_ms,
        job_name=spec.job_name,
        logs=settings.logs,
        fail_points=fail_points.arming if fail_points is not None else None,
    )


@dataclass(frozen=True)
class AttemptStart:
    """How an attempt begins.

    Attributes:
        number: How many attempts this coordinator began before.
        manifest: The checkpoint that it starts from, `None` for none.
        is_own: Whether the job wrote that itself.
        is_stopped: Whether nothing is to be processed any more.
        trace_context: The W3C traceparent of the restart that it is, if it is one.
    """

    attempt: Attempt
    number: int
    manifest: CheckpointManifest | None
    is_own: bool
    is_stopped: bool
    trace_context: str | None = None


def task_deployments(
    job_id: JobId, job: JobGraph, graph: ExecutionGraph, start: AttemptStart, settings: TaskSettings
) -> list[TaskDeployment]:
    """Every subtask with its part of the checkpoint, redistributed to the parallelism of the graph."""
    manifest = start.manifest
    restored = None if manifest is None else restored_state(job, manifest)
    recovered = {} if manifest is None else recovered_records(job, manifest)
    return [
        TaskDeployment(
            job_id=job_id,
            attempt=start.attempt,
            attempt_number=start.number,
            subtask=subtask,
            settings=settings,
            restored=None if restored is None else restored.get(subtask_id, {}),
            restored_is_owned=start.is_own,
            is_stopped=start.is_stopped,
            restored_checkpoint_id=None if manifest is None else manifest.checkpoint_id,
            recovered=recovered.get(subtask_id, ()),
            trace_context=start.trace_context,
        )
        for subtask_id, subtask in graph.subtasks.items()
    ]
