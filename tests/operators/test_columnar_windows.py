"""Aggregates per window over Arrow batches: window by window what a loop in Python gives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tidegate.common.errors import ConfigurationError, UserCodeError
from tidegate.operators.columnar.aggregate_functions import (
    Aggregation,
    Count,
    Max,
    Mean,
    Min,
    Quantile,
    Sum,
)
from tidegate.operators.columnar.column_key import ColumnKey
from tidegate.operators.columnar.columnar_aggregate import Aggregates
from tidegate.operators.columnar.columnar_windows import ColumnarWindowOperator
from tidegate.protocol.checkpoints.handles import OperatorSnapshot
from tidegate.protocol.elements import MAX_WATERMARK_MS, Batch
from tidegate.protocol.key_groups import key_group_range_of_subtask, subtask_of_key_group
from tidegate.state.serializers.key_hashing import key_group_of

from .columnar_model import KeyModel, same
from .harness import OperatorUnderTest

SCHEMA = pa.schema({"k": pa.string(), "v": pa.int64(), "f": pa.float64()})
AGGREGATIONS: dict[str, Aggregation] = {
    "n": Count(),
    "total": Sum("v"),
    "sum": Sum("f"),
    "mean": Mean("v"),
    "low": Min("f"),
    "high": Max("v"),
}
Operator = OperatorUnderTest[ColumnarWindowOperator]
Record = tuple[str, Any, Any, int]


def operator(
    shape: tuple[int, int, int],
    aggregations: dict[str, Aggregation] = AGGREGATIONS,
    late_tag_id: str | None = None,
    **place: Any,
) -> Operator:
    wanted = Aggregates(ColumnKey("k", SCHEMA), aggregations, SCHEMA)
    made = ColumnarWindowOperator(wanted, shape, late_tag_id=late_tag_id)
    return OperatorUnderTest(made, **{"parallelism": 1, **place}).open()


def process(test: Operator, records: list[Record]) -> None:
    columns = list(zip(*records, strict=True))
    arrays = [pa.array(column, kind) for column, kind in zip(columns[:3], SCHEMA.types, strict=True)]
    test.operator.process_batch(Batch(pa.RecordBatch.from_arrays(arrays, schema=SCHEMA), columns[3]), 0)


def results(test: Operator) -> Iterator[tuple[Any, ...]]:
    for batch in test.emitted:
        rows = zip(*(column.to_pylist() for column in batch.values.columns), strict=True)
        for row, time in zip(rows, batch.timestamps or [], strict=True):
            assert time == row[2] - 1
            yield row


class WindowModel:
    """All windows, in plain Python."""

    def __init__(self, shape: tuple[int, int, int]) -> None:
        self.size, self.slide, self.offset = shape
        self.windows: dict[tuple[int, str], KeyModel] = {}
        self.watermark = -(1 << 62)
        self.results: list[tuple[Any, ...]] = []
        self.late = 0
        self.counted: dict[int, int] = {}

    def process(self, records: list[Record]) -> None:
        for key, value, number, time in records:
            starts = [
                start
                for start in range(time - self.size + 1, time + 1)
                if (start - self.offset) % self.slide == 0
            ]
            open_ones = [start for start in starts if start + self.size - 1 > self.watermark]
            self.late += not open_ones and time <= self.watermark
            for start in open_ones:
                model = self.windows.setdefault((start, key), KeyModel(AGGREGATIONS))
                model.add({"v": value, "f": number})

    def advance(self, watermark: int) -> None:
        self.watermark = max(self.watermark, watermark)
        for start, key in list(self.windows):
            if start + self.size - 1 <= self.watermark:
                results = self.windows.pop((start, key)).results()
                self.results.append((key, start, start + self.size, *results))


RECORDS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "c", "d"]),
        st.none() | st.integers(-100, 100),
        st.none() | st.sampled_from([0.1, 0.2, -3.5, 1e16]),
        st.integers(-20, 60),
    ),
    min_size=1,
    max_size=25,
)
SHAPES = st.sampled_from([(10, 10, 0), (10, 10, 3), (10, 4, 0), (4, 10, 1), (7, 3, -2)])


class Rescaled:
    """The operator in one or two subtasks."""

    def __init__(self, shape: tuple[int, int, int]) -> None:
        self.shape = shape
        self.subtasks = [operator(shape)]
        self.attempt = 1
        self.results: list[tuple[Any, ...]] = []
        self.late = 0
        self.counted: dict[int, int] = {}

    def process(self, records: list[Record]) -> None:
        count = len(self.subtasks)
        for index, test in enumerate(self.subtasks):
            mine = [
                each for each in records
                if subtask_of_key_group(key_group_of(each[0], 128), 128, count) == index
            ]  # fmt: skip
            if mine:
                process(test, mine)

    def advance(self, watermark: int) -> None:
        for test in self.subtasks:
            test.operator.process_watermark(watermark)

    def collect(self) -> None:
        for test in self.subtasks:
            self.results += results(test)
            test.emitted.clear()
        counted = {id(test.operator): test.operator.late_records.count for test in self.subtasks}
        self.late += sum(counted.values()) - sum(self.counted.get(each, 0) for each in counted)
        self.counted = counted

    def restore(self, parallelism: int, watermark: int) -> None:
        self.collect()
        snapshots = [test.checkpoint(self.attempt) for test in self.subtasks]
        keyed = type(snapshots[0].keyed).concatenated(each.keyed for each in snapshots)
        storage = self.subtasks[0].storage
        # What comes after the checkpoint is lost, and must not be seen again.
        self.advance(1_000)
        self.attempt += 1
        self.subtasks = [
            operator(
                self.shape,
                restored=OperatorSnapshot(
                    keyed.restricted_to(key_group_range_of_subtask(index, 128, parallelism))
                ),
                subtask_index=index,
                parallelism=parallelism,
                attempt=self.attempt,
                storage=storage,
            )
            for index in range(parallelism)
        ]
        self.advance(watermark)
        assert not any(test.emitted for test in self.subtasks)


STEPS = st.lists(
    st.tuples(RECORDS, st.sampled_from(["nothing", "watermark", "restore", "rescale"]), st.integers(-20, 60)),
    min_size=1,
    max_size=6,
)


@pytest.mark.slow
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(SHAPES, STEPS)
def test_random_batches_watermarks_and_rescales_give_what_a_loop_gives(
    shape: tuple[int, int, int], steps: list[Any]
) -> None:
    model, job = WindowModel(shape), Rescaled(shape)
    for records, event, watermark in steps:
        model.process(records)
        job.process(records)
        if event == "watermark":
            model.advance(watermark)
            job.advance(watermark)
        elif event != "nothing":
            count = len(job.subtasks)
            job.restore(3 - count if event == "rescale" else count, model.watermark)
    model.advance(MAX_WATERMARK_MS)
    job.advance(MAX_WATERMARK_MS)
    job.collect()
    assert same(sorted(job.results, key=repr), sorted(model.results, key=repr))
    assert job.late == model.late


def test_a_batch_over_many_windows_and_keys() -> None:
    shape = (10, 10, 0)
    records: list[Record] = [
        (f"key {number % 300}", number, number * 0.1, (number * 7_919) % 5_000) for number in range(3_000)
    ]
    model, test = WindowModel(shape), operator(shape)
    model.process(records)
    process(test, records)
    model.advance(2_499)
    test.operator.process_watermark(2_499)
    assert same(sorted(results(test)), sorted(model.results))


def test_quantiles_per_window() -> None:
    test = operator((10, 10, 0), {"median": Quantile("v", 0.5)})
    process(test, [("a", 1, None, 1), ("a", 5, None, 2), ("b", None, None, 3), ("a", 100, None, 11)])
    process(test, [("a", 9, None, 4)])
    test.operator.process_watermark(30)
    found = {(key, start): median for key, start, _, median in results(test)}
    assert {key: value and round(value) for key, value in found.items()} == {
        ("a", 0): 5, ("b", 0): None, ("a", 10): 100
    }  # fmt: skip


def test_late_records_go_to_the_side_output_if_there_is_one() -> None:
    test = operator((10, 10, 0), late_tag_id="late", side_outputs=("late",))
    test.operator.process_watermark(9)
    process(test, [("a", 1, 0.5, 9), ("a", 2, 0.5, 10)])
    (late,) = test.sides["late"]
    assert late.values.to_pylist() == [{"k": "a", "v": 1, "f": 0.5}]
    assert list(late.timestamps or []) == [9]
    assert test.operator.late_records.count == 0


@pytest.mark.parametrize("apart", [1, 65_534, 65_535, 65_536, 1 << 40])
def test_records_of_a_batch_may_be_any_number_of_windows_apart(apart: int) -> None:
    test = operator((10, 10, 0), {"n": Count()})
    process(
        test, [("a", 1, 0.5, 3), ("b", 1, 0.5, 10 * apart), ("a", 1, 0.5, 10 * apart + 9), ("a", 1, 0.5, 0)]
    )
    test.operator.process_watermark(MAX_WATERMARK_MS)
    end = 10 * apart + 10
    assert list(results(test)) == [("a", 0, 10, 2), ("a", end - 10, end, 1), ("b", end - 10, end, 1)]


@pytest.mark.parametrize("watermark", [-100, 3])
def test_floats_of_overlapping_windows_are_added_in_the_order_of_the_records(watermark: int) -> None:
    test = operator((12, 4, 0), {"sum": Sum("f")})
    test.operator.process_watermark(watermark)
    process(test, [("a", None, 1e16, 9), ("a", None, -1e16, 9), ("a", None, 1.0, 1)])
    test.operator.process_watermark(MAX_WATERMARK_MS)
    sums = {start: total for _, start, _, total in results(test)}
    expected = {-8: 1.0, -4: 1.0, 0: 1.0, 4: 0.0, 8: 0.0}
    assert sums == {start: total for start, total in expected.items() if start + 11 > watermark}


@pytest.mark.slow
def test_a_record_may_be_in_more_windows_than_are_grouped_at_once() -> None:
    test = operator((70_000, 1, 0), {"n": Count()})
    process(test, [("a", 1, 0.5, 0)])
    # Nearly all are left open, since to fire them takes seconds.
    test.operator.process_watermark(1)
    assert [(start, count) for _, start, _, count in results(test)] == [(-69_999, 1), (-69_998, 1)]


def test_records_without_event_times_are_refused() -> None:
    test = operator((10, 10, 0))
    batch = pa.RecordBatch.from_pylist([{"k": "a", "v": 1, "f": 0.5}], SCHEMA)
    with pytest.raises(
        UserCodeError, match=r"operator Totals \(1/1\): windows by event time need event times"
    ):
        test.operator.process_batch(Batch(batch), 0)


def test_a_sum_that_leaves_64_bits_is_refused() -> None:
    test = operator((10, 10, 0))
    with pytest.raises(UserCodeError, match="the sum of column 'v' for a key does not fit"):
        process(test, [("a", (1 << 63) - 1, 0.5, 9), ("a", 2, 0.5, 9)])


def test_the_columns_of_the_window_cannot_be_named_again() -> None:
    with pytest.raises(ConfigurationError, match="window_start is the name of a column that windows add"):
        operator((10, 10, 0), {"window_start": Count()})
