"""What can be asked of a job: with a token, after a question, with an answer."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect
from tidegate.common.job_status import JobStatus
from tidegate.coordinator.control.control_requests import Cancel, Rescale, TakeCheckpoint, TakeSavepoint
from tidegate.protocol.elements import SnapshotKind

from tests.console.web.conftest import Watch
from tests.console.web.serving import TOKEN, ToldJobs
from tests.fake_jobs import fake_job

JOB = f"jobs/{1:032x}"


@pytest.fixture(autouse=True)
def _one_job(jobs: ToldJobs) -> None:
    jobs.tell(fake_job(1, savepoint_directory="/savepoints"))


def open_job(page: Page) -> None:
    """The job's page, with the token in the address as the command line prints it."""
    page.goto(f"/#token={TOKEN}")
    page.goto(f"/#/{JOB}")
    expect(page.locator(".node")).to_have_count(4)


def test_the_token_goes_from_the_address_into_the_tab(page: Page) -> None:
    page.goto(f"/#token={TOKEN}")
    expect(page.get_by_role("link", name="job 1")).to_be_visible()
    assert TOKEN not in page.url
    assert TOKEN not in page.content()
    assert page.evaluate("Object.values(sessionStorage)") == [TOKEN]
    assert page.evaluate("localStorage.length") == 0


def test_a_savepoint_is_taken_and_its_path_is_shown(page: Page, jobs: ToldJobs) -> None:
    open_job(page)
    page.get_by_role("button", name="Savepoint…").click()
    dialog = page.get_by_role("dialog", name="Savepoint of job 1")
    expect(dialog.get_by_label("Directory")).to_have_attribute("placeholder", "/savepoints")
    dialog.get_by_label("Directory").fill("/elsewhere")
    dialog.get_by_role("button", name="Take the savepoint").click()
    message = page.get_by_role("status").filter(has_text="Savepoint")
    expect(message.locator("code")).to_have_text(re.compile("^/elsewhere/savepoint-"))
    (asked,) = jobs.asked(1)
    assert isinstance(asked, TakeSavepoint)
    assert asked.directory == "/elsewhere"


def test_nothing_happens_if_the_question_is_not_confirmed(page: Page, jobs: ToldJobs) -> None:
    open_job(page)
    page.get_by_role("button", name="Stop…").click()
    page.get_by_role("dialog").get_by_role("button", name="Not now").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_role("button", name="Stop…")).to_be_focused()
    page.get_by_role("button", name="Cancel…").click()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert jobs.asked(1) == []


@pytest.mark.parametrize(("is_drained", "kind"), [(False, SnapshotKind.STOP), (True, SnapshotKind.FINAL)])
def test_stop_takes_a_savepoint_and_ends_the_job(
    page: Page, jobs: ToldJobs, is_drained: bool, kind: SnapshotKind
) -> None:
    open_job(page)
    page.get_by_role("button", name="Stop…").click()
    page.get_by_role("checkbox", name=re.compile("^Drain")).set_checked(is_drained)
    page.get_by_role("dialog").get_by_role("button", name="Stop the job").click()
    expect(page.get_by_role("status").locator("code")).to_have_text(re.compile("savepoint-"))
    expect(page.get_by_role("region", name="Job", exact=True)).to_contain_text("finished")
    (asked,) = jobs.asked(1)
    assert isinstance(asked, TakeSavepoint)
    assert asked.kind is kind


def test_cancel_ends_the_job(page: Page, jobs: ToldJobs) -> None:
    open_job(page)
    page.get_by_role("button", name="Cancel…").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel the job").click()
    expect(page.get_by_text("The job is cancelled.")).to_be_visible()
    expect(page.get_by_role("region", name="Job", exact=True)).to_contain_text("canceled")
    assert jobs.asked(1) == [Cancel()]


def test_a_checkpoint_is_taken_now(page: Page, jobs: ToldJobs) -> None:
    open_job(page)
    page.get_by_role("button", name="Checkpoint now").click()
    expect(page.get_by_text(re.compile("Checkpoint #[0-9]+ is complete"))).to_be_visible()
    assert jobs.asked(1) == [TakeCheckpoint()]


def test_rescale_changes_the_tasks_that_were_given_another_parallelism(page: Page, jobs: ToldJobs) -> None:
    open_job(page)
    page.get_by_role("button", name="Rescale…").click()
    dialog = page.get_by_role("dialog", name="Rescale job 1")
    field = dialog.get_by_label(re.compile("^enrich 1: decode"))
    expect(field).to_have_value("2")
    field.fill("4")
    dialog.get_by_role("button", name="Rescale").click()
    expect(page.get_by_text("The job runs with the new parallelism.")).to_be_visible()
    assert jobs.asked(1) == [Rescale({"enrich-1-decode": 4, "enrich-1": 4})]


def test_an_action_that_is_refused_says_why(page: Page, jobs: ToldJobs, watch: Watch) -> None:
    watch.expected.append("403")
    open_job(page)
    page.get_by_role("button", name="Savepoint…").click()
    page.get_by_role("dialog").get_by_label("Directory").fill("/etc")
    page.get_by_role("button", name="Take the savepoint").click()
    expect(page.get_by_role("status").filter(has_text="Savepoint failed")).to_contain_text("outside of those")
    assert jobs.asked(1) == []


def test_a_job_without_a_directory_for_savepoints_says_so_before(page: Page, jobs: ToldJobs) -> None:
    jobs.tell(fake_job(1))
    open_job(page)
    page.get_by_role("button", name="Savepoint…").click()
    expect(page.get_by_role("dialog")).to_contain_text("execution.checkpointing.savepoint-dir")


def test_actions_wait_while_the_job_restarts_but_it_can_be_cancelled(page: Page, jobs: ToldJobs) -> None:
    jobs.tell(fake_job(1, JobStatus.RESTARTING))
    open_job(page)
    expect(page.get_by_text("Not while the job is restarting.")).to_be_visible()
    expect(page.get_by_role("button", name="Savepoint…")).to_have_attribute("aria-disabled", "true")
    expect(page.get_by_role("button", name="Cancel…")).to_have_attribute("aria-disabled", "false")
    page.get_by_role("button", name="Savepoint…").dispatch_event("click")
    expect(page.get_by_role("dialog")).to_have_count(0)
