"""From a frozen write buffer to a change table: vectorised, and in pieces that release the GIL often."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from itertools import islice
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .key_codec import encode_key
from .key_hashing import hash_int64, hash_keys, key_groups_of_hashes
from .segments import ENCODED_KEY, sorted_table
from .tables import DELETED, FrozenTable
from .value_codecs import Opaque, ValueCodec

# Entries per step in Python: about three milliseconds under the GIL. Smaller steps would not be kinder:
# each hand-over of the GIL costs the snapshot thread up to Python's switch interval of 5 ms.
CHUNK_ENTRIES = 16_384


# A key column, and the hashes of its keys.
_KeyColumn: TypeAlias = tuple[pa.ChunkedArray, npt.NDArray[np.uint64]]


class _Chunk:
    """Some entries of a buffer: all live, or all deleted (`values` is None)."""

    __slots__ = ("keys", "map_keys", "values")

    def __init__(self, keys: list[Any], map_keys: list[Any] | None, values: list[Any] | None) -> None:
        self.keys = keys
        self.map_keys = map_keys
        self.values = values


def change_table(frozen: FrozenTable, max_parallelism: int) -> pa.Table:
    """The entries of a frozen buffer, sorted like LMDB keys.

    Raises:
        StateError: when a value cannot be stored as its declared type.
        KeyTypeError: when a key or map key has no deterministic encoding.
    """
    table = frozen.table
    chunks = list(_chunks(frozen))
    keys, hashes = _key_column([chunk.keys for chunk in chunks], table.key_hints, "key")
    rows = len(keys)
    if table.is_map:
        nested = [chunk.map_keys or [] for chunk in chunks]
        map_keys, _ = _key_column(nested, table.key_hints, "map_key")
    else:
        map_keys = pa.chunked_array([pa.nulls(rows)])
    values, pickled = _value_columns(chunks, table.codec)
    deleted = np.repeat([chunk.values is None for chunk in chunks], [len(chunk.keys) for chunk in chunks])
    return sorted_table(
        pa.table(
            {
                "key_group": pa.array(key_groups_of_hashes(hashes, max_parallelism)),
                "key": keys,
                "map_key": map_keys,
                "value": values,
                "value_pickled": pickled,
                "deleted": pa.array(deleted),
            }
        )
    )


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


def _key_column(chunks: list[list[Any]], hints: dict[str, int], name: str) -> _KeyColumn:
    """The keys as the simplest column that holds them all, and their hashes."""
    for form in range(hints.get(name, 0), len(_FORMS)):
        result = _FORMS[form](chunks)
        if result is not None:
            hints[name] = form
            return result
    raise AssertionError("the last form takes every key or raises KeyTypeError")


def _int_column(chunks: list[list[Any]]) -> _KeyColumn | None:
    try:
        # array() refuses floats and text, and takes a bool as the integer it equals.
        integers = [array("q", chunk) for chunk in chunks]
    except (TypeError, OverflowError):
        return None
    numbers = np.concatenate([np.frombuffer(part, dtype=np.int64) for part in integers])
    return pa.chunked_array([pa.array(numbers)]), hash_int64(numbers)


def _text_column(chunks: list[list[Any]]) -> _KeyColumn | None:
    if any(set(map(type, chunk)) != {str} for chunk in chunks):
        return None
    try:
        columns = [pa.array(chunk, type=pa.large_string()) for chunk in chunks]
    except UnicodeEncodeError:
        return None
    return pa.chunked_array(columns), np.concatenate([hash_keys(chunk) for chunk in chunks])


def _encoded_column(chunks: list[list[Any]]) -> _KeyColumn | None:
    columns = [pa.array(list(map(encode_key, chunk)), type=ENCODED_KEY) for chunk in chunks]
    return pa.chunked_array(columns), np.concatenate([hash_keys(chunk) for chunk in chunks])


_FORMS = (_int_column, _text_column, _encoded_column)


def _value_columns(chunks: list[_Chunk], codec: ValueCodec) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    values, pickled = [], []
    for chunk in chunks:
        rows = len(chunk.keys)
        if chunk.values is None:
            values.append(pa.nulls(rows, codec.arrow_type))
            pickled.append(pa.nulls(rows, pa.large_binary()))
        else:
            column, opaque = codec.to_arrow(chunk.values)
            values.append(column)
            pickled.append(_opaque_column(rows, opaque))
    return pa.chunked_array(values), pa.chunked_array(pickled)


def _opaque_column(rows: int, opaque: Opaque) -> pa.Array:
    if not opaque:
        return pa.nulls(rows, pa.large_binary())
    return pa.array([opaque.get(row) for row in range(rows)], type=pa.large_binary())
