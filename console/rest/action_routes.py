"""Routes that ask something of a running job."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Body, HTTPException, Query, Response

from ...common.options.options import CheckpointingOptions
from ...protocol.elements import SavepointFormatType
from .directory import FoundJob
from .job_graph import vertices_of
from .models import action_models
from .requests import Client, Console, ConsoleState, Job, JobId, TriggerId
from .savepoint_targets import checked_target
from .views.job_views import configuration_of

router = APIRouter(prefix="/jobs/{jobid:hex}", tags=["actions"])
_RESCALE_TIMEOUT_S = 600.0
"""As for a savepoint: the checkpoint that it goes through may be large."""


@router.patch("", status_code=202)
def terminate(job: Job, client: Client, mode: Annotated[Literal["cancel"], Query()] = "cancel") -> Response:
    """Cancel a job without a savepoint."""
    client.cancel().result()
    job.changed()
    return Response("{}", 202, media_type="application/json")


@router.post("/savepoints", status_code=202)
def trigger_savepoint(
    job: Job, client: Client, console: ConsoleState, asked: action_models.SavepointRequest
) -> action_models.Triggered:
    """Take a savepoint, and with `cancel-job` stop the job with it."""
    format_type = SavepointFormatType[asked.format_type]
    directory = _target(job, console, asked.target_directory)

    def perform() -> action_models.OperationResult:
        if asked.cancel_job:
            future = client.stop_with_savepoint(False, directory, format_type)
        else:
            future = client.trigger_savepoint(directory, format_type)
        return action_models.OperationResult(location=future.result())

    return console.operations.start(job, asked.trigger_id, perform)


def _target(job: FoundJob, console: Console, wanted: str | None) -> str | None:
    """Where a savepoint goes; `None` for the job's own directory."""
    if wanted is None:
        return None
    own = configuration_of(job.details).get(CheckpointingOptions.SAVEPOINT_DIRECTORY)
    return checked_target(wanted, [*console.savepoint_roots, *([own] if own else [])])


@router.post("/stop", status_code=202)
def stop(
    job: Job,
    client: Client,
    console: ConsoleState,
    asked: Annotated[action_models.StopRequest, Body(default_factory=action_models.StopRequest)],
) -> action_models.Triggered:
    """Stop a job with a savepoint; its outcome is asked for under `savepoints`."""
    format_type = SavepointFormatType[asked.format_type]
    directory = _target(job, console, asked.target_directory)

    def perform() -> action_models.OperationResult:
        future = client.stop_with_savepoint(asked.drain, directory, format_type)
        return action_models.OperationResult(location=future.result())

    return console.operations.start(job, asked.trigger_id, perform)


@router.post("/checkpoints", status_code=202)
def trigger_checkpoint(
    job: Job,
    client: Client,
    console: ConsoleState,
    asked: Annotated[action_models.CheckpointRequest, Body(default_factory=action_models.CheckpointRequest)],
) -> action_models.Triggered:
    """Take a checkpoint now."""
    return console.operations.start(
        job,
        asked.trigger_id,
        lambda: action_models.OperationResult(checkpoint_id=int(client.trigger_checkpoint())),
    )


@router.get("/savepoints/{triggerid:hex}")
def savepoint_status(jobid: JobId, triggerid: TriggerId, console: ConsoleState) -> action_models.Operation:
    """What became of a savepoint or a stop."""
    return _status(console, jobid, triggerid)


@router.get("/checkpoints/{triggerid:hex}")
def checkpoint_status(jobid: JobId, triggerid: TriggerId, console: ConsoleState) -> action_models.Operation:
    """What became of a checkpoint that was asked for."""
    return _status(console, jobid, triggerid)


@router.get("/rescaling/{triggerid:hex}")
def rescaling_status(jobid: JobId, triggerid: TriggerId, console: ConsoleState) -> action_models.Operation:
    """What became of a change of parallelism (of older versions of Flink)."""
    return _status(console, jobid, triggerid)


def _status(console: Console, job_id: str, trigger_id: str) -> action_models.Operation:
    found = console.operations.status(job_id, trigger_id)
    if found is None:
        raise HTTPException(404, f"nothing was asked for under {trigger_id}, or it is forgotten")
    return found


@router.get("/resource-requirements")
def resource_requirements(job: Job) -> dict[str, action_models.VertexResources]:
    """The parallelism of every vertex."""
    return {
        vertex.vertex_id: action_models.VertexResources(
            parallelism=action_models.ParallelismBounds(lower_bound=1, upper_bound=vertex.parallelism)
        )
        for vertex in vertices_of(job.details)
    }


@router.put("/resource-requirements", status_code=202)
def rescale(
    job: Job,
    client: Client,
    console: ConsoleState,
    asked: Annotated[dict[str, action_models.VertexResources], Body(min_length=1, max_length=200)],
) -> action_models.Triggered:
    """Change the parallelism of vertices to their upper bounds; ask under `rescaling` what became of it."""
    vertices = {vertex.vertex_id: vertex for vertex in vertices_of(job.details)}
    unknown = sorted(set(asked) - set(vertices))
    if unknown:
        raise HTTPException(400, f"the job has no vertex {unknown[0][:64]!r}; its plan names those it has")
    for vertex_id, wanted in asked.items():
        bound = vertices[vertex_id].max_parallelism
        if 0 < bound < wanted.parallelism.upper_bound:
            raise HTTPException(400, f"{vertex_id} can have a parallelism of {bound} at most")
    parallelism = {
        uid: wanted.parallelism.upper_bound
        for vertex_id, wanted in asked.items()
        for uid in vertices[vertex_id].uids
    }

    def perform() -> action_models.OperationResult:
        client.rescale(parallelism, _RESCALE_TIMEOUT_S)
        return action_models.OperationResult()

    return console.operations.start(job, None, perform)
