"""The list of jobs, and what stands there without any."""

from __future__ import annotations

from playwright.sync_api import Page, expect
from tidegate.common.job_status import JobStatus

from tests.console.web.serving import ToldJobs
from tests.fake_jobs import fake_job


def test_a_console_without_jobs_says_how_to_start_one(page: Page) -> None:
    page.goto("/")
    expect(page.get_by_role("heading", name="No job yet")).to_be_visible()
    expect(page.get_by_text("tidegate run driver.py")).to_be_visible()


def test_running_jobs_stand_above_those_that_are_over(page: Page, jobs: ToldJobs) -> None:
    jobs.tell(fake_job(1, checkpoints=28))
    jobs.tell(fake_job(2, JobStatus.FAILED))
    jobs.tell_of_archived(fake_job(3, JobStatus.FINISHED))
    page.goto("/")
    running = page.get_by_role("region", name="Running jobs").get_by_role("row")
    over = page.get_by_role("region", name="Over jobs").get_by_role("row")
    expect(running).to_have_count(2)
    expect(running.nth(1)).to_contain_text("job 1")
    expect(running.nth(1)).to_contain_text("running")
    expect(running.nth(1)).to_contain_text("8 / 8")
    expect(running.nth(1)).to_contain_text("#28 · ")
    expect(running.nth(1)).to_contain_text("k/s")
    expect(over).to_have_count(3)
    expect(over.filter(has_text="job 2")).to_contain_text("failed")
    expect(over.filter(has_text="job 3")).to_contain_text("finished")


def test_a_job_that_comes_shows_up_and_its_name_leads_to_its_page(page: Page, jobs: ToldJobs) -> None:
    page.goto("/")
    expect(page.get_by_role("heading", name="No job yet")).to_be_visible()
    jobs.tell(fake_job(1))
    page.get_by_role("link", name="job 1").click()
    expect(page.get_by_role("heading", name="job 1", exact=True)).to_be_visible()
    assert page.title() == "job 1 \u2013 Tidegate"


def test_a_damaged_archive_is_one_line_of_the_list(page: Page, jobs: ToldJobs) -> None:
    jobs.tell(fake_job(1))
    jobs.tell_of_damaged(f"{9:032x}", "the archive is damaged: its checksum does not fit")
    page.goto("/")
    expect(page.get_by_text("its checksum does not fit")).to_be_visible()
    expect(page.get_by_role("link", name="job 1")).to_be_visible()


def test_a_long_list_of_jobs_that_are_over_comes_in_parts(page: Page, jobs: ToldJobs) -> None:
    for number in range(1, 131):
        jobs.tell_of_archived(fake_job(number, JobStatus.FINISHED, tasks=2, parallelism=1, checkpoints=1))
    page.goto("/")
    rows = page.get_by_role("region", name="Over jobs").locator("tbody tr")
    expect(rows).to_have_count(50)
    page.get_by_role("button", name="Show more").click()
    expect(rows).to_have_count(100)
