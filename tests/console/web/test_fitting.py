"""Text and strips of the console fit where they are shown, on wide and narrow pages."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from playwright.sync_api import Page, expect
from tidegate.coordinator.monitoring.job_details import JobDetails

from tests.console.web.serving import ToldJobs
from tests.fake_jobs import fake_job

OLD_MS = 1_500_000_000_123
"""Long ago, and still so near that the lag is shown."""
JOB = f"#/jobs/{1:032x}"

CUT = """(elements) => elements.filter((each) => each.scrollWidth > each.clientWidth)
  .map((each) => `${each.textContent}: ${each.scrollWidth} in ${each.clientWidth}`)"""


def with_watermarks(details: JobDetails, watermark_ms: int | None) -> JobDetails:
    subtasks = tuple(
        replace(each, metrics=replace(each.metrics, watermark_ms=watermark_ms)) for each in details.subtasks
    )
    return replace(details, subtasks=subtasks)


@pytest.mark.parametrize("width", [1280, 400])
def test_the_tabs_have_no_scrollbar(page: Page, jobs: ToldJobs, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    jobs.tell(fake_job(1))
    page.goto(f"/{JOB}")
    tabs = page.get_by_role("navigation", name="Pages of the job")
    expect(tabs.get_by_role("link").last).to_be_visible()
    overflow = tabs.evaluate(
        "tabs => [tabs.scrollHeight - tabs.clientHeight, tabs.scrollWidth - tabs.clientWidth]"
    )
    assert overflow == [0, 0]


@pytest.mark.parametrize("width", [1280, 400])
def test_watermarks_of_other_years_are_shown_in_full(page: Page, jobs: ToldJobs, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    jobs.tell(with_watermarks(fake_job(1), watermark_ms=OLD_MS))
    page.goto(f"/{JOB}/graph/task-2")
    expect(page.locator(".node-watermark").first).to_contain_text("lag")
    assert page.locator(".node-watermark").evaluate_all(CUT) == []
    task = page.get_by_role("region", name="Task")
    watermark = task.locator(".fact").filter(has_text="Watermark").locator("dd")
    expect(watermark).to_contain_text("Jul 2017")
    panel, shown = task.bounding_box(), watermark.bounding_box()
    assert panel is not None
    assert shown is not None
    assert shown["x"] + shown["width"] <= panel["x"] + panel["width"]
    lag = task.locator(".rows-row > [title^='watermark']")
    expect(lag.first).to_have_text(re.compile(r"^[0-9,]+\sd$"))
    expect(lag.first).to_have_attribute("title", re.compile(r"02:40:00\.123 UTC\), lag 2,[0-9]{3}\s"))
    assert lag.evaluate_all(CUT) == []
    lag.first.scroll_into_view_if_needed()
    expect(lag.first).to_be_in_viewport(ratio=1)


def test_boxes_that_grow_by_a_line_keep_their_distance(page: Page, jobs: ToldJobs) -> None:
    page.set_viewport_size({"width": 700, "height": 900})
    jobs.tell(with_watermarks(fake_job(1), watermark_ms=None))
    page.goto(f"/{JOB}")
    watermark = page.locator(".node-watermark")
    expect(watermark.first).to_have_text("no watermark")
    before = gaps(page)
    jobs.tell(with_watermarks(fake_job(1), watermark_ms=OLD_MS))
    expect(watermark.last).to_contain_text("lag")
    expect(page.locator(".node").nth(1)).not_to_have_css("top", before[0][1])
    assert [gap for gap, _ in gaps(page)] == [gap for gap, _ in before]


def gaps(page: Page) -> list[tuple[int, str]]:
    """Pixels between each box and the one above it, and where its top is."""
    found: list[tuple[int, str]] = [
        (gap, top)
        for gap, top in page.locator(".node").evaluate_all(
            """boxes => boxes.slice(1).map((box, place) =>
              [box.offsetTop - boxes[place].offsetTop - boxes[place].offsetHeight, box.style.top])"""
        )
    ]
    return found
