"""`sum`, `min` and `max` of Arrow batches: the same records and the same state as of Python records."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tidegate.operators.columnar.column_key import ColumnKey
from tidegate.operators.keyed.keyed import KeyedReduceOperator
from tidegate.operators.keyed.rolling_aggregates import MaxOf, MinOf, SumOf
from tidegate.protocol.elements import Batch

from .columnar_model import same
from .harness import OperatorUnderTest

SCHEMA = pa.schema({"k": pa.string(), "i": pa.int64(), "f": pa.float64(), "t": pa.string()})


def operator(function: Any, **place: Any) -> OperatorUnderTest[KeyedReduceOperator]:
    made = KeyedReduceOperator(function, ColumnKey("k", SCHEMA))
    return OperatorUnderTest(made, **{"parallelism": 1, **place}).open()


def columns(records: list[tuple[Any, ...]]) -> pa.RecordBatch:
    arrays = [pa.array(values, kind) for values, kind in zip(zip(*records), SCHEMA.types)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def emitted(test: OperatorUnderTest[Any]) -> list[Any]:
    records: list[Any] = []
    for batch in test.emitted:
        values = batch.values
        if not isinstance(values, list):
            values = list(zip(*(column.to_pylist() for column in values.columns)))
        records += values
    return records


INTEGERS = st.integers(-100, 100) | st.sampled_from([(1 << 63) - 1, -(1 << 63)])
FLOATS = st.sampled_from([0.1, -0.0, 1e16, 3.5, math.inf]) | st.floats(-1e6, 1e6)
RECORDS = st.lists(
    st.tuples(st.sampled_from("abc"), INTEGERS, FLOATS, st.none() | st.text("xy", max_size=2)),
    min_size=1,
    max_size=20,
)
AS = st.sampled_from(["columns", "records"])
FUNCTIONS = [SumOf(1), SumOf(2), MinOf(1), MinOf(2), MaxOf(1), MaxOf(2)]


@pytest.mark.slow
@settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(FUNCTIONS), st.lists(st.tuples(RECORDS, AS, st.booleans()), min_size=1, max_size=6))
def test_columns_and_records_may_take_turns(function: Any, steps: list[Any]) -> None:
    expected, test, attempt = operator(function), operator(function), 1
    found: list[Any] = []
    for records, shape, restores in steps:
        expected.operator.process_batch(Batch(list(records)), 0)
        test.operator.process_batch(Batch(columns(records) if shape == "columns" else list(records)), 0)
        if restores:
            found += emitted(test)
            attempt += 1
            test = operator(function, restored=test.checkpoint(1), storage=test.storage, attempt=attempt)
    assert same(found + emitted(test), emitted(expected))


def test_numbers_stay_in_columns() -> None:
    test = operator(SumOf(1))
    test.operator.process_batch(Batch(columns([("a", 1, 0.5, "x"), ("a", 2, 0.5, None)]), [7, 8]), 0)
    (batch,) = test.emitted
    assert isinstance(batch.values, pa.RecordBatch)
    assert batch.values.to_pylist()[1] == {"k": "a", "i": 3, "f": 0.5, "t": "x"}
    assert list(batch.timestamps or []) == [7, 8]


@pytest.mark.parametrize("value", [None, math.nan])
def test_nulls_and_nan_go_record_by_record(value: float | None) -> None:
    records = [("a", 1, 0.5, "x"), ("a", 2, math.nan, None)]
    found, expected = operator(MaxOf(2)), operator(MaxOf(2))
    if value is None:
        test = operator(MaxOf(3))
        test.operator.process_batch(Batch(columns([("a", 1, 0.5, "x"), ("a", 1, 0.5, "y")])), 0)
        assert emitted(test)[-1] == ("a", 1, 0.5, "y")
    found.operator.process_batch(Batch(columns(records)), 0)
    expected.operator.process_batch(Batch(records), 0)
    assert same(emitted(found), emitted(expected))
