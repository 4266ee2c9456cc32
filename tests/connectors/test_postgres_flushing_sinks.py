"""The upsert and the append sink of PostgreSQL: rows by key, and batches that are tried again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tidegate.common import Row
from tidegate.common.errors import ConfigurationError, UserCodeError
from tidegate.datastream.connectors.postgres import (
    PostgresAppendSink,
    PostgresConnectorError,
    PostgresUpsertSink,
)
from tidegate.operators.base import OperatorContext
from tidegate.operators.output import Output
from tidegate.operators.sinks import SinkOperator
from tidegate.protocol.elements import Batch, CheckpointBarrier
from tidegate.protocol.ids import CheckpointId

MakeContext = Callable[..., OperatorContext]


@pytest.fixture
def totals(database: Any) -> Any:
    database.query("CREATE TABLE totals (shop text, day int, total float8, PRIMARY KEY (day, shop))")
    return database


def opened(sink: Any, context: OperatorContext) -> SinkOperator:
    operator = SinkOperator(sink)
    operator.setup(context, Output())
    operator.open()
    return operator


def checkpoint(operator: SinkOperator) -> None:
    operator.prepare_snapshot(CheckpointBarrier(CheckpointId(1), 0))


def rows(database: Any) -> list[Any]:
    found: list[Any] = database.query("SELECT * FROM totals ORDER BY totals")
    return found


def test_the_last_record_of_a_key_stays_whatever_was_there_and_whatever_comes_again(
    totals: Any, operator_context: MakeContext
) -> None:
    totals.query("INSERT INTO totals VALUES ('a', 1, -1), ('kept', 1, 0)")
    operator = opened(PostgresUpsertSink(totals.conninfo, "totals", ["shop", "day"]), operator_context())
    for values in ([("a", 1, 1.0), ("a", 2, 2.0), ("a", 1, 3.0)], [{"total": 4, "day": 1, "shop": "b"}]) * 2:
        operator.process_batch(Batch(values), 0)
        operator.process_batch(Batch([Row(shop="b", day=1, total=5.0)]), 0)
        checkpoint(operator)
    operator.close()
    assert rows(totals) == [("a", 1, 3.0), ("a", 2, 2.0), ("b", 1, 5.0), ("kept", 1, 0.0)]


def test_a_table_of_keys_alone_keeps_each_once(database: Any, operator_context: MakeContext) -> None:
    database.query("CREATE TABLE totals (shop text UNIQUE)")
    operator = opened(PostgresUpsertSink(database.conninfo, "totals", "shop"), operator_context())
    for _ in range(2):
        operator.process_batch(Batch([("a",), ("b",), ("a",)]), 0)
        checkpoint(operator)
    operator.close()
    assert rows(database) == [("a",), ("b",)]


@pytest.mark.parametrize("kind", ["append", "upsert"])
def test_rows_are_written_when_a_batch_is_full_when_they_are_old_and_at_a_barrier(
    totals: Any, operator_context: MakeContext, kind: str
) -> None:
    now = [0]
    context = operator_context(now_ms=lambda: now[0])
    if kind == "append":
        sink: Any = PostgresAppendSink(totals.conninfo, "totals", batch_rows=3, flush_interval_ms=100)
    else:
        sink = PostgresUpsertSink(
            totals.conninfo, "totals", ["day", "shop"], batch_rows=3, flush_interval_ms=100
        )
    operator = opened(sink, context)
    operator.process_batch(Batch([("a", day, 0.0) for day in range(7)]), 0)
    assert len(rows(totals)) == 6
    now[0] += 99
    context.processing_time.run_due()
    assert len(rows(totals)) == 6
    now[0] += 1
    context.processing_time.run_due()
    assert len(rows(totals)) == 7
    operator.process_batch(Batch([("b", 0, 0.0)]), 0)
    assert len(rows(totals)) == 7
    checkpoint(operator)
    assert len(rows(totals)) == 8
    operator.close()


@pytest.mark.parametrize("kind", ["append", "upsert"])
def test_a_server_that_comes_back_gets_the_batch_again(
    totals: Any, operator_context: MakeContext, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    sink: Any = PostgresAppendSink(totals.conninfo, "totals")
    if kind == "upsert":
        sink = PostgresUpsertSink(totals.conninfo, "totals", ["shop", "day"])
    operator = opened(sink, operator_context())
    operator.process_batch(Batch([("a", 1, 1.0)]), 0)
    totals.server.crash()
    totals.server.start()
    operator.process_batch(Batch([("a", 2, 2.0)]), 0)
    checkpoint(operator)
    operator.close()
    assert rows(totals) == [("a", 1, 1.0), ("a", 2, 2.0)]
    assert "writing table totals failed" in caplog.text


def test_a_server_that_stays_away_is_one_clear_error_after_the_retry_timeout(
    totals: Any, operator_context: MakeContext
) -> None:
    operator = opened(PostgresAppendSink(totals.conninfo, "totals", retry_timeout_s=0.3), operator_context())
    operator.process_batch(Batch([("a", 1, 1.0)]), 0)
    totals.server.crash()
    try:
        with pytest.raises(
            PostgresConnectorError, match=r"numbers \(1/1\): writing table totals failed for 0\.3 sec"
        ) as raised:
            checkpoint(operator)
    finally:
        totals.server.start()
    assert "password" not in str(raised.value)
    operator.close()


def test_an_upsert_without_a_unique_index_on_its_key_is_an_error_before_the_job(totals: Any) -> None:
    sink = PostgresUpsertSink(totals.conninfo, "totals", ["shop"])
    with pytest.raises(ConfigurationError, match=r"exactly \(shop\).*its unique indexes: \(shop, day\)"):
        sink.validate()
    PostgresUpsertSink(totals.conninfo, "totals", ["shop", "day"]).validate()


def test_a_record_that_does_not_fit_is_shown_and_not_tried_again(
    totals: Any, operator_context: MakeContext
) -> None:
    operator = opened(PostgresUpsertSink(totals.conninfo, "totals", ["shop", "day"]), operator_context())
    with pytest.raises(
        UserCodeError, match=r"numbers \(1/1\): the record \('a',\) does not fit table totals"
    ):
        operator.process_batch(Batch([("a",)]), 0)
    operator.process_batch(Batch([("a", "no day", 1.0)]), 0)
    with pytest.raises(UserCodeError, match=r"the record \('a', 'no day', 1\.0\) does not fit.*no day"):
        checkpoint(operator)
    operator.close()
