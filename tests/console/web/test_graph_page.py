"""The graph of a job and the panel of a task."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace

from playwright.sync_api import Locator, Page, expect
from tidegate.common.job_status import JobStatus
from tidegate.coordinator.monitoring.job_details import JobDetails

from tests.console.web.serving import ToldJobs, with_rates, with_wide_tasks
from tests.fake_jobs import fake_job, large_job

JOB = f"#/jobs/{1:032x}"


def node(page: Page, name: str) -> Locator:
    return page.locator(".node", has=page.locator("strong", has_text=re.compile(f"^{name}$")))


def rows(page: Page) -> Locator:
    return page.get_by_role("table", name=re.compile("Subtasks of")).locator(".rows-row")


def test_every_task_is_a_box_with_its_operators_and_figures(page: Page, jobs: ToldJobs) -> None:
    jobs.tell(with_rates(fake_job(1), records_in=1_500.0, records_out=750.0))
    page.goto(f"/{JOB}")
    expect(page.locator(".node")).to_have_count(4)
    box = node(page, "enrich 1: decode")
    expect(box).to_contain_text("enrich 1busy")
    expect(box).to_contain_text("\u00d72")
    expect(box).to_contain_text("in 3,000/s")
    expect(box).to_contain_text("out 1,500/s")
    expect(box).to_contain_text(re.compile("busy [0-9]+"))
    expect(box).to_contain_text("watermark")
    expect(box).to_contain_text("lag 2.00")


def test_boxes_stand_in_the_order_of_the_stream_and_do_not_overlap(page: Page, jobs: ToldJobs) -> None:
    jobs.tell(fake_job(1, tasks=5))
    page.goto(f"/{JOB}")
    expect(page.locator(".node")).to_have_count(5)
    names = ["Source: read", "enrich 1: decode", "enrich 2: decode", "enrich 3: decode", "write: decode"]
    boxes = [node(page, name).bounding_box() for name in names]
    for before, after in itertools.pairwise(boxes):
        assert before is not None
        assert after is not None
        assert before["x"] + before["width"] < after["x"]


def test_arrows_say_how_records_go_and_how_many(page: Page, jobs: ToldJobs) -> None:
    jobs.tell(with_rates(fake_job(1), records_in=1_500.0))
    page.goto(f"/{JOB}")
    labels = page.locator(".edge-label")
    expect(labels).to_have_count(3)
    expect(labels.first).to_contain_text("hash")
    expect(labels.first).to_contain_text("3,000/s")


PAUSES = """
window.pauses = [];
const start = window.setTimeout;
window.setTimeout = (work, ms, ...rest) => {
  window.pauses.push(ms);
  return start(work, ms, ...rest);
};
"""
"""Keeps how long the page wants to wait: how long it waits then depends on what else the machine does."""


def test_figures_change_after_a_second_and_what_a_question_takes(page: Page, jobs: ToldJobs) -> None:
    page.add_init_script(PAUSES)
    job = fake_job(1)
    jobs.tell(with_rates(job, records_in=1_500.0))
    page.goto(f"/{JOB}")
    expect(node(page, "enrich 2: decode")).to_contain_text("in 3,000/s")
    jobs.tell(with_rates(job, records_in=2_500.0))
    expect(node(page, "enrich 2: decode")).to_contain_text("in 5,000/s")
    pauses = page.evaluate("window.pauses")
    assert pauses
    assert max(pauses) <= 1_000


def test_the_task_that_holds_others_up_is_named(page: Page, jobs: ToldJobs) -> None:
    job = with_rates(fake_job(1), busy_ms=100.0, backpressured_ms=0.0, idle_ms=900.0)
    slow, waiting = {"busy_ms": 980.0, "idle_ms": 20.0}, {"backpressured_ms": 800.0, "idle_ms": 100.0}
    jobs.tell(tasks_with(tasks_with(job, 2, slow), 1, waiting))
    page.goto(f"/{JOB}")
    words = page.get_by_role("region", name="Graph", exact=True).locator("header")
    expect(words).to_contain_text("enrich 2: decode → enrich 2 is the bottleneck: it is busy 98")
    expect(words).to_contain_text("enrich 1: decode → enrich 1 waits for it")
    expect(node(page, "enrich 1: decode")).to_have_attribute("data-strain", "backpressured")


def tasks_with(job: JobDetails, task: int, rates: dict[str, float]) -> JobDetails:
    """The job with other rates in its task of that number."""
    wanted = sorted(
        {each.subtask.task_id for each in job.subtasks}, key=lambda name: int(name.split("-")[1])
    )[task]
    changed = with_rates(job, **rates)
    return replace(
        job,
        subtasks=tuple(
            other if each.subtask.task_id == wanted else each
            for each, other in zip(job.subtasks, changed.subtasks)
        ),
    )


def test_a_task_opens_with_its_subtasks_and_closes_again(page: Page, jobs: ToldJobs) -> None:
    jobs.tell(fake_job(1, parallelism=3))
    page.goto(f"/{JOB}")
    node(page, "enrich 1: decode").click()
    panel = page.get_by_role("region", name="Task")
    expect(panel).to_contain_text("enrich-1-decode")
    expect(rows(page)).to_have_count(3)
    expect(rows(page).first).to_contain_text("running")
    expect(rows(page).first).to_contain_text("node-")
    expect(panel.get_by_role("img", name=re.compile("times the mean"))).to_be_visible()
    expect(node(page, "enrich 1: decode")).to_have_attribute("aria-pressed", "true")
    page.get_by_role("button", name="Close the task").click()
    expect(panel).to_have_count(0)


def test_subtasks_are_sorted_by_the_figure_that_is_chosen(page: Page, jobs: ToldJobs) -> None:
    jobs.tell(fake_job(1, parallelism=8))
    page.goto(f"/{JOB}/graph/task-2")
    expect(rows(page)).to_have_count(8)
    page.get_by_role("columnheader", name="In", exact=True).get_by_role("button").click()
    expect(page.get_by_role("columnheader", name="In", exact=True)).to_have_attribute(
        "aria-sort", "descending"
    )
    shown = rows(page).evaluate_all("rows => rows.map(row => row.row.recordsIn)")
    assert shown == sorted(shown, reverse=True)
    assert len(set(shown)) > 1


def test_500_subtasks_stay_usable(page: Page, jobs: ToldJobs) -> None:
    jobs.tell(large_job(1))
    page.goto(f"/{JOB}")
    expect(page.locator(".node")).to_have_count(10)
    node(page, "enrich 3: decode").click()
    table = page.get_by_role("table", name=re.compile("Subtasks of"))
    expect(table).to_have_attribute("aria-rowcount", "51")
    assert page.evaluate("document.querySelectorAll('*').length") < 1_500
    page.get_by_label(re.compile("^Subtasks of")).last.evaluate("body => body.scrollTo(0, body.scrollHeight)")
    expect(table.locator('[aria-rowindex="51"]')).to_be_visible()
    assert rows(page).count() < 40


def test_one_task_with_500_subtasks_keeps_few_rows_in_the_page(page: Page, jobs: ToldJobs) -> None:
    jobs.tell(with_wide_tasks(fake_job(1, tasks=2), 500))
    page.goto(f"/{JOB}/graph/task-2")
    expect(page.get_by_role("table", name=re.compile("Subtasks of"))).to_have_attribute(
        "aria-rowcount", "501"
    )
    assert rows(page).count() < 40
    assert page.evaluate("document.querySelectorAll('*').length") < 1_000


def test_a_narrow_page_draws_the_graph_from_top_to_bottom(page: Page, jobs: ToldJobs) -> None:
    page.set_viewport_size({"width": 700, "height": 900})
    jobs.tell(fake_job(1))
    page.goto(f"/{JOB}")
    expect(page.locator(".node")).to_have_count(4)
    first, second = node(page, "Source: read").bounding_box(), node(page, "enrich 1: decode").bounding_box()
    assert first is not None
    assert second is not None
    assert first["y"] + first["height"] < second["y"]
    assert page.evaluate("document.documentElement.scrollWidth") <= 700


def test_a_job_from_storage_shows_its_graph_and_takes_no_actions(page: Page, jobs: ToldJobs) -> None:
    jobs.tell_of_archived(fake_job(1, JobStatus.FINISHED))
    page.goto(f"/{JOB}")
    expect(page.locator(".node")).to_have_count(4)
    expect(page.locator("#pulse")).to_have_text("from storage")
    expect(page.get_by_text("The job is over: nothing can be asked of it.")).to_be_visible()
    for button in page.get_by_role("group", name="Actions").get_by_role("button").all():
        expect(button).to_have_attribute("aria-disabled", "true")
        expect(button).to_have_accessible_description("The job is over: nothing can be asked of it.")


def test_zoom_makes_the_graph_larger_and_fits_it_again(page: Page, jobs: ToldJobs) -> None:
    jobs.tell(fake_job(1, tasks=8))
    page.goto(f"/{JOB}")
    width = "document.querySelector('.sheet').offsetWidth"
    expect(page.locator(".node")).to_have_count(8)
    expect(page.locator(".sheet")).to_have_css("width", re.compile("^[0-9]{3,}"))
    fitting = page.evaluate(width)
    page.get_by_role("button", name="Zoom in").click()
    assert page.evaluate(width) > fitting
    page.get_by_role("button", name="Fit the graph into the page").click()
    assert page.evaluate(width) == fitting
