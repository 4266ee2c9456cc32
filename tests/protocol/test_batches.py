"""Batches of rows and batches of columns answer alike, and pickles of older versions are read."""

from __future__ import annotations

import pickle
from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tidegate.protocol.elements import Batch, ColumnBatch, RowBatch

RECORDS = st.lists(st.tuples(st.integers(-(1 << 40), 1 << 40), st.text(max_size=3)), max_size=6)
INTEGERS = st.integers(-(1 << 63), (1 << 63) - 1)
SCHEMA = pa.schema({"number": pa.int64(), "text": pa.string()})


@st.composite
def variants(draw: st.DrawFn) -> tuple[RowBatch, ColumnBatch]:
    """The same records, event times and keys as rows and as columns."""
    records = draw(RECORDS)
    as_many = st.lists(INTEGERS, min_size=len(records), max_size=len(records))
    times = draw(st.none() | as_many | as_many.map(lambda drawn: array("q", drawn)))
    keys = draw(st.none() | as_many | as_many.map(np.array) | st.just([text for _, text in records]))
    columns = [pa.array([record[index] for record in records], SCHEMA.field(index).type) for index in (0, 1)]
    return RowBatch(records, times, keys), ColumnBatch(
        pa.RecordBatch.from_arrays(columns, schema=SCHEMA), times, keys
    )


def seen(batch: Batch) -> tuple[int, list[Any], list[int] | None, list[Any] | None, bool]:
    """What consumers see of a batch."""
    times: Sequence[int] | None = batch.timestamps
    return (
        len(batch),
        batch.rows(),
        None if times is None else list(times),
        batch.key_list(),
        batch.has_integer_keys,
    )


@given(variants())
def test_both_variants_answer_alike(pair: tuple[RowBatch, ColumnBatch]) -> None:
    rows, columns = pair
    assert seen(rows) == seen(columns)
    assert seen(rows.without_keys()) == seen(columns.without_keys()) == (*seen(rows)[:3], None, False)
    times = list(range(len(rows)))
    assert seen(rows.with_timestamps(times)) == seen(columns.with_timestamps(times))
    assert rows.with_timestamps(times).timestamps is times


@given(variants(), st.integers(0, 6), st.integers(0, 7))
def test_parts_are_alike_and_of_the_same_variant(
    pair: tuple[RowBatch, ColumnBatch], start: int, end: int
) -> None:
    rows, columns = pair
    start, end = min(start, len(rows)), max(start, end)
    row_part, column_part = rows.part(start, end), columns.part(start, end)
    assert (type(row_part), type(column_part)) == (RowBatch, ColumnBatch)
    assert seen(row_part) == seen(column_part)
    assert row_part.rows() == rows.rows()[start:end]
    assert rows.part(0, len(rows)) is rows
    assert columns.part(0, len(columns)) is columns


@given(variants())
def test_a_pickle_keeps_variant_and_records(pair: tuple[RowBatch, ColumnBatch]) -> None:
    for batch in pair:
        copy = pickle.loads(pickle.dumps(batch, protocol=5))
        assert type(copy) is type(batch)
        assert seen(copy) == seen(batch)
        assert type(copy.timestamps) is type(batch.timestamps)


@given(variants())
def test_the_constructor_of_the_interface_creates_the_variant_of_its_values(
    pair: tuple[RowBatch, ColumnBatch],
) -> None:
    for batch in pair:
        made = Batch(batch.values, batch.timestamps, batch.keys)
        assert type(made) is type(batch)
        assert made.values is batch.values
        assert seen(made) == seen(batch)
    assert Batch(["a"]) == RowBatch(["a"])


def test_only_rows_are_converted() -> None:
    rows, columns = RowBatch([("1",)], [5], ["k"]), ColumnBatch(pa.record_batch({"text": ["1"]}))
    assert rows.converted(lambda values: [int(value) for (value,) in values]) == RowBatch([1], [5], ["k"])
    assert rows.converted(lambda values: values) is rows
    assert columns.converted(lambda values: [None] * len(values)) is columns


@pytest.mark.parametrize("variant", [RowBatch, ColumnBatch])
def test_a_batch_has_no_dict(variant: type[Batch]) -> None:
    assert not hasattr(variant([]), "__dict__")


# ------------------------------------------------------------ pickles of older versions

STORED = (
    b"\x80\x05\x95\xc0\x00\x00\x00\x00\x00\x00\x00]\x94\x8c\x1atidegate.protocol.elements\x94\x8c\x05Batch"
    b"\x94\x93\x94)\x81\x94N}\x94(\x8c\x06values\x94]\x94(\x8c\x01a\x94K\x01\x86\x94\x8c\x01b\x94K\x02\x86"
    b"\x94e\x8c\ntimestamps\x94\x8c\x05array\x94\x8c\x14_array_reconstructor\x94\x93\x94(\x8c\x05array\x94"
    b"\x8c\x05array\x94\x93\x94\x8c\x01q\x94K\x0cC\x10\x05\x00\x00\x00\x00\x00\x00\x00\x06\x00\x00\x00\x00"
    b"\x00\x00\x00\x94t\x94R\x94\x8c\x04keys\x94]\x94(h\x08h\neu\x86\x94ba."
)
"""What a channel's state holds for a message with one batch, from when both variants were one class."""


def test_rows_that_an_older_version_stored_are_read() -> None:
    (batch,) = pickle.loads(STORED)
    assert batch == RowBatch([("a", 1), ("b", 2)], array("q", [5, 6]), ["a", "b"])


@given(variants())
def test_both_variants_are_read_from_pickles_of_one_class(pair: tuple[RowBatch, ColumnBatch]) -> None:
    for batch in pair:
        state = {"values": batch.values, "timestamps": batch.timestamps, "keys": batch.keys}
        # Without frames, the pickle of the attributes can be part of another pickle.
        attributes = pickle.dumps(state, protocol=2)[2:-1]
        stored = b"\x80\x02ctidegate.protocol.elements\nBatch\n)\x81N" + attributes + b"\x86b."
        copy = pickle.loads(stored)
        assert type(copy) is type(batch)
        assert seen(copy) == seen(batch)
