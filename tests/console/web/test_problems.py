"""A server that goes, a job that goes, a token that is wrong: what the page says then."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, Page, expect
from tidegate.console.rest.tokens import ConsoleSecret

from tests.console.web.conftest import Watch
from tests.console.web.serving import TOKEN, ServedConsole, ToldJobs, with_rates
from tests.fake_jobs import fake_job

JOB = f"#/jobs/{1:032x}"


@pytest.fixture
def own_console(jobs: ToldJobs) -> Iterator[ServedConsole]:
    """One that a test may stop."""
    served = ServedConsole(jobs)
    yield served
    served.stop()


def test_a_server_that_is_gone_leaves_the_last_figures_and_is_asked_again(
    browser: Browser, jobs: ToldJobs, own_console: ServedConsole
) -> None:
    job = fake_job(1)
    jobs.tell(with_rates(job, records_in=1_500.0))
    page = browser.new_page(base_url=own_console.url)
    page.goto(f"/{JOB}")
    box = page.locator(".node").nth(1)
    expect(box).to_contain_text("in 3,000/s")
    own_console.stop()
    banner = page.get_by_role("alert")
    expect(banner).to_contain_text("The server of this console is gone")
    expect(banner).to_contain_text("What is shown is from")
    expect(box).to_contain_text("in 3,000/s")
    expect(page.locator("body")).to_have_class("stale")
    jobs.tell(with_rates(job, records_in=2_500.0))
    own_console.start()
    page.get_by_role("button", name="Try now").click()
    expect(box).to_contain_text("in 5,000/s")
    expect(banner).to_be_empty()
    expect(page.locator("body")).not_to_have_class("stale")
    page.close()


def test_waits_between_two_tries_grow_up_to_a_bound(page: Page) -> None:
    page.goto("/")
    expect(page.get_by_role("heading", name="No job yet")).to_be_visible()
    waits = page.evaluate(
        "import('/js/connection.js').then(module => [1, 2, 3, 4, 5, 50].map(module.backOffMs))"
    )
    assert waits == [1_000, 2_000, 4_000, 8_000, 15_000, 15_000]


def test_a_job_that_is_gone_is_said_to_be_gone(page: Page, jobs: ToldJobs, watch: Watch) -> None:
    watch.expected.append("404")
    jobs.tell(fake_job(1))
    page.goto(f"/{JOB}")
    expect(page.locator(".node")).to_have_count(4)
    jobs.forget(f"{1:032x}")
    expect(page.get_by_role("heading", name="The job is gone")).to_be_visible()
    page.get_by_role("link", name="All jobs", exact=True).click()
    expect(page.get_by_role("heading", name="No job yet")).to_be_visible()


def test_a_damaged_archive_says_so_on_its_page(page: Page, jobs: ToldJobs, watch: Watch) -> None:
    watch.expected.append("503")
    jobs.tell_of_damaged(f"{1:032x}", "the archive is damaged: its checksum does not fit")
    page.goto(f"/{JOB}")
    expect(page.get_by_text("its checksum does not fit")).to_be_visible()
    expect(page.get_by_role("alert")).to_be_empty()


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Callable[[ServedConsole], Page]]:
    """Opens pages of consoles of a test's own, and closes them."""
    pages: list[Page] = []

    def opened(console: ServedConsole) -> Page:
        pages.append(browser.new_page(base_url=console.url))
        return pages[-1]

    yield opened
    for page in pages:
        page.close()


def test_a_console_beyond_this_machine_shows_nothing_without_its_token(
    jobs: ToldJobs, open_page: Callable[[ServedConsole], Page]
) -> None:
    jobs.tell(fake_job(1))
    console = ServedConsole(jobs, host="0.0.0.0")
    page = open_page(console)
    page.goto(f"/{JOB}")
    expect(page.get_by_role("heading", name="This console needs a token")).to_be_visible()
    page.get_by_label("Token").fill("wrong, and longer than 16 characters")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="The token is not accepted")).to_be_visible()
    expect(page.get_by_text("the token is wrong")).to_be_visible()
    page.get_by_label("Token").fill(ConsoleSecret(TOKEN).token_until(1_000))
    page.keyboard.press("Enter")
    expect(page.get_by_text("the token has expired")).to_be_visible()
    page.get_by_label("Token").fill(TOKEN)
    page.keyboard.press("Enter")
    expect(page.locator(".node")).to_have_count(4)
    console.stop()


def test_a_console_without_a_token_of_its_own_only_shows(
    jobs: ToldJobs, open_page: Callable[[ServedConsole], Page]
) -> None:
    jobs.tell(fake_job(1))
    console = ServedConsole(jobs, secret=None)
    page = open_page(console)
    page.goto(f"/{JOB}")
    expect(page.get_by_text("This console only shows: it was started without a token.")).to_be_visible()
    for button in page.get_by_role("group", name="Actions").get_by_role("button").all():
        expect(button).to_have_attribute("aria-disabled", "true")
    console.stop()


def test_an_action_with_a_wrong_token_says_so_and_can_be_done_with_another(
    page: Page, jobs: ToldJobs, watch: Watch
) -> None:
    watch.expected.append("401")
    jobs.tell(fake_job(1))
    page.goto("/#token=wrong-and-longer-than-16-characters")
    page.get_by_role("link", name="job 1").click()
    page.get_by_role("button", name="Checkpoint now").click()
    expect(page.get_by_text("Checkpoint failed: the token is wrong")).to_be_visible()
    assert jobs.asked(1) == []
    page.get_by_role("dialog").get_by_label("Token").fill(TOKEN)
    page.keyboard.press("Enter")
    expect(page.get_by_text("is complete")).to_be_visible()


def test_an_action_without_a_token_asks_for_it(page: Page, jobs: ToldJobs) -> None:
    jobs.tell(fake_job(1))
    page.goto(f"/{JOB}")
    page.get_by_role("button", name="Checkpoint now").click()
    dialog = page.get_by_role("dialog", name="Token")
    expect(dialog).to_contain_text("Actions need the console's token.")
    expect(dialog.get_by_label("Token")).to_be_focused()
    dialog.get_by_label("Token").fill(TOKEN)
    page.keyboard.press("Enter")
    expect(page.get_by_text("is complete")).to_be_visible()
