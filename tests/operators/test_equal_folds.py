"""`sum`, `min` and `max` of a field, of Arrow batches, and as aggregates mean the same."""

from __future__ import annotations

import math
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tidegate.common.errors import ConfigurationError, UserCodeError
from tidegate.operators.columnar.aggregate_functions import Max, Min, Sum
from tidegate.operators.columnar.column_key import ColumnKey
from tidegate.operators.columnar.columnar_aggregate import Aggregates, ColumnarAggregateOperator
from tidegate.operators.keyed.keyed import KeyedReduceOperator
from tidegate.operators.keyed.rolling_aggregates import MaxBy, MaxOf, MinBy, MinOf, SumOf
from tidegate.protocol.elements import Batch

from .columnar_model import same
from .harness import OperatorUnderTest

LOWEST, HIGHEST = -(1 << 63), (1 << 63) - 1
FOLDS: dict[str, tuple[type[Any], type[Any]]] = {
    "sum": (SumOf, Sum),
    "min": (MinOf, Min),
    "max": (MaxOf, Max),
}
INTEGERS = st.integers(-9, 9) | st.sampled_from([LOWEST, LOWEST + 1, HIGHEST - 1, HIGHEST])
FLOATS = st.sampled_from([math.nan, math.inf, -math.inf, -0.0, 0.0, 0.1, 1e16]) | st.floats(-1e6, 1e6)
DECIMALS = st.sampled_from([Decimal("0.10"), Decimal("-7"), Decimal("123456.78")])
DATES = st.dates(date(1960, 1, 1), date(2040, 1, 1))
COLUMNS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "integers": (pa.int64(), INTEGERS),
    "floats": (pa.float64(), FLOATS),
    "decimals": (pa.decimal128(20, 2), DECIMALS),
    "dates": (pa.date32(), DATES),
}
Records = list[tuple[str, Any]]
OVERFLOW = "overflow"


def batches_of(values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Records]]:
    """Batches of records `(key, value)`, of which every fifth value or so is None."""
    value = st.one_of(values, values, values, values, st.none())
    return st.lists(
        st.lists(st.tuples(st.sampled_from("abc"), value), min_size=1, max_size=8), min_size=1, max_size=4
    )


def of_records(kind: str, schema: pa.Schema, batches: list[Records]) -> list[list[Any]]:
    test = OperatorUnderTest(KeyedReduceOperator(FOLDS[kind][0](1), ColumnKey("k", schema)), parallelism=1)
    test.open()
    return [[record[1] for record in test.process(list(records))] for records in batches]


def of_columns(kind: str, schema: pa.Schema, batches: list[Records]) -> list[list[Any]]:
    operator = KeyedReduceOperator(FOLDS[kind][0](1), ColumnKey("k", schema))
    return columns_through(operator, schema, batches)


def of_aggregates(kind: str, schema: pa.Schema, batches: list[Records]) -> list[list[Any]]:
    aggregates = Aggregates(ColumnKey("k", schema), {"folded": FOLDS[kind][1]("v")}, schema)
    return columns_through(ColumnarAggregateOperator(aggregates), schema, batches)


def columns_through(operator: Any, schema: pa.Schema, batches: list[Records]) -> list[list[Any]]:
    """What an operator gives for each batch of columns; the last one is `OVERFLOW` if it fails for that."""
    test = OperatorUnderTest(operator, parallelism=1).open()
    results: list[Any] = []
    for records in batches:
        arrays = [pa.array(values, kind) for values, kind in zip(zip(*records), schema.types)]
        try:
            test.operator.process_batch(Batch(pa.RecordBatch.from_arrays(arrays, schema=schema)), 0)
        except UserCodeError as error:
            return [*results, OVERFLOW if "does not fit into a 64-bit integer" in str(error) else str(error)]
        values = test.emitted[-1].values
        is_list = isinstance(values, list)
        results.append([record[1] for record in values] if is_list else values.column(1).to_pylist())
    return results


def until_overflow(results: list[list[Any]]) -> list[Any]:
    """What a 64-bit column holds of the results, and `OVERFLOW` for the first batch with another integer."""
    fitting: list[Any] = []
    for batch in results:
        if any(isinstance(value, int) and not LOWEST <= value <= HIGHEST for value in batch):
            return [*fitting, OVERFLOW]
        fitting.append(batch)
    return fitting


def check(kind: str, column_type: pa.DataType, batches: list[Records]) -> None:
    schema = pa.schema({"k": pa.string(), "v": column_type})
    expected = of_records(kind, schema, batches)
    assert same(of_columns(kind, schema, batches), expected)
    if pa.types.is_decimal(column_type):
        with pytest.raises(ConfigurationError, match="cannot be computed from a column of type decimal"):
            of_aggregates(kind, schema, batches)
    else:
        assert same(of_aggregates(kind, schema, batches), until_overflow(expected))


@pytest.mark.slow
@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("kind", FOLDS)
def test_records_columns_and_aggregates_give_the_same(kind: str, column: str) -> None:
    column_type, values = COLUMNS[column]
    if kind == "sum" and column == "dates":
        pytest.skip("dates have no sum")

    @settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
    @given(batches_of(values))
    def run(batches: list[Records]) -> None:
        check(kind, column_type, batches)

    run()


@pytest.mark.parametrize("missing", [None, math.nan, Decimal("NaN")])
@pytest.mark.parametrize("function", [MinOf(0), MaxOf(0), MinBy(0), MaxBy(0)])
def test_what_is_missing_never_replaces_a_value(function: Any, missing: Any) -> None:
    value = Decimal(5)
    assert function.reduce(missing, value) is value
    assert function.reduce(value, missing) is value
    assert same(function.reduce(missing, missing), missing)


def test_an_order_that_does_not_exist_is_an_error_of_the_record() -> None:
    for function in (MinOf(0), MaxOf(0), SumOf(0)):
        with pytest.raises(TypeError, match=r"'(int' and 'str|str' and 'int)'"):
            function.reduce(1, "a")
