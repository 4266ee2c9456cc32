"""The console over a job that really runs, in this process: figures, state, savepoint, stop."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from tidegate.common import Configuration, JobStatus, Types, WatermarkStrategy
from tidegate.connectors.data_generator import DataGeneratorSource
from tidegate.coordinator.control.job_client import JobClient
from tidegate.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from tidegate.datastream.state import ListStateDescriptor, ValueStateDescriptor
from tidegate.state import read_snapshot

from tests.console.web.serving import TOKEN, ToldJobs

WAIT_S = 120


class Totals(KeyedProcessFunction):
    """A typed state and a pickled one."""

    def open(self, runtime_context: Any) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))
        self.last = runtime_context.get_list_state(ListStateDescriptor("last", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, value: int, ctx: Any) -> Iterator[int]:
        total = (self.total.value() or 0) + value
        self.total.update(total)
        self.last.update([{"value": value}])
        yield total


@pytest.fixture
def client(tmp_path: Path, jobs: ToldJobs) -> Iterator[JobClient]:
    configuration = Configuration()
    for name, value in {
        "execution.target": "local",
        "tidegate.local-dir": str(tmp_path / "local"),
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        "execution.checkpointing.savepoint-dir": str(tmp_path / "savepoints"),
        "execution.checkpointing.interval": "500 ms",
    }.items():
        configuration.set_string(name, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(2)
    source = DataGeneratorSource(lambda number: number, 10**12, records_per_second=2_000)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "Numbers").uid("numbers")
    keyed = numbers.key_by(lambda number: number % 5, key_type=Types.LONG())
    keyed.process(Totals()).name("Totals").uid("totals").add_sink(lambda total: None).name("Nowhere").uid(
        "sink"
    )
    client = env.execute_async("sums")
    jobs.add(client)
    yield client
    client.cancel()
    client.wait(WAIT_S)


def records_in(text: str) -> int:
    """Of `1,234 · 1,234`."""
    return int(text.split(" ")[0].replace(",", ""))


def test_the_graph_shows_figures_that_grow(page: Page, client: JobClient) -> None:
    page.goto(f"/#/jobs/{client.get_job_id()}")
    expect(page.locator(".node")).to_have_count(2)
    page.locator(".node").filter(has_text="Totals").click()
    totals = page.get_by_role("region", name="Task").locator(".fact").filter(has_text="so far").locator("dd")
    expect(totals).to_have_text(re.compile("^[1-9]"))
    first = totals.inner_text()
    expect(totals).not_to_have_text(first)
    assert records_in(totals.inner_text()) > records_in(first)
    expect(page.locator(".node").filter(has_text="Totals")).to_contain_text(re.compile("in [1-9]"))


def test_the_state_of_the_last_checkpoint_can_be_looked_through(page: Page, client: JobClient) -> None:
    while not all(client.query_state("totals", "total", key, consistency="live") for key in range(5)):
        assert client.wait(0.05) is not JobStatus.FAILED, client.report().cause
    client.trigger_checkpoint()
    page.goto(f"/#/jobs/{client.get_job_id()}/state")
    totals = page.get_by_role("region", name="State of Totals")
    row = totals.get_by_role("row").filter(has=page.get_by_role("cell", name="total", exact=True))
    expect(row).to_contain_text("value")
    expect(totals.get_by_role("columnheader", name="Stored rows")).to_be_visible()
    expect(totals).to_contain_text("They include overwritten and removed ones")
    row.get_by_role("button", name="Entries").click()
    entries = totals.locator(".entries tbody tr")
    expect(entries).to_have_count(5)
    expect(entries.first.get_by_role("cell").first).to_have_text(re.compile("^[0-4]$"))
    pickled = totals.get_by_role("row").filter(has=page.get_by_role("cell", name="last", exact=True))
    pickled.get_by_role("button", name="Entries").click()
    expect(totals.get_by_text(re.compile("pickled, .*, not opened")).first).to_be_visible()


def test_a_savepoint_and_a_stop_from_the_page(page: Page, client: JobClient) -> None:
    page.goto(f"/#token={TOKEN}")
    page.get_by_role("link", name="sums").click()
    page.get_by_role("button", name="Savepoint…").click()
    page.get_by_role("button", name="Take the savepoint").click()
    written = page.get_by_role("status").locator("code")
    expect(written).to_have_count(1)
    assert set(read_snapshot(written.inner_text()).operators) == {"numbers", "totals", "sink"}
    page.get_by_role("button", name="Stop…").click()
    page.get_by_role("button", name="Stop the job").click()
    expect(page.get_by_role("region", name="Job", exact=True)).to_contain_text("finished")
    expect(written).to_have_count(2)
    assert client.wait(WAIT_S) is JobStatus.FINISHED
    assert client.report().stopped_with == written.nth(1).inner_text()
