"""What a job calls its operators, keys and settings is text, whatever it looks like."""

from __future__ import annotations

from dataclasses import replace

from playwright.sync_api import Page, expect
from tidegate.common.job_status import JobStatus
from tidegate.coordinator.monitoring.job_details import JobDetails

from tests.console.web.conftest import Watch
from tests.console.web.serving import ToldJobs
from tests.fake_jobs import fake_job

HOSTILE = '<img src=x onerror="alert(1)"><script>alert(2)</script><b>bold</b>'
PAGES = {
    "": ".node-title",
    "/graph/task-2": ".panel h2",
    "/checkpoints/9": ".vertex-part summary",
    "/exceptions": ".failure-cause",
    "/configuration": ".settings td",
}
"""The pages, and what of each shows such a name."""
MADE_OF_TEXT = "main img, main script, main b:not(.edge-label b):not(.node b)"


def hostile_job() -> JobDetails:
    job = fake_job(1, JobStatus.FAILED, checkpoints=9)
    nodes = [
        {**node, "type": f"{node['type']}{HOSTILE}", "contents": HOSTILE, "uid": f"{node['uid']}{HOSTILE}"}
        for node in job.plan["nodes"]
    ]
    exceptions = tuple(
        replace(each, cause=HOSTILE, details=HOSTILE * 3, subtask_name=HOSTILE, host=HOSTILE)
        for each in job.exceptions
    )
    warnings = job.report.statistics.warnings
    warnings.append(HOSTILE)
    return replace(
        job,
        report=replace(job.report, job_name=HOSTILE, cause=HOSTILE, details=HOSTILE),
        plan={"nodes": nodes},
        exceptions=exceptions,
        configuration={"pipeline.name": HOSTILE, HOSTILE: "value"},
        coordinator_host=HOSTILE,
        subtasks=tuple(replace(each, host=HOSTILE) for each in job.subtasks),
    )


def test_names_from_a_job_never_become_elements(page: Page, jobs: ToldJobs) -> None:
    jobs.tell_of_archived(hostile_job())
    for where, seen in PAGES.items():
        page.goto(f"/#/jobs/{1:032x}{where}")
        expect(page.get_by_role("heading", name=HOSTILE, exact=True)).to_be_visible()
        expect(page.locator(seen).filter(has_text=HOSTILE).first).to_be_visible()
        assert page.locator(MADE_OF_TEXT).count() == 0, where


def test_nor_in_the_list_of_jobs(page: Page, jobs: ToldJobs) -> None:
    jobs.tell_of_archived(hostile_job())
    jobs.tell_of_damaged(f"{2:032x}", HOSTILE)
    page.goto("/")
    expect(page.get_by_role("link", name=HOSTILE, exact=True)).to_be_visible()
    assert page.locator(MADE_OF_TEXT).count() == 0


def test_an_address_made_by_somebody_else_is_text_too(page: Page, jobs: ToldJobs, watch: Watch) -> None:
    watch.expected.append("40[04]")
    jobs.tell(fake_job(1))
    page.goto("/#/jobs/%3Cimg%20src=x%20onerror=alert(1)%3E")
    expect(page.get_by_role("heading", name="No such job")).to_be_visible()
    page.goto("/#/jobs/..%2F..%2Fetc%2Fpasswd")
    expect(page.get_by_role("heading", name="No such job")).to_be_visible()
    assert page.locator("main img").count() == 0
