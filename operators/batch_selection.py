"""Selects records of a batch by position, in any order."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ..protocol.elements import Batch, ColumnBatch, RowBatch
from .columnar.columns import Int64s


def selected(batch: Batch, positions: Int64s) -> Batch:
    """The records at `positions`, in that order, with their event times and keys, in memory of their own."""
    times, keys = batch.timestamps, batch.keys
    if times is not None:
        times = _selected_times(times, positions)
    if keys is not None:
        keys = keys[positions] if batch.has_integer_keys else _objects(keys, positions)
    if isinstance(batch, ColumnBatch):
        return ColumnBatch(batch.values.take(pa.array(positions)), times, keys)
    return RowBatch(_objects(batch.values, positions), times, keys)


def _selected_times(times: Sequence[int], positions: Int64s) -> Sequence[int]:
    if isinstance(times, array):
        return array("q", np.frombuffer(times, np.int64)[positions].tobytes())
    return _objects(times, positions)


def _objects(objects: Sequence[Any], positions: Int64s) -> list[Any]:
    """As an array they are moved by NumPy, without a Python integer for each position."""
    moved: list[Any] = np.fromiter(objects, object, len(objects))[positions].tolist()
    return moved
