"""Routes about the console, its jobs and their vertices."""

from __future__ import annotations

import datetime
import logging
from collections import Counter
from typing import Annotated

from fastapi import APIRouter, Query

from ... import __version__
from ...common.job_status import JobStatus
from .directory import ListedJob
from .job_graph import plan_of
from .models import job_models as models
from .requests import ConsoleState, Job, Vertex, Wanted, names_in
from .views import job_views, metric_views, recovery_views

logger = logging.getLogger(__name__)
router = APIRouter(tags=["jobs"])
REFRESH_MS = 1_000


@router.get("/config")
def config(console: ConsoleState) -> models.ConsoleConfig:
    """How the page should behave, and what the console can do."""
    zone = datetime.datetime.now(datetime.timezone.utc).astimezone()
    offset = zone.utcoffset()
    return models.ConsoleConfig(
        refresh_interval=REFRESH_MS,
        timezone_name=zone.tzname() or "UTC",
        timezone_offset=0 if offset is None else int(offset.total_seconds() * 1_000),
        flink_version=__version__,
        flink_revision="",
        features=models.Features(
            web_submit=False, web_cancel=console.can_act, web_rescale=console.can_act, web_history=True
        ),
    )


@router.get("/overview")
def overview(console: ConsoleState) -> models.ClusterOverview:
    """All jobs together."""
    jobs = [job.found for job in console.jobs.jobs() if job.found is not None]
    states = Counter(job.details.report.status for job in jobs)
    ended = (JobStatus.FINISHED, JobStatus.CANCELED, JobStatus.FAILED)
    running = [job for job in jobs if job.details.report.status not in ended]
    subtasks = [subtask for job in running for subtask in job.details.subtasks]
    return models.ClusterOverview(
        taskmanagers=len({(one.host, one.process_id) for one in subtasks if one.process_id}),
        slots_total=len(subtasks),
        slots_available=0,
        jobs_running=len(running),
        jobs_finished=states[JobStatus.FINISHED],
        jobs_cancelled=states[JobStatus.CANCELED],
        jobs_failed=states[JobStatus.FAILED],
        flink_version=__version__,
        flink_commit="",
    )


@router.get("/jobs")
def job_ids(console: ConsoleState) -> models.JobIds:
    """The ids of all jobs."""
    return models.JobIds(
        jobs=[
            models.JobIdWithStatus(
                id=job.job_id,
                status="SUSPENDED" if job.found is None else job.found.details.report.status.name,
            )
            for job in console.jobs.jobs()
        ]
    )


@router.get("/jobs/overview")
def jobs_overview(console: ConsoleState) -> models.JobSummaries:
    """All jobs, the newest first."""
    jobs = [_summary_of(job) for job in console.jobs.jobs()]
    return models.JobSummaries(jobs=sorted(jobs, key=lambda job: (-job.start_time, job.jid)))


def _summary_of(job: ListedJob) -> models.JobSummary:
    """One row, whatever is wrong with the job: it must not hide the others."""
    try:
        return job_views.summary_of(job)
    except Exception as error:
        logger.exception("Job %r cannot be listed", job.job_id)
        problem = f"this job cannot be shown ({type(error).__name__}); the console's log has the cause"
        return job_views.summary_of(ListedJob(job.job_id, None, problem))


@router.get("/jobs/{jobid:hex}")
def job_details(job: Job) -> models.JobDetailsInfo:
    """One job with its vertices and its plan."""
    return job_views.job_info(job)


@router.get("/jobs/{jobid:hex}/live")
def live(job: Job) -> models.LiveJob:
    """What a page polls: everything of a job that changes, in one small document (beyond Flink)."""
    return metric_views.live_job(job)


@router.get("/jobs/{jobid:hex}/plan")
def plan(job: Job) -> models.JobPlan:
    """The graph of a job."""
    return models.JobPlan(plan=plan_of(job.details))


@router.get("/jobs/{jobid:hex}/config")
def job_config(job: Job) -> models.JobConfig:
    """The settings of a job, without secrets."""
    return job_views.job_config(job.details)


@router.get("/jobs/{jobid:hex}/exceptions")
def exceptions(
    job: Job, limit: Annotated[int, Query(alias="maxExceptions", ge=1, le=100)] = 20
) -> models.JobExceptions:
    """Why a job failed or was restarted, the newest first."""
    return job_views.job_exceptions(job.details, limit)


@router.get("/jobs/{jobid:hex}/recoveries")
def recoveries(job: Job, limit: Annotated[int, Query(ge=1, le=100)] = 20) -> recovery_views.JobRecoveries:
    """How the job recovered from its failures, the newest first (beyond Flink)."""
    return recovery_views.job_recoveries(job.details, limit)


@router.get("/jobs/{jobid:hex}/metrics")
def job_metrics(job: Job, get: Wanted = None) -> list[models.MetricValue]:
    """Metrics of a job."""
    return metric_views.job_metrics(job.details, names_in(get))


@router.get("/jobs/{jobid:hex}/vertices/{vertexid}")
def vertex_details(job: Job, vertex: Vertex) -> models.VertexDetails:
    """One vertex with its subtasks."""
    return job_views.vertex_details(vertex, job.details)


@router.get("/jobs/{jobid:hex}/vertices/{vertexid}/subtasks/metrics")
def subtask_metrics(vertex: Vertex, get: Wanted = None) -> list[models.AggregatedMetric]:
    """Metrics over the subtasks of a vertex: least, greatest, mean, sum."""
    return metric_views.subtask_metrics(vertex, names_in(get))


@router.get("/jobs/{jobid:hex}/vertices/{vertexid}/watermarks")
def watermarks(vertex: Vertex) -> list[models.MetricValue]:
    """The watermark of every subtask."""
    return metric_views.watermarks(vertex)


@router.get("/jobs/{jobid:hex}/vertices/{vertexid}/backpressure")
def backpressure(job: Job, vertex: Vertex) -> models.VertexBackpressure:
    """How much of its time every subtask could not send."""
    return metric_views.backpressure(vertex, job.details)
