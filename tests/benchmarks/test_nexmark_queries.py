"""Every Nexmark program gives the answer that DuckDB gives for the same events."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tidegate.benchmarks.expected import WrongResultError
from tidegate.benchmarks.nexmark import answers, generator
from tidegate.benchmarks.nexmark.cases import ON_COLUMNS, QUERIES, translated
from tidegate.benchmarks.nexmark.columns import q12 as columns
from tidegate.benchmarks.nexmark.queries import q12 as queries
from tidegate.common import Configuration, WatermarkStrategy
from tidegate.datastream import SinkFunction, Source, SourceReader, StreamExecutionEnvironment
from tidegate.protocol.elements import Batch

NEXMARK = "tidegate.benchmarks.nexmark"
# A minute of event time around midnight, so that windows, sessions and days end within it.
CONFIG = generator.Config(6_000, rate=100, base_time_ms=1_437_004_770_000)


@pytest.fixture(scope="module")
def batches() -> list[pa.RecordBatch]:
    return list(generator.batches(CONFIG))


@pytest.fixture(scope="module")
def events(batches: list[pa.RecordBatch]) -> list[Any]:
    return [event for batch in batches for event in generator.records(batch)]


@pytest.fixture(scope="module")
def right(batches: list[pa.RecordBatch]) -> answers.Answers:
    return answers.Answers(batches)


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    configuration = Configuration()
    configuration.set_string("execution.target", "local")
    return StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(1)


@pytest.mark.parametrize("query", [query for query in QUERIES if query != "q12"])
def test_a_program_for_records_gives_the_answer(
    env: StreamExecutionEnvironment, events: list[Any], right: answers.Answers, query: str
) -> None:
    program = getattr(import_module(f"{NEXMARK}.queries.{query}"), query)
    results = list(program(env.from_collection(events)).execute_and_collect())
    assert results
    right.check(query, results)


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("query", [query for query in ON_COLUMNS if query != "q12"])
def test_a_program_for_columns_gives_the_answer(
    env: StreamExecutionEnvironment,
    batches: list[pa.RecordBatch],
    right: answers.Answers,
    query: str,
    parallelism: int,
) -> None:
    program = getattr(import_module(f"{NEXMARK}.columns.{query}"), query)
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    source = env.from_arrow(batches, "date_time", strategy, batch_rows=1_000).set_parallelism(1)
    env.set_parallelism(parallelism)
    results = list(program(source).execute_and_collect())
    assert results
    right.check(query, results)


class Lasting(Source):
    """Batches, and no end until a number of bids was counted."""

    bids: int

    def __init__(self, batches: list[Batch]) -> None:
        self.batches = batches

    def create_splits(self, parallelism: int) -> list[Any]:
        return [0]

    def create_reader(self, splits: list[Any]) -> SourceReader:
        return LastingReader(self.batches, splits[0])


class LastingReader(SourceReader):
    def __init__(self, batches: list[Batch], position: int) -> None:
        self.batches = batches
        self.position = position

    def poll(self, max_records: int) -> Batch | None:
        if self.position == len(self.batches):
            return None if sum(row[1] for row in Counted.rows) == Lasting.bids else Batch([])
        self.position += 1
        return self.batches[self.position - 1]

    def snapshot_state(self) -> list[Any]:
        return [self.position]


class Counted(SinkFunction):
    rows: list[Any]

    def invoke(self, value: Any) -> None:
        Counted.rows.append(value)


@pytest.mark.parametrize("form", ["records", "columns"])
def test_windows_by_the_clock_hold_all_bids_together(
    env: StreamExecutionEnvironment, batches: list[pa.RecordBatch], right: answers.Answers, form: str
) -> None:
    parts = [batch.slice(first, 1_000) for batch in batches for first in range(0, len(batch), 1_000)]
    is_columns = form == "columns"
    source = Lasting([Batch(part if is_columns else generator.records(part)) for part in parts])
    Lasting.bids = sum(count for _, count in right.to("q12"))
    Counted.rows = []
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "events")
    if is_columns:
        stream = stream.to_columns(generator.EVENT_SCHEMA)
    program = columns.q12 if is_columns else queries.q12
    program(stream, size_ms=50).add_sink(Counted())
    env.execute()
    right.check("q12", Counted.rows)
    assert all(end - start == 50 and start % 50 == 0 for _, _, start, end in Counted.rows)


@pytest.mark.parametrize("form", ["queries", "columns"])
def test_bids_ten_seconds_apart_are_one_session(env: StreamExecutionEnvironment, form: str) -> None:
    rows = [bid_at(time) for time in (0, 10_000, 20_001)]
    batch = pa.RecordBatch.from_pylist(rows, generator.EVENT_SCHEMA)
    if form == "queries":
        stream = env.from_collection(generator.records(batch))
    else:
        strategy = WatermarkStrategy.for_monotonous_timestamps()
        stream = env.from_arrow(batch, "date_time", strategy)
    program = import_module(f"{NEXMARK}.{form}.q11").q11
    results = list(program(stream).execute_and_collect())
    assert sorted(results) == [(7, 1, 20_001, 30_001), (7, 2, 0, 20_000)]
    answers.Answers([batch]).check("q11", results)


def bid_at(time_ms: int) -> dict[str, Any]:
    bid = {"auction": 1, "bidder": 7, "price": 1, "channel": "", "url": "", "extra": ""}
    return {"kind": generator.BID, "bid": {**bid, "date_time": time_ms}, "date_time": time_ms}


def test_the_check_finds_a_row_that_is_missing_doubled_or_wrong(right: answers.Answers) -> None:
    rows = right.to("q2")
    right.check("q2", reversed(rows))
    for wrong in (rows[1:], [*rows, rows[0]], [(rows[0][0], rows[0][1] + 1), *rows[1:]]):
        with pytest.raises(WrongResultError, match="q2: "):
            right.check("q2", wrong)


def test_pyflink_runs_the_same_programs_but_for_their_imports(tmp_path: Path) -> None:
    ours = Path(generator.__file__).parent / "queries"
    for path in (translated(tmp_path) / "nexmark_queries").glob("*.py"):
        assert "tidegate" not in path.read_text().partition('"""\n\n')[2]
        assert _without_imports(path) == _without_imports(ours / path.name)


def test_every_query_has_an_answer() -> None:
    assert set(QUERIES) == set(answers.SQL)


def _without_imports(path: Path) -> str:
    body = ast.parse(path.read_text()).body
    return "\n".join(ast.dump(node) for node in body if not isinstance(node, ast.ImportFrom))
