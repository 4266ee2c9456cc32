"""Columns through the public API, from Arrow data to results, on the local target."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tidegate.common import Types, WatermarkStrategy
from tidegate.common.errors import ConfigurationError, JobExecutionError
from tidegate.common.time import Time
from tidegate.datastream import (
    AggregateFunction,
    Count,
    DataStream,
    HashMapStateBackend,
    KeyedBatchFunction,
    KeyedProcessFunction,
    LmdbStateBackend,
    Max,
    Mean,
    Min,
    OutputTag,
    ProcessWindowFunction,
    RuntimeContext,
    StreamOperator,
    Sum,
)
from tidegate.datastream.state import ValueStateDescriptor
from tidegate.datastream.window import SlidingEventTimeWindows, TumblingEventTimeWindows

from .jobs import HeldSource, environment

TABLE = pa.table({"k": ["a", "b", "a", "c", "b", "a"], "v": [1, 2, 3, 4, 5, 6]})


def collect(stream: DataStream) -> list[Any]:
    return list(stream.execute_and_collect())


def failure(stream: DataStream) -> str:
    with pytest.raises(JobExecutionError) as caught:
        collect(stream)
    return str(caught.value)


def double(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.record_batch({"k": batch["k"], "twice": pc.multiply(batch["v"], 2)})


TWICE = pa.schema({"k": pa.string(), "twice": pa.int64()})


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("data", [TABLE, TABLE.to_batches()[0], TABLE.to_batches(2)])
def test_arrow_data_becomes_a_stream_of_tuples_for_row_functions(data: Any, parallelism: int) -> None:
    stream = environment(parallelism=parallelism).from_arrow(data, batch_rows=2)
    expected = list(zip(*TABLE.to_pydict().values(), strict=True))
    assert sorted(collect(stream.map(lambda row: row))) == sorted(expected)


def test_an_empty_table_is_an_empty_stream() -> None:
    assert collect(environment().from_arrow(TABLE.slice(0, 0))) == []


def test_map_and_filter_see_whole_batches() -> None:
    sizes: list[int] = []

    def keep(batch: pa.RecordBatch) -> pa.Array:
        sizes.append(len(batch))
        return pc.greater(batch["twice"], 4)

    stream = environment().from_arrow(TABLE, batch_rows=4).map_batches(double, TWICE).filter_batches(keep)
    assert stream.columns == TWICE
    assert collect(stream) == [("a", 6), ("c", 8), ("b", 10), ("a", 12)]


SIZES = pa.schema({"kept": pa.int64(), "used": pa.int64()})


class Sizes(KeyedBatchFunction):
    """How much memory a batch keeps, and how much its records take."""

    def process_batch(self, batch: pa.RecordBatch, ctx: KeyedBatchFunction.Context) -> pa.RecordBatch:
        count = len(batch)
        kept, used = batch.get_total_buffer_size(), batch.nbytes
        return pa.record_batch({"kept": [kept] * count, "used": [used] * count}, schema=SIZES)


def test_a_part_of_a_batch_does_not_keep_the_memory_of_the_others() -> None:
    table = pa.table({"k": [f"key {number}" for number in range(100_000)]})
    found = collect(environment(parallelism=4).from_arrow(table).key_by("k").process_batches(Sizes(), SIZES))
    assert len(found) == 100_000
    assert all(kept <= 1.25 * used for kept, used in found)


def test_polars_frames_if_asked() -> None:
    stream = (
        environment()
        .from_arrow(TABLE)
        .map_batches(lambda frame: frame.with_columns(twice=frame["v"] * 2).drop("v"), TWICE, "polars")
        .filter_batches(lambda frame: frame["twice"] > 4, "polars")
    )
    assert collect(stream) == [("a", 6), ("c", 8), ("b", 10), ("a", 12)]


def test_python_records_become_columns_and_back() -> None:
    records = [("a", 1), {"k": "b", "v": 2}, ["c", 3]]
    stream = environment().from_collection(records).to_columns(TABLE.schema).map_batches(double, TWICE)
    assert collect(stream.map(lambda row: row)) == [("a", 2), ("b", 4), ("c", 6)]


class Total(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
        total = (self.total.value() or 0) + value[1]
        self.total.update(total)
        yield ctx.get_current_key(), total


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_row_functions_run_on_a_stream_keyed_by_a_column(parallelism: int) -> None:
    env = environment(parallelism=parallelism)
    results = collect(env.from_arrow(TABLE, batch_rows=1).set_parallelism(1).key_by("k").process(Total()))
    assert sorted(results) == [("a", 1), ("a", 4), ("a", 10), ("b", 2), ("b", 7), ("c", 4)]


def test_python_records_are_keyed_by_a_field() -> None:
    records = [{"k": "a", "v": 1}, {"k": "b", "v": 2}, {"k": "a", "v": 3}]
    stream = (
        environment()
        .from_collection(records)
        .key_by("k")
        .reduce(lambda left, right: {"k": left["k"], "v": left["v"] + right["v"]})
    )
    assert [record["v"] for record in collect(stream)] == [1, 2, 4]


def test_columns_and_row_functions_agree_while_checkpoints_are_taken(tmp_path: Path) -> None:
    table = pa.table({"k": [number % 7 for number in range(5_000)], "v": range(5_000)})
    env = environment(tmp_path)
    stream = env.from_arrow(table, batch_rows=100).key_by("k").process(Total()).uid("total")
    last: dict[int, int] = dict(collect(stream))
    assert last == {key: sum(range(key, 5_000, 7)) for key in range(7)}


# ---------------------------------------------------------------- errors where the call is written


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda env: env.from_arrow([1, 2]), "from_arrow.. takes a pyarrow Table"),
        (lambda env: env.from_arrow(TABLE, "t"), "no such column in .k: string, v: int64"),
        (lambda env: env.from_arrow(TABLE, "k"), "event times are integers in milliseconds"),
        (lambda env: env.from_arrow(pa.table({"t": [1, None]}), "t"), "1 of 2 event times are null"),
        (lambda env: env.from_arrow(TABLE, batch_rows=0), "at least 1"),
        (lambda env: env.from_arrow(TABLE).key_by("key"), "no such column"),
        (lambda env: env.from_arrow(pa.table({"k": [0.5]})).key_by("k"), "type double cannot be the key"),
        (lambda env: env.from_arrow(TABLE).map_batches(double, {"k": str}), "takes a pyarrow.Schema"),
        (lambda env: env.from_arrow(TABLE).map_batches(3, TWICE), "neither callable nor has a method"),
        (lambda env: env.from_arrow(TABLE).map_batches(double, TWICE, "pandas"), "'pandas'; use one of"),
        (lambda env: env.from_collection([1]).to_columns(pa.schema([])), "must have columns"),
    ],
)
def test_a_wrong_call_fails_in_the_driver(call: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        call(environment())


# ---------------------------------------------------------------- errors in tasks


def test_a_result_of_another_schema_names_operator_and_both_schemas() -> None:
    stream = environment().from_arrow(TABLE).map_batches(lambda batch: batch, TWICE).name("Twice")
    message = failure(stream)
    assert "operator Twice (1/1)" in message
    assert "declared with the schema (k: string, twice: int64)" in message
    assert "returned (k: string, v: int64)" in message


@pytest.mark.parametrize("result", [None, [1, 2], "text"])
def test_a_result_that_is_no_batch_is_refused(result: Any) -> None:
    message = failure(environment().from_arrow(TABLE).map_batches(lambda batch: result, TWICE))
    assert f"returned {type(result).__name__}; return a pyarrow.RecordBatch or Table" in message


@pytest.mark.parametrize("mask", [[True], [1, 2, 3, 4, 5, 6], None, 7])
def test_a_mask_that_does_not_fit_is_refused(mask: Any) -> None:
    message = failure(environment().from_arrow(TABLE).filter_batches(lambda batch: mask))
    assert "boolean" in message


def test_an_exception_in_the_function_names_the_operator() -> None:
    def fail(batch: pa.RecordBatch) -> pa.RecordBatch:
        raise ValueError("no")

    assert "operator MapBatches (1/1): map_batches() raised ValueError: no" in failure(
        environment().from_arrow(TABLE).map_batches(fail, TWICE)
    )


def test_python_records_where_batches_are_due_are_refused() -> None:
    message = failure(environment().from_collection([("a", 1)]).map_batches(double, TWICE))
    assert "works on Arrow batches, but got Python records such as ('a', 1)" in message
    assert "to_columns(schema)" in message


def test_a_record_that_does_not_fit_the_columns_is_shown() -> None:
    message = failure(environment().from_collection([("a", 1), ("b", "x")]).to_columns(TABLE.schema))
    assert "('b', 'x') does not fit the schema (k: string, v: int64)" in message


def test_a_null_key_is_refused() -> None:
    table = pa.table({"k": ["a", None], "v": [1, 2]})
    message = failure(environment().from_arrow(table).key_by("k").process(Total()))
    assert "key column 'k' is null in 1 of 2 records" in message


def test_a_field_that_records_do_not_have_is_refused() -> None:
    message = failure(environment().from_collection([("a", 1)]).key_by("k").process(Total()))
    assert "a tuple has no field 'k'; call to_columns(schema)" in message


def test_event_times_need_as_many_results_as_records() -> None:
    table = TABLE.append_column("t", pa.array(range(6)))
    stream = environment().from_arrow(table, "t").map_batches(lambda batch: batch.slice(1), table.schema)
    assert "made 5 records of 6" in failure(stream)


# ---------------------------------------------------------------- keyed aggregation and state of many keys


@pytest.mark.parametrize("method", ["sum", "min", "max"])
def test_built_in_aggregates_of_a_column_are_those_of_records(method: str) -> None:
    by_column = environment().from_arrow(TABLE, batch_rows=2).key_by("k")
    records = list(zip(*TABLE.to_pydict().values(), strict=True))
    by_function = environment().from_collection(records).key_by(lambda record: record[0])
    assert collect(getattr(by_column, method)("v")) == collect(getattr(by_function, method)(1))


@pytest.mark.parametrize("parallelism", [1, 2])
def test_running_aggregates(parallelism: int) -> None:
    env = environment(parallelism=parallelism)
    stream = env.from_arrow(TABLE, batch_rows=2).set_parallelism(1).key_by("k")
    results = stream.aggregate(count=Count(), total=Sum("v"), mean=Mean("v"), low=Min("v"), high=Max("v"))
    assert results.columns is not None
    assert results.columns.names == ["k", "count", "total", "mean", "low", "high"]
    assert sorted(collect(results)) == [
        ("a", 1, 1, 1.0, 1, 1),
        ("a", 2, 4, 2.0, 1, 3),
        ("a", 3, 10, 10 / 3, 1, 6),
        ("b", 1, 2, 2.0, 2, 2),
        ("b", 2, 7, 3.5, 2, 5),
        ("c", 1, 4, 4.0, 4, 4),
    ]


class Totals(KeyedBatchFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_batch(self, batch: pa.RecordBatch, ctx: KeyedBatchFunction.Context) -> pa.RecordBatch:
        before = np.array([value or 0 for value in self.total.get_many(ctx.keys)])
        totals = before + np.bincount(ctx.codes, batch["v"].to_numpy(), len(ctx.keys)).astype(np.int64)
        self.total.put_many(ctx.keys, totals.tolist())
        return pa.record_batch({"k": pa.array(ctx.keys), "total": totals})


TOTALS = pa.schema({"k": pa.string(), "total": pa.int64()})


def test_a_batch_function_has_the_state_of_all_its_keys() -> None:
    # So batches of 4 and 2 records are not joined on their way.
    env = environment(options={"tidegate.batch.size": "2"})
    stream = env.from_arrow(TABLE, batch_rows=4).key_by("k").process_batches(Totals(), TOTALS)
    assert collect(stream) == [("a", 4), ("b", 2), ("c", 4), ("b", 7), ("a", 10)]


def test_a_batch_function_may_return_nothing_and_raise() -> None:
    keyed = environment().from_arrow(TABLE).key_by("k")
    assert collect(keyed.process_batches(lambda batch, ctx: None, TOTALS)) == []

    def fail(batch: pa.RecordBatch, ctx: KeyedBatchFunction.Context) -> None:
        raise ValueError("no")

    keyed = environment().from_arrow(TABLE).key_by("k")
    assert "ProcessBatches (1/1): process_batch() raised ValueError: no" in failure(
        keyed.process_batches(fail, TOTALS)
    )


PAIRS = pa.schema({"k": pa.int64(), "v": pa.int64()})


@pytest.mark.parametrize("backend", [HashMapStateBackend(), LmdbStateBackend(memory_size_bytes=1 << 16)])
def test_aggregates_go_on_where_a_failed_job_had_stopped(tmp_path: Path, backend: Any) -> None:
    rows, keys = 40_000, 3_000
    env = environment(tmp_path).set_state_backend(backend)
    failed = tmp_path / "failed"

    def fail_once(batch: pa.RecordBatch) -> pa.RecordBatch:
        # The source has waited half way until a checkpoint was complete.
        if batch["n"][-1].as_py() > 0.75 * rows / keys and not failed.exists():
            failed.touch()
            raise RuntimeError("the one failure")
        return batch

    numbers = env.from_source(
        HeldSource(rows, splits=1, batch_size=100), WatermarkStrategy.no_watermarks(), "Numbers"
    )
    columns = numbers.map(lambda number: (number % keys, number)).to_columns(PAIRS)
    results = columns.key_by("k").aggregate(n=Count(), total=Sum("v")).uid("totals")
    stream = results.map_batches(
        fail_once, pa.schema({"k": pa.int64(), "n": pa.int64(), "total": pa.int64()})
    )
    seen = {(key, count): total for key, count, total in collect(stream)}
    assert failed.exists()
    for key in range(0, keys, 97):
        values = range(key, rows, keys)
        assert seen[key, len(values)] == sum(values)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda stream: stream.key_by(lambda row: row[0]).aggregate(n=Count()), "keyed by a column"),
        (lambda stream: stream.key_by("k").aggregate(), "at least one aggregate"),
        (lambda stream: stream.key_by("k").aggregate(n=sum), "n is a builtin_function_or_method"),
        (lambda stream: stream.key_by("k").aggregate(k=Count()), "'k' is the name of the key column"),
        (lambda stream: stream.key_by("k").aggregate(x=Sum("k")), "cannot be computed from a column of"),
        (lambda stream: stream.key_by("k").process_batches(1, TOTALS), "neither callable"),
    ],
)
def test_a_wrong_aggregation_fails_in_the_driver(call: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        call(environment().from_arrow(TABLE))


def test_aggregation_needs_to_know_the_columns() -> None:
    keyed = environment().from_collection([("a", 1)]).key_by("k")
    with pytest.raises(ConfigurationError, match=r"call to_columns\(schema\) before key_by\('k'\)"):
        keyed.aggregate(n=Count())


# ---------------------------------------------------------------- windows

TIMES = pa.table({"k": ["a", "b", "a", "a", "b", "a"], "v": [1, 2, 3, 4, 5, 6], "t": [1, 2, 9, 12, 18, 25]})


class CountAndTotal(AggregateFunction):
    """The same as `count=Count(), total=Sum("v")`, record by record."""

    def create_accumulator(self) -> Any:
        return 0, 0

    def add(self, value: Any, accumulator: Any) -> Any:
        return accumulator[0] + 1, accumulator[1] + value[1]

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class WithWindow(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        window = context.window()
        return [(key, window.start, window.end, *element) for element in elements]


def event_times(env: Any) -> Any:
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    return env.from_arrow(TIMES, "t", strategy, batch_rows=2).set_parallelism(1).key_by("k")


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize(
    "windows",
    [
        TumblingEventTimeWindows.of(Time.milliseconds(10)),
        TumblingEventTimeWindows.of(Time.milliseconds(10), Time.milliseconds(3)),
        SlidingEventTimeWindows.of(Time.milliseconds(10), Time.milliseconds(5)),
    ],
)
def test_windows_of_columns_give_what_windows_of_records_give(windows: Any, parallelism: int) -> None:
    columns = event_times(environment(parallelism=parallelism)).window(windows)
    records = event_times(environment(parallelism=parallelism)).window(windows)
    found = columns.aggregate(count=Count(), total=Sum("v"))
    assert found.columns.names == ["k", "window_start", "window_end", "count", "total"]
    expected = collect(records.aggregate(CountAndTotal(), WithWindow()))
    assert sorted(collect(found)) == sorted(expected)
    assert len(expected) >= 4


def test_late_columns_go_to_a_side_output() -> None:
    late = OutputTag("late")
    table = pa.table({"k": ["a", "a", "a"], "v": [1, 2, 3], "t": [5, 25, 6]})
    env = environment()

    class Ascending(StreamOperator):
        """A watermark behind each batch."""

        def process_batch(self, batch: Any, input_index: int) -> None:
            self.emit(batch)
            self.output.emit_watermark(batch.timestamps[-1])

    stream = env.from_arrow(table, "t", batch_rows=1)
    ascending = stream.transform("Ascending", Ascending())
    keyed = ascending.to_columns(table.schema).key_by("k")
    windows = keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(10))).side_output_late_data(late)
    results = windows.aggregate(count=Count())
    assert collect(results.get_side_output(late)) == [("a", 3, 6)]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda stream: stream.aggregate(), "takes an AggregateFunction, or aggregates of columns"),
        (lambda stream: stream.aggregate(CountAndTotal(), n=Count()), "not both"),
        (
            lambda stream: stream.allowed_lateness(5).aggregate(n=Count()),
            "without trigger, evictor and allowed",
        ),
        (lambda stream: stream.aggregate(window_end=Count()), "name of a column that windows add"),
    ],
)
def test_a_wrong_window_fails_in_the_driver(call: Any, message: str) -> None:
    windows = event_times(environment()).window(TumblingEventTimeWindows.of(Time.milliseconds(10)))
    with pytest.raises(ConfigurationError, match=message):
        call(windows)


def test_windows_need_event_times() -> None:
    windows = environment().from_arrow(TIMES).key_by("k").window(TumblingEventTimeWindows.of(Time.seconds(1)))
    assert "windows by event time need event times, but the records have none" in failure(
        windows.aggregate(n=Count())
    )


@pytest.mark.parametrize("partitioning", ["rebalance", "shuffle", "rescale", "global_", "broadcast"])
def test_other_exchanges_keep_columns(partitioning: str) -> None:
    stream = environment(parallelism=2).from_arrow(TABLE, batch_rows=3).set_parallelism(1)
    spread = getattr(stream, partitioning)().map_batches(double, TWICE)
    expected = [("a", 2), ("b", 4), ("a", 6), ("c", 8), ("b", 10), ("a", 12)]
    copies = 2 if partitioning == "broadcast" else 1
    assert sorted(collect(spread)) == sorted(expected * copies)
