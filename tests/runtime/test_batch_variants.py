"""Batches of rows and batches of columns are joined, selected and divided alike."""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from tidegate.operators.batch_selection import selected
from tidegate.protocol.elements import Batch, ColumnBatch, RowBatch
from tidegate.runtime.batch_joining import coalesced
from tidegate.runtime.scattering import scatter

INTEGERS = st.integers(-(1 << 63), (1 << 63) - 1)
RECORD = st.tuples(INTEGERS, INTEGERS, INTEGERS)
"""A value, its event time and its key."""
TIMES = st.sampled_from([lambda times: None, list, lambda times: array("q", times)])
KEYS = st.sampled_from([lambda keys: None, list, lambda keys: np.array(keys, np.int64)])


def both(records: list[tuple[int, int, int]], times_as: Any, keys_as: Any) -> tuple[Batch, Batch]:
    """The same records as rows and as columns."""
    values = [(value,) for value, _, _ in records]
    times, keys = times_as([time for _, time, _ in records]), keys_as([key for *_, key in records])
    columns = pa.record_batch({"value": pa.array([value for (value,) in values], pa.int64())})
    return RowBatch(values, times, keys), ColumnBatch(columns, times, keys)


def seen(batch: Batch) -> tuple[list[Any], list[int] | None, list[Any] | None, bool]:
    times = batch.timestamps
    return batch.rows(), None if times is None else list(times), batch.key_list(), batch.has_integer_keys


def all_of(batches: list[Any]) -> list[tuple[Any, ...]]:
    """Every record with its time and key."""
    found = []
    for batch in batches:
        absent = [None] * len(batch)
        found += list(zip(batch.rows(), batch.timestamps or absent, batch.key_list() or absent, strict=True))
    return found


@given(st.lists(RECORD, min_size=1, max_size=8), TIMES, KEYS, st.data())
def test_the_same_records_are_selected(
    records: Any, times_as: Any, keys_as: Any, data: st.DataObject
) -> None:
    rows, columns = both(records, times_as, keys_as)
    positions = data.draw(st.lists(st.integers(0, len(records) - 1), max_size=10))
    found = selected(rows, np.array(positions, np.int64))
    assert seen(found) == seen(selected(columns, np.array(positions, np.int64)))
    assert all_of([found]) == [all_of([rows])[position] for position in positions]
    assert type(found.timestamps) is type(rows.timestamps)


class Channel:
    """Keeps what it is given."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []

    def add_batch(self, batch: Batch) -> None:
        self.batches.append(batch)


@given(st.lists(RECORD, max_size=8), TIMES, KEYS, st.integers(1, 3), st.data())
def test_each_channel_gets_the_same_records_in_order(
    records: Any, times_as: Any, keys_as: Any, count: int, data: st.DataObject
) -> None:
    targets = data.draw(st.lists(st.integers(0, count - 1), min_size=len(records), max_size=len(records)))
    whole = all_of([both(records, times_as, keys_as)[0]])
    for batch in both(records, times_as, keys_as):
        channels: list[Any] = [Channel() for _ in range(count)]
        scatter(batch, np.array(targets, np.int64), channels)
        for index, channel in enumerate(channels):
            assert all_of(channel.batches) == [
                record for record, target in zip(whole, targets, strict=True) if target == index
            ]
            assert all(len(part) and type(part) is type(batch) for part in channel.batches)


@given(
    st.lists(st.lists(RECORD, min_size=1, max_size=4), min_size=1, max_size=5), TIMES, KEYS, st.integers(1, 9)
)
def test_the_same_records_are_joined(parts: Any, times_as: Any, keys_as: Any, enough: int) -> None:
    pairs = [both(part, times_as, keys_as) for part in parts]
    joined_rows, joined_columns = (coalesced(list(variant), enough) for variant in zip(*pairs, strict=True))
    assert list(map(seen, joined_rows)) == list(map(seen, joined_columns))  # type: ignore[arg-type]
    assert all_of(joined_rows) == all_of([rows for rows, _ in pairs])
    assert all(len(batch) >= enough for batch in joined_rows[:-1])  # type: ignore[arg-type]


def test_rows_and_columns_are_not_joined_with_each_other() -> None:
    rows, columns = both([(1, 2, 3)], list, list)
    assert coalesced([rows, columns, rows], 10) == [rows, columns, rows]
