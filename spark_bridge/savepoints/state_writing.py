"""What Spark's executors do to write keyed state: key groups first, then one segment per piece.

A piece is the key groups of one subtask. Rows get the key group that the runtime gives their keys, are
brought together by piece, and each piece becomes one file as a state backend writes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa

from ...common.errors import StateError
from ...common.type_system.type_parser import type_from_text
from ...common.typeinfo import BasicType, BasicTypeInfo, PickledBytesTypeInfo, TypeInformation
from ...protocol.checkpoints.handles import FileHandle, SegmentHandle
from ...runtime.local_dirs import as_file_name
from ...state.claims import without_mark
from ...state.keyed.change_merge import sorted_table
from ...state.serializers.key_codec import encode_key, encode_map_key
from ...state.serializers.key_hashing import hash_int64, hash_keys, key_groups_of_hashes
from ...state.serializers.type_layouts import layout_of
from ...state.snapshots.segments import (
    ENCODED_KEY,
    KEY_COLUMNS,
    SegmentFile,
    SegmentInfo,
    footer_sha256,
    key_values,
    write_segment,
)
from ...state.snapshots.snapshot_columns import StoredValues
from ...state.snapshots.snapshot_files import StateLocation
from ...state.storage.checkpoint_storage import open_storage
from ...state.ttl.expiration import Expiration
from ...state.ttl.expired_rows import without_expired

PLACE = pa.schema([("key_group", pa.int32()), ("piece", pa.int32())])
WRITTEN = pa.schema(
    [
        ("piece", pa.int32()),
        ("path", pa.string()),
        ("size_bytes", pa.int64()),
        ("sha256", pa.string()),
        ("entry_count", pa.int64()),
        ("footer_sha256", pa.string()),
    ]
)
COPIED = pa.schema(
    [
        ("number", pa.int64()),
        ("path", pa.string()),
        ("size_bytes", pa.int64()),
        ("sha256", pa.string()),
        # Of segments without expired state only.
        ("entry_count", pa.int64()),
        ("footer_sha256", pa.string()),
    ]
)
_INTEGERS = {BasicType.BYTE, BasicType.SHORT, BasicType.INT, BasicType.LONG, BasicType.BOOLEAN}
_TEXTS = {BasicType.STRING, BasicType.CHAR}


@dataclass(frozen=True)
class KeyedWriting:
    """Writes one keyed state.

    Attributes:
        directory: absolute address of the savepoint.
        where: the state, for names and error messages.
        schema: its descriptor as texts.
        key_types: declared types of `key`, `namespace` and `map_key`, where they are known.
        max_parallelism, parallelism: of the operator: its key groups and its pieces.
        expiration: What is expired, and so left out.
    """

    directory: str
    where: StateLocation
    schema: Mapping[str, object]
    key_types: Mapping[str, str]
    max_parallelism: int
    parallelism: int
    expiration: Expiration = field(default_factory=Expiration)

    @property
    def values(self) -> StoredValues:
        """The values of the state."""
        return StoredValues(self.where, self.schema, is_keyed=True)

    def place(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows with their key group and piece behind them."""
        for batch in batches:
            keys = self.stored_keys("key", batch.column("key"))
            groups = key_groups_of_hashes(_hashes(keys), self.max_parallelism).astype(np.int32)
            pieces = groups.astype(np.int64) * self.parallelism // self.max_parallelism
            columns = [*batch.columns, pa.array(groups), pa.array(pieces.astype(np.int32))]
            yield pa.record_batch(columns, names=[*batch.schema.names, *PLACE.names])

    def write(self, task: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write rows that come sorted by piece; one row about each file.

        Args:
            task: A number that no other task and no other attempt of this one has.

        Raises:
            StateError: A key comes twice, or a value does not fit its type.
        """
        for piece, table in _pieces(batches):
            yield self._written(piece, task, table)

    def _written(self, piece: int, task: int, rows: pa.Table) -> pa.RecordBatch:
        table = sorted_table(self._changes(rows.combine_chunks()))
        self._check_distinct(table)
        texts = {name: str(text) for name, text in without_mark(self.schema).items()}
        texts["value_encoding"] = "pickle" if self.values.is_pickled else "typed"
        info = SegmentInfo(self.where.operator_uid, self.where.state_name, texts)
        table = without_expired(self.expiration, table, info, is_whole=True)
        data = write_segment(table, info)
        name = f"{quote(self.where.state_name, safe='')}-{piece}-{task}.parquet"
        path = f"{as_file_name(self.where.operator_uid)}/{name}"
        file = open_storage(self.directory).write_file(path, data)
        footer = footer_sha256(pa.BufferReader(data), len(data))
        row = (piece, file.path, file.size_bytes, file.sha256, table.num_rows, footer)
        return pa.RecordBatch.from_pylist([dict(zip(WRITTEN.names, row, strict=True))], schema=WRITTEN)

    def _changes(self, rows: pa.Table) -> pa.Table:
        """The rows as a change table."""
        count = rows.num_rows
        names = rows.column_names
        unused = pa.nulls(count)
        keys = {
            name: self.stored_keys(name, _array(rows[name])) if name in names else unused
            for name in KEY_COLUMNS
        }
        no_pickles = pa.nulls(count, pa.large_binary())
        return pa.table(
            {
                "key_group": rows["key_group"].cast(pa.uint16()),
                **keys,
                "value": self.cast("value", rows["value"], self.values.arrow_type),
                "value_encoded": (
                    rows["value_encoded"].cast(pa.large_binary()) if "value_encoded" in names else no_pickles
                ),
                "expiry": _stored_expiry(_array(rows["expiry"])) if "expiry" in names else unused,
                "deleted": pa.array(np.zeros(count, dtype=bool)),
            }
        )

    def cast(self, name: str, column: Any, target: pa.DataType) -> Any:
        try:
            return column.cast(target)
        except pa.ArrowException as error:
            raise StateError(f"{self.where}: a {name} does not fit {target}: {error}") from error

    def stored_keys(self, name: str, column: pa.Array) -> pa.Array:
        """A key column as segments hold it."""
        if column.null_count:
            raise StateError(f"{self.where}: a {name} is null; drop such rows before they are written")
        declared = self.key_types.get(name)
        type_info = None if declared is None else type_from_text(declared)
        if _is_one_of(type_info, _INTEGERS) or (type_info is None and _is_integer(column.type)):
            return self.cast(name, column, pa.int64())
        if _is_one_of(type_info, _TEXTS) or (type_info is None and pa.types.is_string(column.type)):
            return self.cast(name, column, pa.large_string())
        encode = encode_map_key if name == "map_key" else encode_key
        return pa.array([encode(key) for key in self._live_keys(name, column, type_info)], ENCODED_KEY)

    def _live_keys(self, name: str, column: pa.Array, type_info: TypeInformation | None) -> list[Any]:
        if type_info is None or isinstance(type_info, PickledBytesTypeInfo):
            # Only tuples can be keys among what Spark hands over as structs.
            return [tuple(key.values()) if isinstance(key, dict) else key for key in column.to_pylist()]
        layout = layout_of(type_info)
        return [layout.back(plain) for plain in layout.plains(self.cast(name, column, layout.arrow_type))]

    def _check_distinct(self, table: pa.Table) -> None:
        """Raise unless every key, with its namespace and map key, is there once."""
        by = [name for name in KEY_COLUMNS if not pa.types.is_null(table[name].type)]
        counted = table.group_by(by).aggregate([([], "count_all")])
        if counted.num_rows == table.num_rows:
            return
        again = counted.sort_by([("count_all", "descending")]).slice(0, 1)
        entry = {name: key_values(again[name].combine_chunks())[0] for name in by}
        raise StateError(
            f"{self.where}: {again['count_all'][0].as_py()} rows have "
            f"{', '.join(f'{name} {value!r:.100}' for name, value in entry.items())}; a state has one entry "
            f"for each: aggregate the DataFrame first"
        )


@dataclass(frozen=True)
class Copying:
    """Copies files into the savepoint, segments without expired state.

    Attributes:
        directory: absolute address of the savepoint.
        files: what is copied, and the path of the copy.
        segments: those of the files that are segments of state with a time to live, by path.
        expiration: What is expired.
    """

    directory: str
    files: tuple[tuple[FileHandle, str], ...]
    segments: Mapping[str, SegmentHandle]
    expiration: Expiration = field(default_factory=Expiration)

    def copy(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Copy the files whose numbers come in, each compared with its checksum; one row about each."""
        storage = open_storage(self.directory)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                source, path = self.files[number]
                data, segment = self._copied(storage.read_file(source), self.segments.get(source.path))
                file = storage.write_file(path, data)
                row = (number, file.path, file.size_bytes, file.sha256, *segment)
                yield pa.RecordBatch.from_pylist([dict(zip(COPIED.names, row, strict=True))], schema=COPIED)

    def _copied(
        self, data: bytes, segment: SegmentHandle | None
    ) -> tuple[bytes | memoryview, tuple[int | None, str | None]]:
        """The content of a copy; of a segment that changes also its rows and the checksum of its footer."""
        if segment is None:
            return data, (None, None)
        file = SegmentFile(pa.BufferReader(data), segment.file.path)
        table = file.read_all()
        live = without_expired(self.expiration, table, file.info, is_whole=segment.is_base)
        if live is table:
            return data, (None, None)
        written = write_segment(live, file.info)
        return written, (live.num_rows, footer_sha256(pa.BufferReader(written), len(written)))


def _pieces(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, pa.Table]]:
    """The rows of one piece after the other; only one is in memory."""
    current: int | None = None
    held: list[pa.RecordBatch] = []
    for batch in batches:
        numbers = batch.column("piece").to_numpy()
        starts = np.flatnonzero(np.diff(numbers, prepend=numbers[:1] - 1)).tolist()
        for start, end in zip(starts, [*starts[1:], len(numbers)], strict=True):
            if current is not None and numbers[start] != current:
                yield current, pa.Table.from_batches(held)
                held = []
            current = int(numbers[start])
            held.append(batch.slice(start, end - start))
    if current is not None:
        yield current, pa.Table.from_batches(held)


def _hashes(keys: pa.Array) -> Any:
    """Stable hashes of a key column, as the runtime's."""
    if pa.types.is_int64(keys.type):
        return hash_int64(keys.to_numpy(zero_copy_only=False))
    return hash_keys(key_values(keys))


def _stored_expiry(column: pa.Array) -> pa.Array:
    """Instants as segments hold them: milliseconds, without a time zone."""
    target = pa.timestamp("ms")
    if pa.types.is_list(column.type):
        in_utc = column.cast(pa.list_(pa.timestamp("us", "UTC"))).cast(pa.list_(pa.timestamp("us")))
        return in_utc.cast(pa.list_(target), safe=False)
    return column.cast(pa.timestamp("us", "UTC")).cast(pa.timestamp("us")).cast(target, safe=False)


def _array(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def _is_one_of(type_info: TypeInformation | None, types: set[BasicType]) -> bool:
    return isinstance(type_info, BasicTypeInfo) and type_info.basic_type in types


def _is_integer(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_boolean(kind))
