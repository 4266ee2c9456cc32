"""One state of a checkpoint, opened for reading."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from ...common.errors import ConfigurationError, CorruptCheckpointError, StateError
from ...protocol.checkpoints.handles import ListPart
from ..keyed.conversion import StateConversion
from ..operator.list_files import read_list_file
from ..operator.list_storage import live_entries, read_changes
from .key_selection import KeySelection
from .snapshot_columns import (
    ColumnLayout,
    OperatorStateEntry,
    StateEntry,
    StoredValues,
    without_empty_encodings,
)
from .snapshot_files import CheckedFiles, StateLocation, StateSegments

BATCH_ROWS = 65_536
RANGE_ROWS = 262_144
"""Stored rows that are merged at a time: what bounds the memory of a reader."""


_TYPES = ("key_type", "map_key_type", "value_type")


class SnapshotState(ABC):
    """A state in a checkpoint. Reading it changes nothing, and unpickles nothing unless told to.

    Attributes:
        name: name of the state.
        kind: `value`, `list`, `map`, `reducing`, `aggregating` or `raw-keyed` for keyed state;
            `even-split`, `union` or `broadcast` for operator state.
        schema: the stored descriptor: `kind`, `value_type` and, where there are such, `key_type`,
            `map_key_type`, `ttl`; types are texts such as `TUPLE(LONG, DOUBLE)`.
        stored_rows: rows in its files; in those of keyed state also the overwritten and the removed
            ones, so an upper bound of what is there.
        size_bytes: size of the files that hold them.
    """

    def __init__(
        self,
        where: StateLocation,
        kind: str,
        schema: Mapping[str, object],
        stored_rows: int,
        size_bytes: int,
    ) -> None:
        self.where = where
        self.name = where.state_name
        self.kind = kind
        self.schema = dict(schema)
        self.stored_rows = stored_rows
        self.size_bytes = size_bytes

    def __repr__(self) -> str:
        types = [str(self.schema[part]) for part in _TYPES if part in self.schema]
        return f"<{self.kind} state {self.name!r} of {self.operator_uid!r}: {' -> '.join(types)}>"

    @property
    def operator_uid(self) -> str:
        """Uid of the operator that the state belongs to."""
        return self.where.operator_uid

    @property
    @abstractmethod
    def arrow_schema(self) -> pa.Schema:
        """The columns of `iter_batches`."""

    @abstractmethod
    def iter_batches(self, batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """The state in record batches of at most `batch_rows` rows, in bounded memory.

        Columns: `key`, `namespace` (if the state has namespaces), `map_key` (map and broadcast state),
        `subtask` (operator lists), `value`, `value_encoded` (what the typed column could not hold; not
        for states that are pickled altogether, whose `value` is binary) and `expiry` (with TTL).

        Raises:
            CorruptCheckpointError: when a file is missing or damaged; names file, operator and state.
        """

    @abstractmethod
    def verify(self) -> None:
        """Compare every file with its SHA-256; `CorruptCheckpointError` names the first that differs."""

    def to_arrow(self) -> pa.Table:
        """The whole state as one table; without `value_encoded` when nothing is in it.

        Raises:
            CorruptCheckpointError: when a file is missing or damaged.
        """
        return without_empty_encodings(pa.Table.from_batches(self.iter_batches(), schema=self.arrow_schema))

    def to_pandas(self) -> Any:
        """The whole state as a pandas `DataFrame`."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """The whole state as a Polars `DataFrame`; needs the extra `polars`."""
        try:
            import polars
        except ImportError as error:
            raise ConfigurationError(
                "to_polars() needs Polars: pip install 'tidegate[polars]' (or use to_arrow())"
            ) from error
        return polars.from_arrow(self.to_arrow())


class DecodedState(SnapshotState):
    """A state whose columns can be decoded: all but raw keyed state."""

    _layout: ColumnLayout | None = None

    @property
    def arrow_schema(self) -> pa.Schema:
        return self.layout.schema

    @property
    def layout(self) -> ColumnLayout:
        """How stored columns are shown."""
        if self._layout is None:
            with self.where.named():
                self._layout = self._new_layout()
        return self._layout

    def to_pandas(self, trusted: bool = False) -> Any:
        """The whole state as a pandas `DataFrame`.

        Args:
            trusted: load pickled values, so that `value` holds Python objects. A pickle can run any
                code: only for snapshots of jobs you trust.
        """
        table = self.to_arrow()
        frame = table.to_pandas()
        if trusted and ("value_encoded" in table.column_names or self.layout.is_pickled):
            import pandas as pd

            frame = frame.drop(columns="value_encoded", errors="ignore")
            frame["value"] = pd.Series(self.layout.values(table, True), index=frame.index, dtype=object)
        return frame

    @abstractmethod
    def _new_layout(self) -> ColumnLayout: ...


class KeyedSnapshotState(DecodedState):
    """A keyed state in a checkpoint, or some keys of it.

    Args:
        segments: where it is stored.
        max_parallelism: of its operator.
    """

    def __init__(
        self,
        where: StateLocation,
        schema: Mapping[str, object],
        segments: StateSegments,
        max_parallelism: int,
        stored_rows: int,
        size_bytes: int,
    ) -> None:
        super().__init__(where, str(schema.get("kind")), schema, stored_rows, size_bytes)
        self.segments = segments
        self.max_parallelism = max_parallelism

    @property
    def key_type(self) -> str | None:
        """The declared type of the keys; None when the job declared none."""
        text = self.schema.get("key_type")
        return None if text is None else str(text)

    def iter_batches(self, batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        layout = self.layout
        with self.where.named():
            for table in self.segments.tables(RANGE_ROWS):
                yield from layout.batches(table, batch_rows)

    def entries(self, trusted: bool = False) -> Iterator[StateEntry]:
        """The entries as Python objects, in bounded memory.

        Args:
            trusted: load pickled values; else they are `PickledValue`s. A pickle can run any code: only
                for snapshots of jobs you trust.
        """
        layout = self.layout
        with self.where.named():
            for table in self.segments.tables(RANGE_ROWS):
                yield from layout.entries(table, trusted)

    def filter(self, keys: Iterable[Any], namespace: Any = None) -> KeyedSnapshotState:
        """Some keys of the state. Reads only the row groups that may hold them.

        What is read is checked by the checksums of footer and pages, not by the SHA-256 of whole files:
        that would read everything (`verify` does).

        Args:
            keys: the keys, as Python objects.
            namespace: only this namespace, if one is given.

        Raises:
            KeyTypeError: when a key has no deterministic encoding.
        """
        selection = KeySelection(keys, self.max_parallelism, namespace)
        return KeyedSnapshotState(
            self.where,
            self.schema,
            self.segments.selected(selection),
            self.max_parallelism,
            self.stored_rows,
            self.size_bytes,
        )

    def get(self, key: Any, namespace: Any = None, trusted: bool = False, now_ms: int | None = None) -> Any:
        """The value of one key; None when there is none.

        Args:
            namespace: of a namespaced state.
            trusted: load pickled values.
            now_ms: leave out what is expired at this time, in milliseconds since the epoch.

        Returns:
            The value; a list for list state, a dict for map state; the accumulator for aggregating state.

        Raises:
            StateError: when the state has namespaces and none is given.
        """
        found = list(self.filter([key], namespace).entries(trusted))
        if namespace is None and any(entry.namespace is not None for entry in found):
            raise StateError(f"{self.where}: the state has namespaces; say of which one with namespace=")
        if now_ms is not None:
            found = [entry for entry in map(_unexpired(now_ms), found) if entry is not None]
        if self.kind == "map":
            return {entry.map_key: entry.value for entry in found} or None
        return found[0].value if found else None

    def verify(self) -> None:
        self.segments.verify()

    def _new_layout(self) -> ColumnLayout:
        return ColumnLayout(self.where, self.schema, self.stored_values, self.segments.types())

    @property
    def stored_values(self) -> StoredValues:
        """The ways to Python objects."""
        return StoredValues(self.where, self.schema, is_keyed=True)


class OperatorSnapshotState(DecodedState):
    """An operator state in a checkpoint: an even-split or union list, or broadcast state.

    Args:
        mode: `even-split`, `union` or `broadcast`.
        parts: index of the subtask and rows of a file, in order.
    """

    def __init__(
        self,
        where: StateLocation,
        mode: str,
        schema: Mapping[str, object],
        files: CheckedFiles,
        parts: Sequence[tuple[int, ListPart]],
    ) -> None:
        sizes = {part.file.path: part.file.size_bytes for _, part in parts}
        count = sum(part.item_count for _, part in parts)
        super().__init__(where, mode, schema, count, sum(sizes.values()))
        self._files = files
        self._parts = parts

    def iter_batches(self, batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        layout = self.layout
        with self.where.named():
            for table in self._tables():
                yield from layout.batches(table, batch_rows)

    def entries(self, trusted: bool = False) -> Iterator[OperatorStateEntry]:
        """The items as Python objects; pickled ones are `PickledValue`s unless `trusted`."""
        layout = self.layout
        with self.where.named():
            for table in self._tables():
                yield from layout.items(table, trusted)

    def verify(self) -> None:
        with self.where.named():
            for _, part in self._parts:
                self._files.verify(part.file)

    def _tables(self) -> Iterator[pa.Table]:
        conversion = StoredValues(self.where, self.schema, is_keyed=False).conversion
        if any(part.is_changes for _, part in self._parts):
            yield self._entries_of_changes(conversion)
            return
        for subtask, part in self._parts:
            with self.where.named():
                data = self._files.storage.read_file(part.file)
                rows, stored_schema = read_list_file(data, part.file.path)
                table = conversion.converted(rows.slice(part.start, part.item_count), stored_schema)
                if table.num_rows != part.item_count:
                    raise CorruptCheckpointError(
                        f"checkpoint file {part.file.path!r} lacks the rows {part.start} to {part.end} that "
                        f"its manifest names; restore another checkpoint or savepoint"
                    )
            yield table.append_column("subtask", pa.array([subtask] * len(table), pa.int32()))

    def _entries_of_changes(self, conversion: StateConversion) -> pa.Table:
        """The entries of a large broadcast state, which one subtask has stored."""
        tables = []
        for _, part in self._parts:
            table, stored_schema = read_changes(self._files.storage.read_file(part.file), part)
            tables.append(conversion.converted(table, stored_schema))
        table = live_entries(tables)
        subtasks = pa.array([self._parts[0][0]] * len(table), pa.int32())
        return table.append_column("subtask", subtasks)

    def _new_layout(self) -> ColumnLayout:
        types = [dict(zip(table.schema.names, table.schema.types, strict=True)) for table in self._tables()]
        stored = StoredValues(self.where, self.schema, is_keyed=False)
        return ColumnLayout(self.where, self.schema, stored, types)


def _unexpired(now_ms: int) -> Any:
    """Takes what is expired out of an entry; None when nothing is left."""

    def without(entry: StateEntry) -> StateEntry | None:
        expiry = entry.expiry_ms
        if isinstance(expiry, list) and isinstance(entry.value, list):
            pairs = zip(expiry, entry.value, strict=True)
            kept = [value for at, value in pairs if at is None or at > now_ms]
            return entry._replace(value=kept) if kept else None
        return entry if expiry is None or isinstance(expiry, list) or expiry > now_ms else None

    return without
