"""What every route asks of its request: the job, the vertex and the checkpoint that a path names."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, HTTPException, Path, Query, Request
from starlette.convertors import Convertor, register_url_convertor

from ...coordinator.control.job_client import JobClient
from ...coordinator.monitoring.statistics import CheckpointStatistics
from .directory import FoundJob, JobDirectory
from .job_graph import VertexView, vertices_of
from .operations import Operations
from .views.checkpoint_views import find_checkpoint


class _Hexadecimal(Convertor[str]):
    """In a path only what is an id takes its place: `jobs/overview` is no job."""

    regex = "[0-9a-f]{32}"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("hex", _Hexadecimal())

JobId = Annotated[str, Path(pattern="^[0-9a-f]{32}$", description="32 hexadecimal digits.")]
VertexId = Annotated[str, Path(pattern="^task-[0-9]{1,9}$", description="As in the job's plan.")]
TriggerId = Annotated[str, Path(pattern="^[0-9a-f]{32}$", description="The `request-id` of an action.")]
CheckpointNumber = Annotated[int, Path(ge=0, le=2**62)]
Wanted = Annotated[
    str | None,
    Query(max_length=4_000, description="Names with commas between; the names there are without it."),
]


@dataclass(frozen=True)
class Console:
    """What all requests share."""

    jobs: JobDirectory
    savepoint_roots: tuple[str, ...] = ()
    can_act: bool = False
    operations: Operations = field(default_factory=Operations)


def console_of(request: Request) -> Console:
    """What the application was made with."""
    console: Console = request.app.state.console
    return console


ConsoleState = Annotated[Console, Depends(console_of)]


def found_job(jobid: JobId, console: ConsoleState) -> FoundJob:
    """The job that the path names."""
    found = console.jobs.find(jobid)
    if found is None:
        raise HTTPException(404, f"there is no job {jobid}; ask /v1/jobs/overview for those there are")
    return found


Job = Annotated[FoundJob, Depends(found_job)]


def found_client(job: Job) -> JobClient:
    """The client of the job that the path names, which has to run."""
    status = job.details.report.status
    if job.client is None or status.is_globally_terminal_state():
        raise HTTPException(409, f"job {job.details.job_id} is {status.name}; nothing can be asked of it")
    return job.client


Client = Annotated[JobClient, Depends(found_client)]


def found_vertex(vertexid: VertexId, job: Job) -> VertexView:
    """The vertex that the path names."""
    for vertex in vertices_of(job.details):
        if vertex.vertex_id == vertexid:
            return vertex
    raise HTTPException(404, f"the job has no vertex {vertexid}; its plan names those it has")


Vertex = Annotated[VertexView, Depends(found_vertex)]


def found_checkpoint(checkpointid: CheckpointNumber, job: Job) -> CheckpointStatistics:
    """The checkpoint that the path names."""
    found = find_checkpoint(job.details, checkpointid)
    if found is None:
        raise HTTPException(404, f"checkpoint {checkpointid} is not in the job's history")
    return found


Checkpoint = Annotated[CheckpointStatistics, Depends(found_checkpoint)]


def names_in(wanted: str | None) -> list[str]:
    """The names of a list in a query."""
    return [name for part in (wanted or "").split(",") if (name := part.strip())]
