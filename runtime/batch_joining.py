"""Joins neighbouring batches of records: fewer messages, and longer loops in the operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ..operators.columnar.columns import as_timestamps, timestamps_of
from ..protocol.elements import Batch, ColumnBatch, RowBatch, StreamElement

MAX_JOINED_BYTES = 1 << 20
"""The most memory that joined Arrow batches may take, and the most that joined messages may have: a copy of
more costs more than it saves."""


class Joining:
    """Batches that become one.

    Args:
        first: The first of them.
        enough_records: With this number of records, nothing more is added.
    """

    def __init__(self, first: Batch, enough_records: int) -> None:
        self._batches = [first]
        self._left = enough_records - len(first)
        self._left_bytes = MAX_JOINED_BYTES - first.column_bytes

    @property
    def is_full(self) -> bool:
        """Whether there are enough records."""
        return self._left <= 0

    def add(self, batch: Batch) -> bool:
        """Add the next batch; false if there are enough records, or it has another form or is too large."""
        size_bytes = batch.column_bytes
        if self.is_full or size_bytes > self._left_bytes or not self._batches[0].has_form_of(batch):
            return False
        self._batches.append(batch)
        self._left -= len(batch)
        self._left_bytes -= size_bytes
        return True

    def joined(self) -> Batch:
        """All records in one batch; the single batches stay as they are."""
        first = self._batches[0]
        if len(self._batches) == 1:
            return first
        join = _joined_rows if isinstance(first, RowBatch) else _joined_columns
        return join(self._batches, _joined_keys(self._batches))


def coalesced(elements: Sequence[StreamElement], batch_size: int) -> list[StreamElement]:
    """The same elements, with neighbouring batches joined until they have `batch_size` records or more."""
    result: list[StreamElement] = []
    joining: Joining | None = None
    for element in elements:
        if joining is not None:
            if isinstance(element, Batch) and joining.add(element):
                continue
            result.append(joining.joined())
            joining = None
        if isinstance(element, Batch):
            joining = Joining(element, batch_size)
        else:
            result.append(element)
    if joining is not None:
        result.append(joining.joined())
    return result


def _joined_rows(batches: Sequence[Batch], keys: Any) -> RowBatch:
    # All at once: a piece at a time, the first would be copied once for each.
    values: list[Any] = []
    timestamps: list[int] | None = None if batches[0].timestamps is None else []
    for batch in batches:
        values += batch.rows()
        if timestamps is not None:
            timestamps += batch.timestamps or ()
    return RowBatch(values, timestamps, keys)


def _joined_columns(batches: Sequence[Batch], keys: Any) -> ColumnBatch:
    table = pa.Table.from_batches([batch.values for batch in batches])
    times = [each for batch in batches if (each := timestamps_of(batch)) is not None]
    timestamps = as_timestamps(np.concatenate(times)) if times else None
    return ColumnBatch(table.combine_chunks().to_batches()[0], timestamps, keys)


def _joined_keys(batches: Sequence[Batch]) -> Any:
    if batches[0].keys is None:
        return None
    if batches[0].has_integer_keys:
        return np.concatenate([batch.keys for batch in batches])
    return [key for batch in batches for key in batch.keys]
