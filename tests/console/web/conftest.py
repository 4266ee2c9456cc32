"""One headless Chromium for these tests, one server, and a page that reports everything that is not clean."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.console.web.serving import ServedConsole, ToldJobs

TIMEOUT_MS = 90_000
"""Two loaded cores are slow; nothing here waits so long when all is well."""
CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")


@dataclass
class Watch:
    """What a page did that a clean page does not do: console errors, exceptions, requests to other places."""

    origin: str
    expected: list[str] = field(default_factory=list)
    """Patterns of errors that a test provokes, such as an answer 404, which a browser reports."""
    problems: list[str] = field(default_factory=list)

    def unexpected(self) -> list[str]:
        return [text for text in self.problems if not any(re.search(each, text) for each in self.expected)]


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    found = next(filter(None, map(shutil.which, CHROMIUM_NAMES)), None)
    if found is None:
        pytest.fail("the console is tested in a real browser: run `make chromium`")
    expect.set_options(timeout=TIMEOUT_MS)
    with sync_playwright() as playwright:
        # Without its sandbox, which containers do not allow to the root user, and without drawing in software
        # what a graphics card would, which takes an eighth of all its time.
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def told_jobs() -> ToldJobs:
    return ToldJobs()


@pytest.fixture(scope="package")
def console(told_jobs: ToldJobs) -> Iterator[ServedConsole]:
    served = ServedConsole(told_jobs)
    yield served
    served.stop()


@pytest.fixture
def jobs(told_jobs: ToldJobs) -> Iterator[ToldJobs]:
    """No jobs yet."""
    yield told_jobs
    told_jobs.forget_all()


@pytest.fixture
def watch(console: ServedConsole) -> Watch:
    return Watch(console.url)


@pytest.fixture(scope="package")
def context(browser: Browser, console: ServedConsole) -> Iterator[BrowserContext]:
    """One for all tests: another one costs half a second of CPU. What the page stores ends with its tab."""
    context = browser.new_context(viewport={"width": 1280, "height": 800}, base_url=console.url)
    context.set_default_timeout(TIMEOUT_MS)
    yield context
    context.close()


@pytest.fixture
def page(context: BrowserContext, watch: Watch, jobs: ToldJobs) -> Iterator[Page]:
    # After `jobs`, so that it is closed before they are gone.
    page = context.new_page()
    page.on("console", lambda said: said.type in ("error", "warning") and watch.problems.append(said.text))
    page.on("pageerror", lambda error: watch.problems.append(f"exception: {error}"))
    page.on("dialog", lambda dialog: watch.problems.append(f"dialog: {dialog.message}"))
    page.on(
        "request",
        lambda asked: asked.url.startswith(watch.origin) or watch.problems.append(f"request to {asked.url}"),
    )
    yield page
    page.close()
    assert watch.unexpected() == []
