"""Records go to Spark's executors and results come back with the same types, without Spark's driver."""

from __future__ import annotations

import datetime as dt
import gc
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from tidegate.spark_bridge.exchange import exchange_frames as exchange
from tidegate.spark_bridge.exchange.exchange_server import ExchangeServer, Run

from . import jobs

pytestmark = pytest.mark.spark

PLENTY = 1 << 30


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ExchangeServer]:
    made = ExchangeServer("operator join (1/1)", lambda: None, str(tmp_path))
    yield made
    made.close()


def results(frame: Any, run: Run, schema: pa.Schema) -> pa.Table:
    return run.results(exchange.push(frame, schema, [run.endpoint]), schema)


def there_and_back(session: Any, server: ExchangeServer, table: pa.Table, memory_bytes: int) -> pa.Table:
    run = server.serve(table, 2, memory_bytes)
    frame = exchange.input_frame(session, [run.endpoint])
    found = results(frame, run, exchange.arrow_schema_of(frame))
    run.close()
    return found


@pytest.mark.parametrize("memory_bytes", [PLENTY, 0], ids=["memory", "disk"])
def test_types_and_nulls_are_the_same_on_both_ways(
    spark_session: Any, server: ExchangeServer, tmp_path: Path, memory_bytes: int
) -> None:
    instants = [0, None, -1_000]
    table = pa.table(
        {
            "whole": pa.array([2**62 + 1, None, 0]),
            "small": pa.array([-7, None, 0], pa.int8()),
            "amount": pa.array([Decimal("-1.20"), None, Decimal(0)], pa.decimal128(12, 2)),
            "day": pa.array([dt.date(1969, 7, 20), None, dt.date(1, 1, 1)]),
            "at": pa.array(instants, pa.timestamp("us", "UTC")),
            "raw": pa.array([b"\x00\xff", None, b""]),
            "parts": pa.array([[1, None], None, []], pa.list_(pa.int64())),
            "pair": pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": None}]),
            "by_name": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int64())),
            "with.dot": pa.array(["é\n", None, ""]),
        }
    )
    found = there_and_back(spark_session, server, table, memory_bytes)
    assert found.to_pylist() == table.to_pylist()
    assert found.schema.names == table.schema.names
    assert [field.type for field in found.schema][:6] == [field.type for field in table.schema][:6]
    assert list(tmp_path.iterdir()) == []


def test_arrow_layouts_that_spark_does_not_read_are_plain_afterwards(
    spark_session: Any, server: ExchangeServer
) -> None:
    words = pa.array(["a", None, "b", "a"])
    instants = pa.array([0, None, 1_000, -1_000], pa.timestamp("ns"))
    chunks = pa.chunked_array([words.slice(0, 1), words.slice(1)])
    table = pa.table(
        {"word": chunks.dictionary_encode(), "large": words.cast(pa.large_string()), "at": instants}
    )
    plain = pa.table({"word": words, "large": words, "at": instants.cast(pa.timestamp("us"))})
    found = there_and_back(spark_session, server, table, PLENTY)
    assert found.cast(plain.schema) == plain


def test_a_function_fills_a_segment_of_the_loopback_device() -> None:
    # A smaller one would wait for the acknowledgement of what Spark sends first.
    segment = int(Path("/sys/class/net/lo/mtu").read_text())
    assert len(cloudpickle.dumps(exchange.travelling(exchange.packing()))) > segment


def test_the_collection_after_a_task_skips_what_its_worker_has_imported(spark_session: Any) -> None:
    def frozen(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from (pa.record_batch({"objects": [gc.get_freeze_count()]}) for _ in batches)

    rows = spark_session.range(1).mapInArrow(exchange.travelling(frozen), "objects long").collect()
    assert rows[0].objects > 1_000


def test_results_are_converted_to_the_declared_types(spark_session: Any, server: ExchangeServer) -> None:
    run = server.serve(pa.table({"id": [1]}), 1, PLENTY)
    frame = spark_session.range(3).selectExpr("id", "timestamp_micros(id) as at")
    schema = pa.schema([("id", pa.int16()), ("at", pa.timestamp("ns"))])
    found = results(frame, run, schema)
    assert found == pa.table({"id": [0, 1, 2], "at": [0, 1_000, 2_000]}, schema)


def test_columns_may_have_the_same_name(spark_session: Any, server: ExchangeServer) -> None:
    run = server.serve(pa.table({"id": [1]}), 1, PLENTY)
    frame = spark_session.range(2).selectExpr("id as n", "id + 1 as n")
    schema = exchange.arrow_schema_of(frame)
    assert results(frame, run, schema).columns[1].to_pylist() == [1, 2]


def test_a_table_without_rows_keeps_its_columns(spark_session: Any, server: ExchangeServer) -> None:
    table = pa.schema([("id", pa.int64()), ("name", pa.string())]).empty_table()
    assert there_and_back(spark_session, server, table, PLENTY) == table


def test_results_keep_the_order_of_the_partitions(spark_session: Any, server: ExchangeServer) -> None:
    numbers = pa.table({"id": range(30_000)})
    run = server.serve(numbers, 7, 100_000)
    frame = exchange.input_frame(spark_session, [run.endpoint])
    assert frame.rdd.getNumPartitions() == 7
    assert results(frame, run, numbers.schema) == numbers


def test_records_of_two_subtasks_are_one_dataframe_and_results_are_spread(
    spark_session: Any, server: ExchangeServer, tmp_path: Path
) -> None:
    other = ExchangeServer("operator join (2/2)", lambda: None, str(tmp_path))
    runs = [
        server.serve(pa.table({"id": range(10)}), 2, PLENTY),
        other.serve(pa.table({"id": pa.array(range(10, 20), pa.int32())}), 2, PLENTY),
    ]
    ends = [run.endpoint for run in runs]
    schema = pa.schema([("id", pa.int64())])
    pushed = exchange.push(exchange.input_frame(spark_session, ends), schema, ends)
    halves = [
        run.results([each for each in pushed if each.target == index], schema)
        for index, run in enumerate(runs)
    ]
    assert [half.num_rows for half in halves] == [10, 10]
    assert sorted(pa.concat_tables(halves)["id"].to_pylist()) == list(range(20))
    other.close()


def test_a_type_that_spark_does_not_have_is_refused_by_its_column(
    spark_session: Any, server: ExchangeServer
) -> None:
    run = server.serve(pa.table({"id": [1], "size": pa.array([1], pa.uint64())}), 1, PLENTY)
    with pytest.raises(TypeError, match=r"\(id: int64, size: uint64\).*input_schema"):
        exchange.input_frame(spark_session, [run.endpoint])


def test_a_dataframe_of_an_epoch_that_ended_names_the_reason(
    spark_session: Any, server: ExchangeServer
) -> None:
    run = server.serve(pa.table({"id": [1]}), 1, PLENTY)
    frame = exchange.input_frame(spark_session, [run.endpoint])
    run.close()
    with pytest.raises(Exception, match="not there any more") as raised:
        frame.collect()
    failed = exchange.exchange_error(raised.value)
    assert str(failed).startswith("operator join (1/1): the records of this epoch are not there any more")


def test_results_of_a_task_that_failed_do_not_count(
    spark_session: Any, server: ExchangeServer, tmp_path: Path
) -> None:
    """Half of the rows are pushed and the task fails; on the local target Spark does not repeat it."""
    marker = tmp_path / "failed"
    run = server.serve(pa.table({"id": [1]}), 1, PLENTY)

    def fails_once(batches: Iterator[Any]) -> Iterator[Any]:
        for number, batch in enumerate(batches):
            if number == 1 and not marker.exists():
                marker.touch()
                raise RuntimeError("the first task fails")
            yield batch

    frame = spark_session.range(0, 30_000, 1, 1).mapInArrow(fails_once, "id long")
    with pytest.raises(Exception, match="the first task fails"):
        exchange.push(frame, jobs.NUMBERS, [run.endpoint])
    assert results(frame, run, jobs.NUMBERS)["id"].to_pylist() == list(range(30_000))


def test_the_key_of_a_run_is_in_no_plan_and_no_description(
    spark_session: Any, server: ExchangeServer
) -> None:
    run = server.serve(pa.table({"id": [1]}), 1, PLENTY)
    frame = exchange.input_frame(spark_session, [run.endpoint])
    plan = frame._jdf.queryExecution().toString()
    assert "MapInArrow" in plan
    for shown in (plan, repr(run.endpoint), str(spark_session.sparkContext.getConf().getAll())):
        assert run.endpoint.key.hex() not in shown
        assert str(run.endpoint.key) not in shown
