"""The history of checkpoints, and one of them."""

from __future__ import annotations

import itertools
import re
from collections import deque
from dataclasses import replace

import pytest
from playwright.sync_api import Page, expect
from tidegate.coordinator.monitoring.critical_path import critical_path
from tidegate.coordinator.monitoring.job_details import JobDetails
from tidegate.coordinator.monitoring.statistics import CheckpointOutcome, CheckpointStatistics
from tidegate.protocol.ids import CheckpointId

from tests.console.web.conftest import Watch
from tests.console.web.serving import ToldJobs
from tests.fake_jobs import fake_job, large_job

PAGE = f"#/jobs/{1:032x}/checkpoints"


def with_new_checkpoint(job: JobDetails, **changes: object) -> JobDetails:
    """The job after one more checkpoint, like its last but for some figures."""
    last = job.report.statistics.checkpoints[-1]
    new = replace(last, **{"checkpoint_id": CheckpointId(last.checkpoint_id + 1), **changes})
    statistics = replace(job.report.statistics, checkpoints=deque([*job.report.statistics.checkpoints, new]))
    return replace(job, report=replace(job.report, statistics=statistics))


def in_progress(job: JobDetails, acknowledged: int) -> JobDetails:
    """The job while a checkpoint is under way that so many subtasks have acknowledged."""
    newest: CheckpointStatistics = job.report.statistics.checkpoints[-2]
    subtasks = dict(list(newest.subtasks.items())[:acknowledged])
    under_way = replace(
        newest,
        checkpoint_id=CheckpointId(99),
        outcome=CheckpointOutcome.IN_PROGRESS,
        subtasks=subtasks,
        reason="",
    )
    statistics = replace(job.report.statistics, in_progress={under_way.checkpoint_id: under_way})
    return replace(job, report=replace(job.report, statistics=statistics))


def test_the_timeline_has_a_bar_for_each_checkpoint_with_its_outcome(page: Page, jobs: ToldJobs) -> None:
    jobs.tell(fake_job(1, checkpoints=30))
    page.goto(f"/{PAGE}")
    bars = page.locator(".timeline .outcome")
    expect(bars).to_have_count(30)
    expect(page.locator(".timeline .outcome.failed")).to_have_count(3)
    expect(page.locator(".timeline .cross")).to_have_count(3)
    expect(page.locator(".timeline .diamond")).to_have_count(4)
    heights = bars.evaluate_all("bars => bars.map(bar => bar.getBBox().height)")
    durations = [each.duration_ms for each in fake_job(1, checkpoints=30).report.statistics.checkpoints]
    assert [heights.index(max(heights))] == [durations.index(max(durations))]


def test_the_summary_gives_percentiles(page: Page, jobs: ToldJobs) -> None:
    jobs.tell(fake_job(1, checkpoints=30))
    page.goto(f"/{PAGE}")
    summary = page.get_by_role("region", name="Summary")
    expect(summary).to_contain_text("27 completed · 3 failed")
    row = summary.get_by_role("row").filter(has=page.get_by_role("rowheader", name="Duration", exact=True))
    expect(row.get_by_role("cell")).to_have_count(7)
    expect(row.get_by_role("cell").nth(5)).to_have_text(re.compile("89[0-9].ms|900.ms"))


def test_a_new_checkpoint_appears_by_itself(page: Page, jobs: ToldJobs) -> None:
    job = fake_job(1, checkpoints=8)
    jobs.tell(job)
    page.goto(f"/{PAGE}")
    expect(page.locator(".timeline .outcome")).to_have_count(8)
    jobs.tell(with_new_checkpoint(job, duration_ms=123.0))
    expect(page.locator(".timeline .outcome")).to_have_count(9)
    expect(page.get_by_role("link", name="#9", exact=True)).to_be_visible()


def test_a_checkpoint_shows_what_each_subtask_did(page: Page, jobs: ToldJobs) -> None:
    job = fake_job(1, checkpoints=29)
    jobs.tell(job)
    page.goto(f"/{PAGE}")
    page.get_by_role("link", name="#29", exact=True).click()
    detail = page.get_by_role("region", name="Checkpoint 29")
    expect(detail).to_contain_text("8 of 8")
    expect(detail).to_contain_text("completed")
    breakdown = detail.get_by_role("table")
    expect(breakdown.locator(".rows-row")).to_have_count(2)
    phases = breakdown.locator(".phases").first
    expect(phases).to_have_attribute(
        "aria-label", re.compile("start delay .* alignment .* sync .* async .* upload .* acknowledge")
    )
    widths = phases.evaluate("bar => [...bar.children].map(part => part.getBoundingClientRect().width)")
    assert sum(widths) > 0
    parts = list(job.report.statistics.checkpoints[-1].subtasks.values())
    longest = max(
        parts, key=lambda part: part.start_delay_ms + part.alignment_ms + part.sync_ms + part.async_ms
    )
    words = page.locator(".phases").evaluate_all("bars => bars.map(bar => bar.getAttribute('aria-label'))")
    assert any(f"alignment {round(longest.alignment_ms)}" in text for text in words)
    page.get_by_role("button", name="Close the checkpoint").click()
    expect(page.get_by_role("region", name="Summary")).to_be_visible()


def test_the_critical_path_is_drawn_with_its_causes(page: Page, jobs: ToldJobs) -> None:
    job = fake_job(1, checkpoints=29)
    path = critical_path(job.report.statistics.checkpoints[-1])
    jobs.tell(job)
    page.goto(f"/{PAGE}/29")
    steps = page.locator(".steps li")
    expect(steps).to_have_count(len(path.steps))
    expect(page.locator(".way .note")).to_have_text(path.cause)
    for shown, step in zip(steps.all(), path.steps):
        expect(shown).to_contain_text(step.subtask_name)
        expect(shown).to_contain_text(step.cause)
    bars = steps.locator(".track i").evaluate_all(
        "bars => bars.map(bar => [bar.getBoundingClientRect().left, bar.getBoundingClientRect().right])"
    )
    # In order and without gaps.
    for before, after in itertools.pairwise(bars):
        assert after[0] == pytest.approx(before[1], abs=2.5)
    longest = max(range(len(bars)), key=lambda place: path.steps[place].duration_ms)
    expect(steps.nth(longest)).to_have_attribute("data-longest", "true")


def test_a_failed_checkpoint_says_why(page: Page, jobs: ToldJobs) -> None:
    jobs.tell(fake_job(1, checkpoints=30))
    page.goto(f"/{PAGE}/30")
    detail = page.get_by_role("region", name="Checkpoint 30")
    expect(detail).to_contain_text("it did not complete within its timeout")
    expect(detail).to_contain_text("4 of 8")


def test_a_checkpoint_under_way_is_followed_to_its_end(page: Page, jobs: ToldJobs) -> None:
    job = fake_job(1, checkpoints=29)
    jobs.tell(in_progress(job, 3))
    page.goto(f"/{PAGE}/99")
    detail = page.get_by_role("region", name="Checkpoint 99")
    expect(detail).to_contain_text("in progress")
    expect(detail).to_contain_text("3 of 8")
    expect(page.locator(".timeline .in_progress")).to_have_count(1)
    jobs.tell(in_progress(job, 6))
    expect(detail).to_contain_text("6 of 8")
    jobs.tell(with_new_checkpoint(job, checkpoint_id=CheckpointId(99)))
    expect(detail).to_contain_text("completed")
    expect(detail).to_contain_text("8 of 8")


def test_a_checkpoint_that_is_not_kept_any_more_is_said_to_be_gone(
    page: Page, jobs: ToldJobs, watch: Watch
) -> None:
    watch.expected.append("404")
    jobs.tell(fake_job(1))
    page.goto(f"/{PAGE}/4711")
    expect(page.get_by_text("checkpoint 4711 is not in the job's history")).to_be_visible()


def test_10000_checkpoints_stay_usable(page: Page, jobs: ToldJobs) -> None:
    jobs.tell(large_job(1))
    page.goto(f"/{PAGE}")
    expect(page.get_by_text("1 to 100 of 10,000")).to_be_visible()
    expect(page.locator(".timeline .outcome")).to_have_count(100)
    assert page.evaluate("document.querySelectorAll('*').length") < 2_000
    page.get_by_role("button", name="Older").click()
    expect(page.get_by_text("101 to 200 of 10,000")).to_be_visible()
    page.get_by_role("link", name="#9900", exact=True).click()
    expect(page.get_by_role("heading", name="Checkpoint #9900")).to_be_visible()
    page.get_by_role("button", name="Newest").click()
    expect(page.get_by_text("1 to 100 of 10,000")).to_be_visible()
    page.get_by_role("link", name="#9999", exact=True).click()
    expect(page.get_by_role("region", name="Checkpoint 9999")).to_contain_text("500 of 500")
    assert page.evaluate("document.querySelectorAll('*').length") < 2_000


def test_arrow_keys_walk_along_the_timeline(page: Page, jobs: ToldJobs) -> None:
    jobs.tell(fake_job(1, checkpoints=12))
    page.goto(f"/{PAGE}")
    timeline = page.get_by_role("group", name=re.compile("^Timeline of 12"))
    timeline.focus()
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_role("heading", name="Checkpoint #12")).to_be_visible()
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_role("heading", name="Checkpoint #11")).to_be_visible()
    expect(timeline).to_be_focused()


def test_a_job_without_checkpoints_says_so(page: Page, jobs: ToldJobs) -> None:
    jobs.tell(fake_job(1, checkpoints=0))
    page.goto(f"/{PAGE}")
    expect(page.get_by_text("No checkpoint yet.")).to_be_visible()
