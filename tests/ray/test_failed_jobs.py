"""Jobs that failed are known for a while after their coordinators have left."""

from __future__ import annotations

import time
import uuid

import pytest
import ray
from tidegate.actors.deployment import NAMESPACE, coordinator_name, known_jobs
from tidegate.actors.failed_jobs import KEPT_MS, MOST_KEPT, failed_jobs, forget_failed, keep_failed
from tidegate.common.job_status import JobStatus
from tidegate.coordinator.control.control_requests import GetDetails, GetReport
from tidegate.coordinator.monitoring.job_details import JobDetails
from tidegate.coordinator.monitoring.job_report import JobReport
from tidegate.coordinator.monitoring.statistics import JobStatistics

pytestmark = pytest.mark.usefixtures("ray_cluster")
NOW_MS = 1_800_000_000_000


def failed(cause: str) -> JobDetails:
    report = JobReport(JobStatus.FAILED, cause, "", 0, JobStatistics(), None, job_name="flights")
    return JobDetails(
        job_id=uuid.uuid4().hex,
        report=report,
        started_ms=NOW_MS,
        ended_ms=NOW_MS,
        plan={"nodes": []},
        subtasks=(),
        exceptions=(),
        configuration={},
        coordinator_host="head",
        now_ms=NOW_MS,
    )


def test_a_failed_job_is_known_for_an_hour_with_its_cause() -> None:
    job = failed("no checkpoint at /savepoints")
    keep_failed(job, NOW_MS)
    found = failed_jobs(NOW_MS + KEPT_MS - 1)[job.job_id]
    assert found.ask(GetReport()) == job.report
    assert found.ask(GetDetails()).plan == {"nodes": []}
    assert found.wait(None)
    assert job.job_id not in failed_jobs(NOW_MS + KEPT_MS)


@ray.remote(num_cpus=0)
class Leaving:
    """A coordinator that answers nothing more."""


def test_the_end_of_a_failed_job_does_not_depend_on_a_coordinator_that_leaves() -> None:
    job, now_ms = failed("no checkpoint at /savepoints"), time.time_ns() // 1_000_000
    leaving = Leaving.options(
        name=coordinator_name(job.job_id), namespace=NAMESPACE, lifetime="detached"
    ).remote()
    try:
        ray.get(leaving.__ray_ready__.remote())
        keep_failed(job, now_ms)
        assert known_jobs(None)[job.job_id].ask(GetReport()) == job.report
    finally:
        ray.kill(leaving)
        forget_failed(job.job_id)


def test_a_failed_job_is_forgotten_when_its_driver_knows() -> None:
    job, other = failed("first"), failed("second")
    keep_failed(job, NOW_MS)
    keep_failed(other, NOW_MS)
    forget_failed(job.job_id)
    there = failed_jobs(NOW_MS)
    assert job.job_id not in there
    assert there[other.job_id].ask(GetReport()).cause == "second"


def test_only_the_latest_failures_are_kept() -> None:
    jobs = [failed(str(number)) for number in range(MOST_KEPT + 5)]
    for number, job in enumerate(jobs, 1):
        keep_failed(job, NOW_MS + number)
    assert set(failed_jobs(NOW_MS)) == {job.job_id for job in jobs[-MOST_KEPT:]}
    for job in jobs:
        forget_failed(job.job_id)
