"""Key columns: the same key groups as keys one by one, and batches split by them."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tidegate.common.errors import KeyTypeError, UserCodeError
from tidegate.operators.columnar.column_key import ColumnKey, distinct_keys, key_groups_of_column
from tidegate.state.serializers.key_hashing import key_group_of

KINDS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int64(), st.integers(-(1 << 63), (1 << 63) - 1)),
    (pa.int8(), st.integers(-128, 127)),
    (pa.uint32(), st.integers(0, (1 << 32) - 1)),
    (pa.uint64(), st.integers(0, (1 << 64) - 1)),
    (pa.bool_(), st.booleans()),
    (pa.string(), st.text("ab\x00é\U0001f600", max_size=3)),
    (pa.large_string(), st.text("ab", max_size=3)),
    (pa.binary(), st.binary(max_size=3)),
    (pa.date32(), st.dates(date(1900, 1, 1))),
    (pa.timestamp("us"), st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1))),
    (pa.timestamp("ms", "UTC"), st.integers(0, 1 << 40)),
    (pa.dictionary(pa.int8(), pa.string()), st.sampled_from(["a", "b", "c"])),
]


@given(st.data(), st.sampled_from([1, 7, 128, 32_768]))
def test_a_column_has_the_key_groups_of_its_keys(data: st.DataObject, max_parallelism: int) -> None:
    kind, values = data.draw(st.sampled_from(KINDS))
    column = pa.array(data.draw(st.lists(values, max_size=40)), kind)
    groups = key_groups_of_column(column, max_parallelism).tolist()
    assert groups == [key_group_of(key, max_parallelism) for key in column.to_pylist()]


@given(st.data())
def test_distinct_keys_come_in_the_order_of_their_first_records(data: st.DataObject) -> None:
    kind, values = data.draw(st.sampled_from(KINDS))
    column = pa.array(data.draw(st.lists(values, max_size=40)), kind)
    distinct = distinct_keys(column)
    assert distinct.keys == list(dict.fromkeys(column.to_pylist()))
    assert [distinct.keys[code] for code in distinct.codes.tolist()] == column.to_pylist()


def test_a_dictionary_may_hold_what_no_record_has_and_hold_it_twice() -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([3, 1, 0, 3]), pa.array(["x", "y", "unused", "x"]))
    distinct = distinct_keys(column)
    assert distinct.keys == ["x", "y"]
    assert np.array_equal(distinct.codes, [0, 1, 0, 0])


def test_columns_that_cannot_be_keys_are_refused() -> None:
    key = ColumnKey("k", None)
    with pytest.raises(KeyTypeError, match="operator Sums: key column 'k': a column of type double"):
        key.column_of(pa.record_batch({"k": [0.5]}), "operator Sums")
    with pytest.raises(
        UserCodeError, match=r"key column 'k' is missing in a batch with the columns \(v: int64\)"
    ):
        key.column_of(pa.record_batch({"v": [1]}), "operator Sums")
