"""The PostgreSQL source reads every row once, in ranges that move, after failures of job and server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tidegate.common import WatermarkStrategy
from tidegate.common.errors import ConfigurationError, JobExecutionError
from tidegate.datastream import MapFunction, StreamExecutionEnvironment
from tidegate.datastream.connectors.postgres import PostgresSource
from tidegate.operators.base import OperatorContext

MakeContext = Callable[..., OperatorContext]
MakeEnv = Callable[..., StreamExecutionEnvironment]


@pytest.fixture
def events(database: Any) -> Any:
    """250 rows; the keys of `at` are not unique, those of `name` are texts."""
    database.query("CREATE TABLE events (id bigint PRIMARY KEY, at int, name text)")
    database.query("INSERT INTO events SELECT n, n / 7, 'n' || n FROM generate_series(1, 250) AS n")
    return database


def collected(env: StreamExecutionEnvironment, source: PostgresSource) -> list[Any]:
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "events").uid("events")
    return sorted(stream.execute_and_collect())


ROWS = [(number, number // 7, f"n{number}") for number in range(1, 251)]


@pytest.mark.parametrize("key", ["id", "at", "name"])
@pytest.mark.parametrize("fetch_rows", [3, 100])
def test_every_row_is_read_once_by_keys_of_any_type(
    events: Any, local_env: MakeEnv, key: str, fetch_rows: int
) -> None:
    source = PostgresSource(events.conninfo, "events", key, fetch_rows=fetch_rows)
    assert collected(local_env(parallelism=2), source) == ROWS


def test_a_query_is_read_too_and_an_empty_one_ends(events: Any, local_env: MakeEnv) -> None:
    query = "SELECT id, upper(name) AS name FROM events WHERE id > 240;"
    assert collected(local_env(), PostgresSource(events.conninfo, query, "id", partitions=3)) == [
        (number, f"N{number}") for number in range(241, 251)
    ]
    none = PostgresSource(events.conninfo, "SELECT * FROM events WHERE false", "id")
    assert collected(local_env(), none) == []


@pytest.mark.parametrize("key", ["id", "at"])
@pytest.mark.parametrize("polls", [0, 1, 2, 5, 20])
def test_a_restored_reader_goes_on_exactly_where_the_snapshot_was_taken(
    events: Any, operator_context: MakeContext, key: str, polls: int
) -> None:
    source = PostgresSource(events.conninfo, "events", key, fetch_rows=20)
    whole = source_splits(source)
    seen: list[Any] = []
    first = reader(source, operator_context(), whole)
    for _ in range(polls):
        batch = first.poll(1_000)
        seen += [] if batch is None else batch.values
    left = first.snapshot_state()
    first.poll(1_000)  # a snapshot does not move with the reader
    first.close()
    second = reader(source, operator_context(), left)
    while (batch := second.poll(1_000)) is not None:
        seen += batch.values
    second.close()
    assert seen == ROWS


def source_splits(source: PostgresSource) -> list[Any]:
    """One split of everything, as the enumerator gives it."""
    given: list[Any] = []
    ended: list[int] = []

    class Context:
        def current_parallelism(self) -> int:
            return 1

        def call_async(self, call: Any, handler: Any, *_: Any) -> None:
            handler(call(), None)

        def assign_split(self, split: Any, subtask_id: int) -> None:
            given.append(split)

        def signal_no_more_splits(self, subtask_id: int) -> None:
            ended.append(subtask_id)

    enumerator = source.create_enumerator(Context())  # type: ignore[arg-type]
    enumerator.start()
    while not ended:
        enumerator.handle_split_request(0)
    return given


def reader(source: PostgresSource, context: OperatorContext, splits: list[Any]) -> Any:
    made = source.create_reader([])
    made.open(context)
    made.add_splits(splits)
    return made


def test_a_server_that_restarts_between_two_fetches_is_asked_again(
    events: Any, operator_context: MakeContext
) -> None:
    source = PostgresSource(events.conninfo, "events", "at", fetch_rows=20)
    reading = reader(source, operator_context(), source_splits(source))
    seen = reading.poll(1_000).values
    events.server.crash()
    events.server.start()
    while (batch := reading.poll(1_000)) is not None:
        seen += batch.values
    reading.close()
    assert seen == ROWS


CRASHES: list[int] = []


class FailsOnce(MapFunction):
    def map(self, value: Any) -> Any:
        if value[0] == 200 and CRASHES:
            CRASHES.pop()
            raise RuntimeError("injected")
        return value


def test_a_job_that_fails_reads_every_row_once(events: Any, local_env: MakeEnv) -> None:
    CRASHES.append(1)
    source = PostgresSource(events.conninfo, "events", "id", fetch_rows=10)
    stream = local_env(parallelism=2).from_source(source, WatermarkStrategy.no_watermarks(), "events")
    assert sorted(stream.map(FailsOnce()).execute_and_collect()) == ROWS
    assert CRASHES == []


def test_what_cannot_be_read_is_an_error_before_the_job_starts(events: Any, local_env: MakeEnv) -> None:
    with pytest.raises(ConfigurationError, match=r"cannot read column nr of .*events.*nr.*does not exist"):
        collected(local_env(), PostgresSource(events.conninfo, "events", "nr"))
    with pytest.raises(ConfigurationError, match=r"no_events.*does not exist; create the table"):
        collected(local_env(), PostgresSource(events.conninfo, "no_events", "id"))


def test_null_keys_are_one_clear_error(events: Any, local_env: MakeEnv) -> None:
    events.query("UPDATE events SET at = NULL WHERE id = 7")
    env = local_env(**{"restart-strategy.type": "none"})
    with pytest.raises(JobExecutionError, match=r"column at of .* has nulls.*IS NOT NULL"):
        collected(env, PostgresSource(events.conninfo, "events", "at"))
