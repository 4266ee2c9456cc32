"""From a frozen write buffer to a change table: vectorised, and in pieces that release the GIL often."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import nullcontext
from itertools import groupby, islice
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..lmdb.write_interleaving import WriteInterleaver
from ..serializers.key_codec import encode_map_key
from ..serializers.key_hashing import hash_int64, hash_keys, key_groups_of_hashes
from ..serializers.packed_codec import PackedCodec
from ..serializers.value_codecs import Opaque, ValueCodec
from ..snapshots.segments import ENCODED_KEY
from ..ttl.expiry import ExpiryLayout
from .change_merge import latest_rows, sorted_table, with_one_key_type
from .tables import DELETED, FrozenTable, PackedRows, StateTable

# Entries per step in Python: about three milliseconds under the GIL. Smaller steps would not be kinder:
# each hand-over of the GIL costs the snapshot thread up to Python's switch interval of 5 ms.
CHUNK_ENTRIES = 16_384


class _Chunk:
    """Some entries of a buffer: all live, or all deleted (`values` is None)."""

    __slots__ = ("keys", "map_keys", "values")

    def __init__(self, keys: list[Any], map_keys: list[Any] | None, values: list[Any] | None) -> None:
        self.keys = keys
        self.map_keys = map_keys
        self.values = values


def change_table(frozen: FrozenTable, max_parallelism: int, turns: WriteInterleaver) -> pa.Table:
    """The entries of a frozen buffer, sorted like LMDB keys.

    Raises:
        StateError: when a value cannot be stored as its declared type.
        KeyTypeError: when a key or map key has no deterministic encoding.
    """
    parts = list(frozen.log)
    if frozen.changes:
        parts.append(_change_rows(frozen, max_parallelism, None if frozen.is_small else turns))
    if len(parts) == 1 and isinstance(parts[0], pa.Table):
        return sorted_table(parts[0])
    tables = list(_as_tables(parts, frozen.table, max_parallelism))
    return latest_rows(pa.concat_tables(with_one_key_type(tables)).combine_chunks())


def drained_rows(frozen: FrozenTable, max_parallelism: int) -> pa.Table | PackedRows:
    """The changes of a buffer, in no particular order, as is cheapest for the task's thread.

    Raises:
        StateError: when a value cannot be stored as its declared type.
        KeyTypeError: when a key has no deterministic encoding.
    """
    rows = _packed_rows(frozen)
    return _change_rows(frozen, max_parallelism, None) if rows is None else rows


def _packed_rows(frozen: FrozenTable) -> PackedRows | None:
    """The changes of a buffer, packed; None if they cannot be."""
    table, changes = frozen.table, frozen.changes
    codec = table.codec
    is_plain = not (frozen.has_deletes or table.is_namespaced or table.is_map or table.expiry)
    if not is_plain or not isinstance(codec, PackedCodec):
        return None
    try:
        keys = struct.pack(f"{len(changes)}q", *changes)
    except struct.error:
        return None
    fields = codec.packed_fields(list(changes.values()))
    return None if fields is None else PackedRows(keys, fields, len(changes))


def _as_tables(
    parts: list[pa.Table | PackedRows], table: StateTable, max_parallelism: int
) -> Iterator[pa.Table]:
    """The parts in their order as change tables; packed ones in a row become one."""
    for kind, group in groupby(parts, type):
        rows = list(group)
        yield from [_unpacked(rows, table, max_parallelism)] if kind is PackedRows else rows


def _unpacked(parts: list[PackedRows], table: StateTable, max_parallelism: int) -> pa.Table:
    assert isinstance(table.codec, PackedCodec)
    keys = np.frombuffer(b"".join([part.keys for part in parts]), dtype=np.int64)
    values = table.codec.column_of([b"".join(field) for field in zip(*(part.fields for part in parts))])
    unused = pa.nulls(len(keys))
    return pa.table(
        {
            "key_group": pa.array(key_groups_of_hashes(hash_int64(keys), max_parallelism)),
            "key": pa.array(keys),
            "namespace": unused,
            "map_key": unused,
            "value": values,
            "value_encoded": pa.nulls(len(keys), pa.large_binary()),
            "expiry": unused,
            "deleted": pa.repeat(False, len(keys)),
        }
    )


def _change_rows(frozen: FrozenTable, max_parallelism: int, turns: WriteInterleaver | None) -> pa.Table:
    """The changes of a buffer that are not columns yet, in no particular order.

    Args:
        turns: with the task's loop; None on its own thread, and for what takes less time than a turn.
    """
    table = frozen.table
    chunks, (values, encoded, expiries) = _value_columns(_chunks(frozen), table.codec, table.expiry, turns)
    hints = table.key_hints
    key_lists, namespace_lists = _keys_and_namespaces(chunks, table.is_namespaced)
    keys = _key_column(key_lists, hints, "key")
    deleted = np.repeat([chunk.values is None for chunk in chunks], [len(chunk.keys) for chunk in chunks])
    unused = pa.chunked_array([pa.nulls(len(keys))])
    return pa.table(
        {
            "key_group": pa.array(_key_groups(keys, key_lists, max_parallelism)),
            "key": keys,
            "namespace": _key_column(namespace_lists, hints, "namespace") if table.is_namespaced else unused,
            "map_key": (
                _key_column([chunk.map_keys or [] for chunk in chunks], hints, "map_key")
                if table.is_map
                else unused
            ),
            "value": values,
            "value_encoded": encoded,
            "expiry": unused if expiries is None else expiries,
            "deleted": pa.array(deleted),
        }
    )


def _keys_and_namespaces(
    chunks: list[_Chunk], is_namespaced: bool
) -> tuple[list[list[Any]], list[list[Any]]]:
    if not is_namespaced:
        return [chunk.keys for chunk in chunks], []
    keys = [[key for key, _ in chunk.keys] for chunk in chunks]
    return keys, [[namespace for _, namespace in chunk.keys] for chunk in chunks]


def _key_groups(
    column: pa.ChunkedArray, keys: list[list[Any]], max_parallelism: int
) -> npt.NDArray[np.uint16]:
    if pa.types.is_int64(column.type):
        hashes = hash_int64(column.to_numpy())
    else:
        hashes = np.concatenate([hash_keys(part) for part in keys])
    return key_groups_of_hashes(hashes, max_parallelism)


def _chunks(frozen: FrozenTable) -> Iterator[_Chunk]:
    pieces = _map_pieces(frozen.changes) if frozen.table.is_map else _flat_pieces(frozen.changes)
    for keys, map_keys, values in pieces:
        if frozen.has_deletes:
            yield from _separated(keys, map_keys, values)
        else:
            yield _Chunk(keys, map_keys, values)


def _flat_pieces(changes: dict[Any, Any]) -> Iterator[tuple[list[Any], None, list[Any]]]:
    keys, values = iter(changes), iter(changes.values())
    while piece := list(islice(keys, CHUNK_ENTRIES)):
        yield piece, None, list(islice(values, CHUNK_ENTRIES))


def _map_pieces(
    changes: dict[Any, dict[Any, Any]],
) -> Iterator[tuple[list[Any], list[Any], list[Any]]]:
    entries = ((key, map_key, value) for key, inner in changes.items() for map_key, value in inner.items())
    while piece := list(islice(entries, CHUNK_ENTRIES)):
        keys, map_keys, values = zip(*piece, strict=True)
        yield list(keys), list(map_keys), list(values)


def _separated(keys: list[Any], map_keys: list[Any] | None, values: list[Any]) -> Iterator[_Chunk]:
    """The live entries, then the deleted ones."""
    live = [index for index, value in enumerate(values) if value is not DELETED]
    dead = [index for index, value in enumerate(values) if value is DELETED]
    for indices in (live, dead):
        if indices:
            yield _Chunk(
                [keys[index] for index in indices],
                None if map_keys is None else [map_keys[index] for index in indices],
                [values[index] for index in indices] if indices is live else None,
            )


def _key_column(chunks: list[list[Any]], hints: dict[str, int], name: str) -> pa.ChunkedArray:
    """The keys as the simplest column that holds them all."""
    for layout in range(hints.get(name, 0), len(_FORMS)):
        column = _FORMS[layout](chunks)
        if column is not None:
            hints[name] = layout
            return column
    raise AssertionError("the last form takes every key or raises KeyTypeError")


def _int_column(chunks: list[list[Any]]) -> pa.ChunkedArray | None:
    try:
        # struct refuses floats and text, and takes a bool as the integer it equals.
        integers = [struct.pack(f"{len(chunk)}q", *chunk) for chunk in chunks]
    except struct.error:
        return None
    numbers = np.concatenate([np.frombuffer(part, dtype=np.int64) for part in integers])
    return pa.chunked_array([pa.array(numbers)])


def _text_column(chunks: list[list[Any]]) -> pa.ChunkedArray | None:
    if any(set(map(type, chunk)) != {str} for chunk in chunks):
        return None
    try:
        columns = [pa.array(chunk, type=pa.large_string()) for chunk in chunks]
    except UnicodeEncodeError:
        return None
    return pa.chunked_array(columns)


def _encoded_column(chunks: list[list[Any]]) -> pa.ChunkedArray | None:
    columns = [pa.array(list(map(encode_map_key, chunk)), type=ENCODED_KEY) for chunk in chunks]
    return pa.chunked_array(columns)


_FORMS = (_int_column, _text_column, _encoded_column)


def _value_columns(
    pieces: Iterator[_Chunk],
    codec: ValueCodec,
    layout: ExpiryLayout | None,
    turns: WriteInterleaver | None,
) -> tuple[list[_Chunk], tuple[pa.ChunkedArray, pa.ChunkedArray, pa.ChunkedArray | None]]:
    """The pieces of a buffer, and the columns of what is in them; in turns with the task's loop."""
    chunks, values, encoded, expiries = [], [], [], []
    while True:
        with nullcontext() if turns is None else turns.writing():
            chunk = next(pieces, None)
            if chunk is None:
                break
            chunks.append(chunk)
            rows = len(chunk.keys)
            if chunk.values is None:
                values.append(pa.nulls(rows, codec.arrow_type))
                encoded.append(pa.nulls(rows, pa.large_binary()))
                if layout is not None:
                    expiries.append(pa.nulls(rows, layout.arrow_type))
                continue
            plain = chunk.values
            if layout is not None:
                plain, column = layout.split(plain)
                expiries.append(column)
            column, opaque = codec.to_arrow(plain)
            values.append(column)
            encoded.append(_opaque_column(rows, opaque))
    return chunks, (
        pa.chunked_array(values),
        pa.chunked_array(encoded),
        None if layout is None else pa.chunked_array(expiries),
    )


def _opaque_column(rows: int, opaque: Opaque) -> pa.Array:
    if not opaque:
        return pa.nulls(rows, pa.large_binary())
    return pa.array([opaque.get(row) for row in range(rows)], type=pa.large_binary())
