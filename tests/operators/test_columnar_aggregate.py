"""Running aggregates over Arrow batches: record by record what a loop in Python gives."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tidegate.common.errors import ConfigurationError, StateMigrationError, UserCodeError
from tidegate.operators.columnar import key_slots
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
from tidegate.operators.columnar.columnar_aggregate import Aggregates, ColumnarAggregateOperator
from tidegate.protocol.checkpoints.handles import OperatorSnapshot
from tidegate.protocol.elements import Batch
from tidegate.protocol.key_groups import key_group_range_of_subtask, subtask_of_key_group
from tidegate.state.serializers.key_hashing import key_group_of

from .columnar_model import Model, same
from .harness import OperatorUnderTest

SCHEMA = pa.schema({"k": pa.int64(), "i": pa.int64(), "f": pa.float64()})
AGGREGATIONS: dict[str, Aggregation] = {
    "rows": Count(),
    "ints": Count("i"),
    "total": Sum("i"),
    "sum": Sum("f"),
    "mean": Mean("i"),
    "mean_f": Mean("f"),
    "low": Min("i"),
    "high": Max("i"),
    "low_f": Min("f"),
    "high_f": Max("f"),
}
Operator = OperatorUnderTest[ColumnarAggregateOperator]


def operator(
    aggregations: dict[str, Any] = AGGREGATIONS, schema: pa.Schema = SCHEMA, **place: Any
) -> Operator:
    place = {"parallelism": 1, **place}
    wanted = Aggregates(ColumnKey("k", schema), aggregations, schema)
    return OperatorUnderTest(ColumnarAggregateOperator(wanted), **place).open()


def process(test: Operator, records: list[dict[str, Any]], schema: pa.Schema = SCHEMA) -> list[Any]:
    before = len(test.emitted)
    test.operator.process_batch(Batch(pa.RecordBatch.from_pylist(records, schema)), 0)
    rows: list[Any] = []
    for batch in test.emitted[before:]:
        rows += zip(*(column.to_pylist() for column in batch.values.columns), strict=True)
    return rows


RECORDS = st.lists(
    st.fixed_dictionaries(
        {
            "k": st.integers(-3, 3) | st.sampled_from([1 << 62, -(1 << 62)]),
            "i": st.none() | st.integers(-(1 << 50), 1 << 50),
            "f": st.none() | st.floats(width=32) | st.sampled_from([0.1, 1e16, math.nan, math.inf]),
        }
    ),
    min_size=1,
    max_size=30,
)
# What may come between two batches.
EVENTS = st.sampled_from(["nothing", "checkpoint", "restore", "rescale"])


class Rescaled:
    """The operator in one or more subtasks, and what its last checkpoint holds."""

    def __init__(self) -> None:
        self.subtasks = [operator()]
        self.attempt = 1

    def process(self, records: list[dict[str, Any]]) -> list[Any]:
        results: list[Any] = [None] * len(records)
        count = len(self.subtasks)
        targets = [subtask_of_key_group(key_group_of(each["k"], 128), 128, count) for each in records]
        for index, test in enumerate(self.subtasks):
            mine = [position for position, target in enumerate(targets) if target == index]
            if mine:
                given = process(test, [records[position] for position in mine])
                for position, result in zip(mine, given, strict=True):
                    results[position] = result
        return results

    def checkpoint(self) -> OperatorSnapshot:
        snapshots = [test.checkpoint(self.attempt) for test in self.subtasks]
        keyed = type(snapshots[0].keyed).concatenated(each.keyed for each in snapshots)
        return OperatorSnapshot(keyed)

    def restore(self, parallelism: int) -> None:
        snapshot = self.checkpoint()
        # What comes after the checkpoint is lost, and must not be seen again.
        self.process([{"k": 0, "i": 1 << 40, "f": -1.0}])
        self.attempt += 1
        parts = [
            OperatorSnapshot(
                snapshot.keyed.restricted_to(key_group_range_of_subtask(index, 128, parallelism))
            )
            for index in range(parallelism)
        ]
        self.subtasks = [
            operator(
                restored=part,
                subtask_index=index,
                parallelism=parallelism,
                attempt=self.attempt,
                storage=self.subtasks[0].storage,
            )
            for index, part in enumerate(parts)
        ]


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(RECORDS, EVENTS), min_size=1, max_size=6))
def test_random_batches_checkpoints_and_rescales_give_what_a_loop_gives(steps: list[Any]) -> None:
    model, job = Model("k", AGGREGATIONS), Rescaled()
    for records, event in steps:
        assert same(job.process(records), model.process(records))
        if event == "checkpoint":
            job.checkpoint()
        elif event == "restore":
            job.restore(len(job.subtasks))
        elif event == "rescale":
            job.restore(3 - len(job.subtasks))


def test_hot_and_cold_keys_over_many_rounds() -> None:
    rng = np.random.default_rng(5)
    keys = np.concatenate([np.zeros(500, np.int64), rng.integers(1, 400, 1_500)])
    rng.shuffle(keys)
    records = [
        {"k": key, "i": number, "f": number * 0.1}
        for key, number in zip(keys.tolist(), rng.integers(-99, 99, 2_000).tolist(), strict=True)
    ]
    model, test = Model("k", AGGREGATIONS), operator()
    for start in (0, 1_000):
        part = records[start : start + 1_000]
        assert same(process(test, part), model.process(part))


def test_more_keys_than_slots_go_through_the_state() -> None:
    schema = pa.schema({"k": pa.int64(), "v": pa.int64()})
    test = operator({"n": Count(), "total": Sum("v")}, schema)
    keys = np.arange(3 * key_slots.CAPACITY) * 1_000_003
    batch = pa.record_batch({"k": keys, "v": keys % 10}, schema=schema)
    for round_number in (1, 2):
        before = len(test.emitted)
        test.operator.process_batch(Batch(batch), 0)
        results = pa.Table.from_batches([each.values for each in test.emitted[before:]])
        assert results["n"].to_numpy().tolist() == [round_number] * len(keys)
        assert np.array_equal(results["total"].to_numpy(), keys % 10 * round_number)


@pytest.mark.parametrize("kind", [pa.string(), pa.bool_(), pa.uint64(), pa.date32(), pa.int8(), pa.binary()])
def test_keys_of_other_types(kind: pa.DataType) -> None:
    keys = pa.array([1, 0, 1, 1, 0], pa.int32())
    column = keys.cast(pa.string()).cast(kind) if pa.types.is_binary(kind) else keys.cast(kind)
    schema = pa.schema({"k": kind, "v": pa.int64()})
    test = operator({"n": Count()}, schema)
    for _ in range(2):
        test.operator.process_batch(Batch(pa.record_batch([column, pa.array([1] * 5)], schema=schema)), 0)
    first, second = (batch.values for batch in test.emitted)
    assert first["k"].equals(column)
    assert first["n"].to_pylist() == [1, 1, 2, 3, 2]
    assert second["n"].to_pylist() == [4, 3, 5, 6, 4]


@pytest.mark.parametrize(
    "kind", [pa.date32(), pa.date64(), pa.time32("ms"), pa.time64("us"), pa.timestamp("us", "UTC"),
             pa.duration("ms"), pa.float32(), pa.bool_(), pa.int8()]
)  # fmt: skip
def test_extremes_keep_the_type_of_their_column(kind: pa.DataType) -> None:
    day = 86_400_000
    numbers = [1, 0, 1] if pa.types.is_boolean(kind) else [5, 3, 4]
    if pa.types.is_date64(kind):
        numbers = [number * day for number in numbers]
    plain = pa.int32() if pa.types.is_date32(kind) or pa.types.is_time32(kind) else pa.int64()
    column = pa.array(numbers, plain).cast(kind)
    schema = pa.schema({"k": pa.int64(), "v": kind})
    test = operator({"low": Min("v"), "high": Max("v")}, schema)
    test.operator.process_batch(Batch(pa.record_batch([pa.array([1, 1, 1]), column], schema=schema)), 0)
    (batch,) = test.emitted
    assert batch.values["low"].equals(column.take(pa.array([0, 1, 1])))
    assert batch.values["high"].equals(column.take(pa.array([0, 0, 0])))


def test_event_times_stay_with_their_records() -> None:
    test = operator({"n": Count()})
    batch = pa.RecordBatch.from_pylist([{"k": 2, "i": 1, "f": 1.0}, {"k": 1, "i": 1, "f": 1.0}], SCHEMA)
    test.operator.process_batch(Batch(batch, [20, 10]), 0)
    assert list(test.emitted[0].timestamps or []) == [20, 10]


@settings(max_examples=40)
@given(
    st.lists(st.floats(-1e9, 1e9) | st.none() | st.just(math.nan), min_size=1, max_size=200),
    st.sampled_from([0.0, 0.25, 0.5, 0.99, 1.0]),
    st.integers(1, 50),
)
def test_quantiles_are_within_their_accuracy(values: list[Any], q: float, size: int) -> None:
    test = operator({"q": Quantile("f", q)})
    seen: list[float] = []
    results: list[float | None] = []
    for start in range(0, len(values), size):
        part = [{"k": 1, "i": 0, "f": value} for value in values[start : start + size]]
        results += [result for _, result in process(test, part)]
    for value, result in zip(values, results, strict=True):
        if value is not None and value == value:
            seen.append(value)
        if not seen:
            assert result is None
            continue
        exact = sorted(seen)[max(1, math.ceil(q * len(seen))) - 1]
        assert result is not None
        assert abs(result - exact) <= 0.0101 * abs(exact)


def test_quantiles_survive_a_restore() -> None:
    test = operator({"median": Quantile("i", 0.5), "n": Count()})
    process(test, [{"k": 1, "i": number, "f": 0.0} for number in (1, 2, 3)])
    snapshot = test.checkpoint(1)
    again = operator(
        {"median": Quantile("i", 0.5), "n": Count()}, restored=snapshot, storage=test.storage, attempt=2
    )
    ((_, median, count),) = process(again, [{"k": 1, "i": 100, "f": 0.0}])
    assert (round(median, 1), count) == (2.0, 4)


def test_a_snapshot_writes_only_what_changed() -> None:
    test = operator({"n": Count()})
    process(test, [{"k": key, "i": 1, "f": 1.0} for key in range(1_000)])
    first = test.checkpoint(1)
    process(test, [{"k": 7, "i": 1, "f": 1.0}])
    second = test.checkpoint(2)
    assert second.keyed.segments[:-1] == first.keyed.segments
    assert second.keyed.segments[-1].file.size_bytes < first.keyed.segments[0].file.size_bytes


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("aggregations", "message"),
    [
        ({"x": Sum("missing")}, r"aggregate\(x=…\): there is no column 'missing' in \(k: int64"),
        ({"x": Sum("text")}, r"Sum\('text'\) cannot be computed from a column of type string"),
        ({"x": Mean("big")}, r"Mean\('big'\) cannot be computed from a column of type uint64"),
        ({"x": Min("text")}, r"Min\('text'\) cannot be computed"),
        ({"x": Quantile("text", 0.5)}, r"Quantile\('text'\) cannot be computed"),
    ],
)
def test_columns_that_cannot_be_aggregated_are_refused(aggregations: dict[str, Any], message: str) -> None:
    schema = pa.schema({"k": pa.int64(), "text": pa.string(), "big": pa.uint64()})
    with pytest.raises(ConfigurationError, match=message):
        Aggregates(ColumnKey("k", schema), aggregations, schema)


@pytest.mark.parametrize("make", [lambda: Quantile("v", 2), lambda: Quantile("v", 0.5, 0), lambda: Sum(3)])
def test_aggregations_check_their_arguments(make: Any) -> None:
    with pytest.raises(ConfigurationError):
        make()


def test_a_sum_that_leaves_64_bits_names_operator_and_column() -> None:
    test = operator({"total": Sum("i")})
    process(test, [{"k": 1, "i": (1 << 63) - 1, "f": 0.0}, {"k": 2, "i": (1 << 63) - 1, "f": 0.0}])
    with pytest.raises(UserCodeError, match=r"operator Totals \(1/1\): the sum of column 'i' for a key"):
        process(test, [{"k": 1, "i": 1, "f": 0.0}])


def test_sums_up_to_64_bits_are_exact() -> None:
    test = operator({"total": Sum("i")})
    records = [{"k": 1, "i": value, "f": 0.0} for value in ((1 << 63) - 1, -(1 << 63), (1 << 62))]
    assert [total for _, total in process(test, records)] == [(1 << 63) - 1, -1, (1 << 62) - 1]


def test_other_aggregates_than_those_of_the_checkpoint_are_refused() -> None:
    test = operator({"total": Sum("i")})
    process(test, [{"k": 1, "i": 1, "f": 0.0}])
    snapshot = test.checkpoint(1)
    with pytest.raises(
        StateMigrationError, match=r"holds other aggregates \(aggregates: count\(i\), sum\(i\)"
    ):
        operator({"total": Sum("f")}, restored=snapshot, storage=test.storage, attempt=2)


def test_a_batch_with_other_columns_is_refused() -> None:
    test = operator({"total": Sum("i")})
    with pytest.raises(
        UserCodeError, match=r"wants batches with the columns \(k: int64.*but got \(k: string\)"
    ):
        test.operator.process_batch(Batch(pa.record_batch({"k": ["a"]})), 0)


def test_python_records_are_taken_where_they_fit() -> None:
    test = operator({"total": Sum("i")})
    test.operator.process_batch(Batch([(1, 2, 3.0), (1, 5, 3.0)]), 0)
    assert test.emitted[0].values["total"].to_pylist() == [2, 7]
    with pytest.raises(UserCodeError, match=r"\(1, 'x', 3.0\) does not fit the schema"):
        test.operator.process_batch(Batch([(1, "x", 3.0)]), 0)
