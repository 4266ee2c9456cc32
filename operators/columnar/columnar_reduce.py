"""The fast path of `sum`, `min` and `max` of a field: Arrow batches of a stream that is keyed by a column.

State and results are those of the path for records, so the two may take turns. Whatever does not fit into
64-bit numbers, or holds nulls, is left to that path.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from ...state.kinds import ValueState
from ..keyed.rolling_aggregates import RunningReducer
from .column_key import ColumnKey, distinct_keys
from .grouping import MAX_ROWS, Array, Grouping


def column_reduce(function: Any, selector: Any, state: ValueState[Any]) -> ColumnReduce | None:
    """The fast path of a reduce function; None where there is none."""
    if isinstance(function, RunningReducer) and isinstance(selector, ColumnKey):
        return ColumnReduce(function, selector, state)
    return None


class ColumnReduce:
    """Reduces Arrow batches by one column."""

    def __init__(self, function: RunningReducer, key: ColumnKey, state: ValueState[Any]) -> None:
        self._field = function.field
        self._fold = function.fold
        self._key = key
        self._state = state

    def reduced(self, batch: pa.RecordBatch, where: str) -> pa.RecordBatch | None:
        """The record so far for each record; None if the batch must go record by record."""
        position = self._field
        if not isinstance(position, int) or position >= batch.num_columns or len(batch) > MAX_ROWS:
            return None
        key_column = self._key.column_of(batch, where)
        values = self._values(batch.column(position))
        if values is None or self._key.column == batch.schema.names[position]:
            return None
        distinct = distinct_keys(key_column)
        grouping = Grouping(distinct.codes)
        stored = self._state.get_many(distinct.keys)
        before = self._before(stored, position, values.dtype == np.int64)
        if before is None or any(
            record is not None and len(record) != batch.num_columns for record in stored
        ):
            return None
        first = _records(batch.take(pa.array(grouping.order[grouping.starts])), stored)
        try:
            running = grouping.running(self._fold, before, values[grouping.order])
            columns = [
                pa.array([record[index] for record in first], field.type).take(pa.array(distinct.codes))
                for index, field in enumerate(batch.schema)
            ]
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            # A sum that does not fit into 64 bits, or records of another kind, from before.
            return None
        last = running[grouping.ends].tolist()
        records = [(*each[:position], value, *each[position + 1 :]) for each, value in zip(first, last)]
        self._state.put_many(distinct.keys, records)
        columns[position] = pa.array(grouping.in_order(running))
        return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)

    def _values(self, column: pa.Array) -> Array | None:
        kind = column.type
        if column.null_count:
            return None
        if pa.types.is_integer(kind) and not pa.types.is_uint64(kind):
            integers: Array = column.cast(pa.int64()).to_numpy(zero_copy_only=False)
            return integers
        if not pa.types.is_floating(kind):
            return None
        values: Array = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
        return values

    def _before(self, stored: list[Any], position: int, is_integer: bool) -> Array | None:
        """What each key has so far; None if that is not what a column of this type gives."""
        kind = int if is_integer else float
        empty = self._fold.neutral(is_integer)
        numbers = []
        for record in stored:
            if record is None:
                numbers.append(empty)
                continue
            value = record[position] if type(record) is tuple and len(record) > position else None
            if type(value) is not kind:
                return None
            numbers.append(value)
        try:
            return np.array(numbers, dtype=np.int64 if is_integer else np.float64)
        except OverflowError:
            return None


def _records(first: pa.RecordBatch, stored: list[Any]) -> list[tuple[Any, ...]]:
    """The first record of each key: as it is stored, or of this batch."""
    new = [index for index, record in enumerate(stored) if record is None]
    records = list(stored)
    if new:
        columns = [column.to_pylist() for column in first.take(pa.array(new)).columns]
        for index, record in zip(new, zip(*columns)):
            records[index] = record
    return records
