"""Arrow batches in a form that is pickled fast: that of pyarrow takes several Python calls for a column."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa

from ..protocol.elements import ColumnBatch

_FLAT = frozenset(
    kind.id
    for kind in (
        pa.bool_(),
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
        *(pa.float16(), pa.float32(), pa.float64(), pa.decimal128(1), pa.decimal256(1)),
        *(pa.date32(), pa.date64(), pa.time32("s"), pa.time64("us"), pa.timestamp("us"), pa.duration("us")),
        *(pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.binary(1)),
    )
)
"""Types whose arrays are their buffers, with no dictionaries, children or Python classes."""
_SCHEMAS = 64

Columns = Sequence[tuple[int, Sequence[Any]]]
"""The offset and the buffers of each column."""


class FlatBatch:
    """A batch whose columns all have flat types; its pickle is that of a `Batch`."""

    __slots__ = ("_batch", "_columns")

    def __init__(self, batch: ColumnBatch, columns: Columns) -> None:
        self._batch = batch
        self._columns = columns

    def __reduce__(self) -> tuple[Any, ...]:
        batch = self._batch
        columns = [
            (offset, [None if each is None else pickle.PickleBuffer(each) for each in buffers])
            for offset, buffers in self._columns
        ]
        schema = batch.values.schema.serialize().to_pybytes()
        return _batch_of, (schema, len(batch), columns, batch.timestamps, batch.keys)


def flat(batch: ColumnBatch, least_bytes: int) -> FlatBatch | None:
    """The batch in this form, `None` if a column has another type, or no buffer has `least_bytes`."""
    values = batch.values
    if values.get_total_buffer_size() < least_bytes:
        return None
    columns = values.columns
    if not all(column.type.id in _FLAT for column in columns):
        return None
    parts = [(column.offset, column.buffers()) for column in columns]
    is_large = any(each is not None and each.size >= least_bytes for _, buffers in parts for each in buffers)
    return FlatBatch(batch, parts) if is_large else None


def _batch_of(schema_bytes: bytes, rows: int, columns: Columns, timestamps: Any, keys: Any) -> ColumnBatch:
    schema = _schema_of(schema_bytes)
    arrays = [
        pa.Array.from_buffers(
            field.type,
            rows,
            [None if each is None else pa.py_buffer(each) for each in buffers],
            offset=offset,
        )
        for field, (offset, buffers) in zip(schema, columns, strict=True)
    ]
    return ColumnBatch(pa.RecordBatch.from_arrays(arrays, schema=schema), timestamps, keys)


@lru_cache(_SCHEMAS)
def _schema_of(data: bytes) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(data))
