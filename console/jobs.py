"""Finds a running job on a Ray cluster."""

from __future__ import annotations

from ..common.errors import JobExecutionError, ResourceError
from ..common.job_id import JobID
from ..coordinator.job_client import JobClient, JobReport


def reports(address: str | None) -> dict[str, tuple[JobClient, JobReport]]:
    """The jobs of a cluster and how they are, by id; those that end while they are asked are left out."""
    # Here and not above: commands about files must not pay for importing Ray.
    from ..coordinator.ray_deployment import running_jobs

    found = {}
    for job_id, handle in running_jobs(address).items():
        client = JobClient(JobID(job_id), handle)
        try:
            found[job_id] = (client, client.report())
        except JobExecutionError:
            continue
    return found


def find_job(job: str, address: str | None) -> JobClient:
    """The one job with this id, start of an id, or name.

    Raises:
        ResourceError: There is none, or more than one.
    """
    there = reports(address)
    fitting = [
        job_id
        for job_id, (_, report) in there.items()
        if job_id == job or report.job_name == job or (len(job) >= 4 and job_id.startswith(job))
    ]
    if len(fitting) == 1:
        return there[fitting[0]][0]
    listed = ", ".join(f"{job_id} ({report.job_name})" for job_id, (_, report) in there.items()) or "no job"
    how_many = "more than one job is" if fitting else "no job is"
    raise ResourceError(f"{how_many} called {job!r}; there is: {listed}. Give an id of `tidegate list`")
