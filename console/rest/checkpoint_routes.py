"""Routes about the checkpoints of a job, and the state in the newest one."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, HTTPException, Query

from .models import checkpoint_models, state_models
from .requests import Checkpoint, Job, Vertex
from .views import checkpoint_views, state_views

router = APIRouter(prefix="/jobs/{jobid:hex}", tags=["checkpoints"])

Offset = Annotated[int, Query(ge=0, le=1_000_000)]
Limit = Annotated[int, Query(ge=1, le=200)]


@router.get("/checkpoints")
def checkpoints(job: Job, offset: Offset = 0, limit: Limit = 50) -> checkpoint_models.CheckpointingStatistics:
    """Counts, summary and newest checkpoints; of the history `limit` from `offset` on, the newest first."""
    return checkpoint_views.checkpointing_statistics(job.details, offset, limit)


@router.get("/checkpoints/config")
def checkpoint_config(job: Job) -> checkpoint_models.CheckpointConfigInfo:
    """How a job takes its checkpoints."""
    return checkpoint_views.checkpoint_config(job.details)


@router.get("/checkpoints/details/{checkpointid}")
def checkpoint_details(job: Job, checkpoint: Checkpoint) -> checkpoint_models.CheckpointInfo:
    """One checkpoint with its vertices."""
    return checkpoint_views.checkpoint_details(checkpoint, job.details)


@router.get("/checkpoints/details/{checkpointid}/subtasks/{vertexid}")
def vertex_checkpoint_details(
    checkpoint: Checkpoint, vertex: Vertex
) -> checkpoint_models.VertexCheckpointDetails:
    """One vertex's part of a checkpoint, by subtask."""
    return checkpoint_views.vertex_checkpoint_details(vertex, checkpoint)


@router.get("/checkpoints/details/{checkpointid}/critical-path")
def critical_path(checkpoint: Checkpoint) -> checkpoint_models.CriticalPathInfo:
    """The waits and the work that made a checkpoint as long as it was, and why (beyond Flink)."""
    return checkpoint_views.critical_path_info(checkpoint)


@router.get("/state")
def state(job: Job) -> state_models.JobState:
    """Operators and states of the newest complete checkpoint (beyond Flink)."""
    return state_views.job_state(job)


@router.get("/state/entries")
def state_entries(
    job: Job,
    uid: Annotated[str, Query(max_length=1_000)],
    state: Annotated[str, Query(max_length=1_000)],
    offset: Annotated[int, Query(ge=0, le=10_000)] = 0,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
) -> state_models.StateEntries:
    """Some entries of one state as text, never unpickled (beyond Flink)."""
    try:
        return state_views.state_entries(job, uid, state, offset, limit)
    except state_views.NotSampledError as error:
        raise HTTPException(409, str(error)) from error
