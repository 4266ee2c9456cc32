"""The epochs of a Spark stage in the panel of its task."""

from __future__ import annotations

import os
import re
from dataclasses import replace

from playwright.sync_api import Locator, Page, expect

from tests.console.stages import JOIN, STAGE_TASK, with_stage
from tests.console.web.serving import ToldJobs
from tests.fake_jobs import fake_job

TITLE = re.compile(r"^epoch 4: 20,000 records, 156\sKiB$")
PANEL = f"#/jobs/{1:032x}/graph/{STAGE_TASK}"


def epochs(page: Page) -> Locator:
    return page.get_by_role("table", name="Epochs of Spark stages").locator(".rows-row")


def test_the_panel_of_a_task_shows_the_epochs_of_its_stage_and_of_each_subtask(
    page: Page, jobs: ToldJobs
) -> None:
    jobs.tell(with_stage(fake_job(1)))
    page.goto(f"/{PANEL}")
    expect(epochs(page)).to_have_count(3)
    if picture := os.environ.get("TIDEGATE_PICTURE"):
        page.get_by_role("region", name="Task").screenshot(path=picture)
    panel = page.get_by_role("region", name="Task")
    assert panel.evaluate("panel => panel.scrollWidth <= panel.clientWidth"), "the table widens the panel"
    whole, row, other = epochs(page).all()
    for words in ("enrich 1", "#7: 24,000", "2 from #5: 80,000", "264,000"):
        expect(whole).to_contain_text(words)
    expect(other).to_contain_text("enrich 1 · 1")
    for words in ("enrich 1 · 0", "#7: 12,000", "2 from #5: 40,000", "#4: 20,000", "#3: 20,000", "132,000"):
        expect(row).to_contain_text(words)
    expect(row.get_by_text("#4: 20,000")).to_have_attribute("title", TITLE)
    link = page.get_by_role("link", name=JOIN.web_ui).first
    expect(link).to_have_attribute("href", JOIN.web_ui)
    expect(link).to_have_attribute("rel", "noopener noreferrer")
    expect(page.get_by_text("listens on loopback: open it on node-")).to_have_count(2)


def test_an_address_that_is_none_is_no_link(page: Page, jobs: ToldJobs) -> None:
    jobs.tell(with_stage(fake_job(1), replace(JOIN, web_ui="javascript:alert(1)")))
    page.goto(f"/{PANEL}")
    expect(epochs(page)).to_have_count(3)
    expect(page.get_by_text("Spark's web UI")).to_have_count(0)


def test_a_task_without_a_stage_shows_no_epochs(page: Page, jobs: ToldJobs) -> None:
    jobs.tell(fake_job(1))
    page.goto(f"/{PANEL}")
    expect(page.get_by_role("table", name="Subtasks of enrich 1: decode → enrich 1")).to_be_visible()
    expect(page.get_by_role("heading", name="Epochs in Spark")).to_be_hidden()
