"""A source of Arrow data that the driver holds."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..common.errors import ConfigurationError
from ..operators.columnar.columns import Int64s, as_timestamps, schema_text
from ..operators.sources.sources import Source, SourceReader
from ..protocol.elements import Batch, ColumnBatch

DEFAULT_BATCH_ROWS = 65_536


class ArrowSource(Source):
    """Emits the rows of a table in Arrow batches, each row exactly once.

    The rows are cut into one range per subtask; order holds within a range.

    Args:
        data: A table, a batch, or batches of one schema.
        timestamp_column: Column with each row's event time: integers in milliseconds, or timestamps.
        batch_rows: The most rows of a batch.

    Raises:
        ConfigurationError: The data is something else, or its schemas differ, or the column is missing, of
            another type, or null somewhere.
    """

    def __init__(
        self,
        data: pa.Table | pa.RecordBatch | Iterable[pa.RecordBatch],
        timestamp_column: str | None = None,
        batch_rows: int = DEFAULT_BATCH_ROWS,
    ) -> None:
        if batch_rows < 1:
            raise ConfigurationError(f"from_arrow(): batch_rows is {batch_rows}; it must be at least 1")
        self._table = _as_table(data)
        self._times = None if timestamp_column is None else _times(self._table, timestamp_column)
        self._batch_rows = batch_rows

    @property
    def schema(self) -> pa.Schema:
        """Columns of the batches."""
        return self._table.schema

    def create_splits(self, parallelism: int) -> list[Any]:
        count = self._table.num_rows
        bounds = [count * index // parallelism for index in range(parallelism + 1)]
        return [(low, high) for low, high in itertools.pairwise(bounds) if low < high]

    def create_reader(self, splits: list[Any]) -> SourceReader:
        return _ArrowReader(self._table, self._times, self._batch_rows, splits)


class _ArrowReader(SourceReader):
    """Reads ranges of rows given as (next row, row after the last)."""

    def __init__(
        self, table: pa.Table, times: Int64s | None, batch_rows: int, splits: list[tuple[int, int]]
    ) -> None:
        self._table = table
        self._times = times
        self._batch_rows = batch_rows
        self._splits = list(splits)

    def poll(self, max_records: int) -> Batch | None:
        if not self._splits:
            return None
        row, end = self._splits[0]
        # The first piece that lies in one chunk: nothing is copied.
        batch = self._table.slice(row, min(self._batch_rows, end - row)).to_batches()[0]
        stop = row + batch.num_rows
        if stop < end:
            self._splits[0] = (stop, end)
        else:
            self._splits.pop(0)
        times = None if self._times is None else self._times[row:stop]
        return ColumnBatch(batch, as_timestamps(times))

    def snapshot_state(self) -> list[Any]:
        return list(self._splits)


def _as_table(data: Any) -> pa.Table:
    if isinstance(data, pa.Table):
        return data
    batches = [data] if isinstance(data, pa.RecordBatch) else list(data)
    if not batches or not all(isinstance(batch, pa.RecordBatch) for batch in batches):
        raise ConfigurationError(
            f"from_arrow() takes a pyarrow Table, a RecordBatch or some RecordBatches, not "
            f"{type(data).__name__}; an empty stream is an empty Table"
        )
    try:
        return pa.Table.from_batches(batches)
    except pa.ArrowException as error:
        raise ConfigurationError(f"from_arrow(): the batches do not have one schema: {error}") from error


def _times(table: pa.Table, column: str) -> Int64s:
    where = f"from_arrow(timestamp_column={column!r})"
    if column not in table.schema.names:
        raise ConfigurationError(f"{where}: there is no such column in {schema_text(table.schema)}")
    times = table[column]
    if times.null_count:
        raise ConfigurationError(f"{where}: {times.null_count} of {len(times)} event times are null")
    if pa.types.is_timestamp(times.type):
        # Event time is in milliseconds; what is finer is cut off.
        times = pc.cast(times, pa.timestamp("ms", times.type.tz), safe=False).cast(pa.int64())
    elif not pa.types.is_integer(times.type):
        raise ConfigurationError(
            f"{where}: the column is {times.type}; event times are integers in milliseconds, or timestamps"
        )
    numbers: Int64s = times.cast(pa.int64()).to_numpy().astype(np.int64, copy=False)
    return numbers
