"""What Spark's executors do to read state: each task reads some key groups from the checkpoint's storage.

The driver says where and what; nothing but that goes through it. A task opens the checkpoint by its address
again, so the executors must reach its storage, and Tidegate must be installed where they run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from ...protocol.key_groups import KeyGroupRange
from ...state.snapshots.segments import column_slice, key_values
from ...state.snapshots.snapshot_columns import ColumnLayout
from ...state.snapshots.snapshot_reader import read_snapshot
from ...state.snapshots.snapshot_states import RANGE_ROWS, KeyedSnapshotState
from .state_types import expiry_for_spark, spark_type

BATCH_ROWS = 16_384
_TIMER_COLUMNS = ("timestamp_ms", "namespace")


@dataclass(frozen=True)
class KeyedReading:
    """Reads one keyed state.

    Attributes:
        path: absolute address of the checkpoint.
        uid, state: of the state.
        schema: its stored descriptor, with the types that the reader knows better.
        types: column types of all its files: every task must show keys alike.
        pieces: what each task reads.
        keys: only these keys, if given.
        is_timers: whether the namespaces are those of timers: their time, and perhaps a namespace.
    """

    path: str
    uid: str
    state: str
    schema: Mapping[str, object]
    types: Sequence[Mapping[str, pa.DataType]]
    pieces: tuple[KeyGroupRange, ...]
    keys: tuple[Any, ...] | None = None
    is_timers: bool = False

    @property
    def columns(self) -> pa.Schema:
        """The columns of the result, as Spark holds them."""
        layout = self._layout(read_snapshot(self.path).keyed_state(self.uid, self.state))
        fields = [pa.field("key_group", pa.int32())]
        for field in layout.schema:
            is_expiry = field.name == "expiry"
            kind = expiry_for_spark(pa.nulls(0, field.type)).type if is_expiry else spark_type(field.type)
            fields.append(pa.field(field.name, kind))
        if self.is_timers:
            shown = [field for field in fields if field.name in ("key_group", "key")]
            return pa.schema([*shown, ("timestamp_ms", pa.int64()), ("namespace", pa.string())])
        return pa.schema(fields)

    def read(self, columns: pa.Schema, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of the pieces whose numbers come in."""
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from self._read(self.pieces[number], columns)

    def _read(self, piece: KeyGroupRange, columns: pa.Schema) -> Iterator[pa.RecordBatch]:
        state = read_snapshot(self.path).keyed_state(self.uid, self.state)
        layout = self._layout(state)
        segments = (state if self.keys is None else state.filter(self.keys)).segments.within(piece)
        for table in segments.tables(RANGE_ROWS):
            starts = range(0, table.num_rows, BATCH_ROWS)
            for start, shown in zip(starts, layout.batches(table, BATCH_ROWS), strict=True):
                stored = table.slice(start, shown.num_rows)
                yield pa.record_batch(
                    [self._column(field, stored, shown) for field in columns], schema=columns
                )

    def _column(self, field: pa.Field, stored: pa.Table, shown: pa.RecordBatch) -> pa.Array:
        if field.name == "key_group":
            return column_slice(stored["key_group"], 0, stored.num_rows).cast(field.type)
        if self.is_timers and field.name in _TIMER_COLUMNS:
            return _timer_column(field, column_slice(stored["namespace"], 0, stored.num_rows))
        column = shown.column(field.name)
        return expiry_for_spark(column) if field.name == "expiry" else column.cast(field.type)

    def _layout(self, state: KeyedSnapshotState) -> ColumnLayout:
        return ColumnLayout(state.where, self.schema, state.stored_values, self.types)


def _timer_column(field: pa.Field, namespaces: pa.Array) -> pa.Array:
    """The times of timers, or their own namespaces as Python prints them."""
    if pa.types.is_int64(namespaces.type):
        return namespaces if field.name == "timestamp_ms" else pa.nulls(len(namespaces), field.type)
    pairs = [entry if isinstance(entry, tuple) else (entry, None) for entry in key_values(namespaces)]
    if field.name == "timestamp_ms":
        return pa.array([time_ms for time_ms, _ in pairs], field.type)
    return pa.array([None if own is None else repr(own) for _, own in pairs], field.type)


@dataclass(frozen=True)
class OperatorStateReading:
    """Reads one operator state: a list, a union list or broadcast state."""

    path: str
    uid: str
    state: str

    @property
    def columns(self) -> pa.Schema:
        """The columns of the result, as Spark holds them."""
        stored = read_snapshot(self.path).operator(self.uid).operator_states[self.state].arrow_schema
        return pa.schema([pa.field(field.name, spark_type(field.type)) for field in stored])

    def read(self, columns: pa.Schema, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """All items, for the one number that comes in."""
        state = read_snapshot(self.path).operator(self.uid).operator_states[self.state]
        for batch in batches:
            for _ in range(batch.num_rows):
                for shown in state.iter_batches(BATCH_ROWS):
                    cast = [shown.column(field.name).cast(field.type) for field in columns]
                    yield pa.record_batch(cast, schema=columns)


_RAW_KEYED = pa.schema([("key_group", pa.int32()), ("value", pa.binary())])


@dataclass(frozen=True)
class RawKeyedReading:
    """Reads the raw keyed state of an operator: the pieces of a stream of bytes per key group."""

    path: str
    uid: str

    @property
    def columns(self) -> pa.Schema:
        """One row per piece of a stream."""
        return _RAW_KEYED

    def read(self, columns: pa.Schema, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """All streams, for the one number that comes in."""
        state = read_snapshot(self.path).operator(self.uid).raw_keyed_state
        assert state is not None, "the driver found it"
        for batch in batches:
            for _ in range(batch.num_rows):
                for shown in state.iter_batches(BATCH_ROWS):
                    streams = shown.column("value").cast(pa.binary())
                    yield pa.record_batch([shown.column("key_group"), streams], schema=columns)
