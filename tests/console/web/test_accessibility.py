"""Names, roles, contrast and keys: what people need who do not see the page, or have no mouse."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect
from tidegate.common.job_status import JobStatus

from tests.console.web.serving import ToldJobs
from tests.fake_jobs import fake_job

JOB = f"/#/jobs/{1:032x}"
PAGES = {
    "/": "main table",
    f"{JOB}/graph/task-2": ".rows-row",
    f"{JOB}/checkpoints/29": ".phases",
    f"{JOB}/exceptions": ".failure",
    f"{JOB}/configuration": ".settings",
}
"""The pages, and what is there when they are filled."""

# Every control has a name; every image has a text; ids are used once; there is one main part and one first
# heading; table headers say what they are headers of; nothing takes the focus out of the order of the page.
NAMELESS = """() => {
  const found = [];
  const shown = (element) => element.checkVisibility();
  const name = (element) => (element.getAttribute("aria-label") ?? element.innerText ?? "").trim()
    || [...(element.labels ?? [])].map((label) => label.innerText).join("").trim()
    || document.getElementById(element.getAttribute("aria-labelledby"))?.innerText;
  for (const each of document.querySelectorAll("button, a[href], input, select, [tabindex='0'], [role=img]"))
    if (shown(each) && !name(each)) found.push(`without a name: ${each.outerHTML.slice(0, 120)}`);
  const ids = [...document.querySelectorAll("[id]")].map((each) => each.id);
  if (new Set(ids).size !== ids.length) found.push(`an id twice: ${ids}`);
  if (document.querySelectorAll("main").length !== 1) found.push("not one main part");
  if ([...document.querySelectorAll("h1")].length !== 1) found.push("not one first heading");
  for (const each of document.querySelectorAll("th")) if (!each.scope) found.push(`scope: ${each.innerText}`);
  if (document.querySelector("[tabindex]:not([tabindex='0']):not([tabindex='-1'])")) found.push("tabindex");
  if (document.documentElement.lang !== "en") found.push("no language");
  return found;
}"""

# WCAG 2: 4.5 between text and what is behind it.
FAINT = """() => {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = (colour) => {
    const [r, g, b] = rgba(colour).map((part) => part / 255)
      .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const colour = getComputedStyle(each).backgroundColor;
      if (rgba(colour)[3] === 255) return colour;
    }
    return "white";
  };
  const found = new Set();
  for (const each of document.querySelectorAll("body *")) {
    const text = [...each.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!text || !each.checkVisibility() || each.namespaceURI.endsWith("svg")) continue;
    const [one, other] = [light(getComputedStyle(each).color), light(behind(each))];
    const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (contrast < 4.5) found.add(`${contrast.toFixed(2)}: ${each.className} ${each.innerText.slice(0, 40)}`);
  }
  return [...found];
}"""


def open_pages(page: Page, jobs: ToldJobs) -> Iterator[str]:
    """Each page in turn, as soon as it is filled."""
    jobs.tell(fake_job(1, JobStatus.RESTARTING, checkpoints=29))
    jobs.tell_of_archived(fake_job(2, JobStatus.FAILED))
    for where, filled in PAGES.items():
        page.goto(where)
        expect(page.locator(filled).first).to_be_visible()
        yield where


def test_everything_has_a_name_and_a_role(page: Page, jobs: ToldJobs) -> None:
    found = [(where, each) for where in open_pages(page, jobs) for each in page.evaluate(NAMELESS)]
    assert found == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_what_is_behind_it(page: Page, jobs: ToldJobs, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)
    found = [(where, each) for where in open_pages(page, jobs) for each in page.evaluate(FAINT)]
    assert found == []


def test_a_narrow_page_does_not_scroll_sideways(page: Page, jobs: ToldJobs) -> None:
    page.set_viewport_size({"width": 700, "height": 900})
    widths = {
        where: page.evaluate("document.documentElement.scrollWidth") for where in open_pages(page, jobs)
    }
    assert widths == dict.fromkeys(PAGES, 700)


def test_the_console_can_be_used_with_the_keyboard_alone(page: Page, jobs: ToldJobs) -> None:
    jobs.tell(fake_job(1))
    page.goto("/")
    job = page.get_by_role("link", name="job 1")
    expect(job).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(job).to_be_focused()
    page.keyboard.press("Enter")
    box = page.locator(".node").nth(1)
    expect(box).to_be_visible()
    box.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("region", name="Task")).to_be_visible()
    expect(box).to_be_focused()
    page.get_by_role("link", name="Checkpoints").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name="Checkpoints")).to_have_attribute("aria-current", "page")
    page.get_by_role("link", name="#29", exact=True).focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Checkpoint #29")).to_be_visible()
