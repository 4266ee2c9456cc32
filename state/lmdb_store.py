"""The LMDB environment behind the write buffers of one operator in one subtask.

Layout of a key: state id (2 bytes) ‖ key group (2 bytes, big endian) ‖ key ‖ namespace ‖ map key.
Keys are encoded by `key_codec` and delimit themselves, so the entries of a key, and of a key group, are
one range. The namespace of a state without namespaces is `00`. LMDB bounds keys at 511 bytes: a key or map
key longer than 236, or a namespace longer than 33, is stored as `FE` ‖ SHA-256, and a map key so shortened
stands in front of its value. In front of that stands the expiry, in states with a time to live.

Nothing here is durable: the files die with the attempt, and checkpoints hold what matters.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import struct
import threading
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import lmdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..common.errors import CheckpointStorageError
from .expiry import ExpiryForm
from .key_codec import (
    INT_KEY_DTYPE,
    decode_key,
    decode_key_at,
    encode_key,
    encode_keys,
    encode_map_key,
    fill_int64,
)
from .key_hashing import key_group_of
from .segments import ENCODED_KEY, column_slice, key_values, opaque_values
from .tables import MISSING
from .value_codecs import ValueCodec
from .value_forms import binary_values

_PREFIX = struct.Struct(">HH")
_STATE = struct.Struct(">H")
_LENGTH = struct.Struct(">I")
_LONGEST_COMPONENT = 236
_LONGEST_NAMESPACE = 33
# In front of a hash: greater than the tag of every encoded key.
_HASHED = b"\xfe"
_NO_NAMESPACE = b"\x00"
_CHUNK_ENTRIES = 32_768
_INT_LMDB_KEY = np.dtype([("state", ">u2"), ("group", ">u2"), ("key", INT_KEY_DTYPE), ("namespace", "u1")])


class LmdbStore:
    """One LMDB environment. Reads come from the task's thread, writes from the snapshot thread.

    Args:
        path: directory of the environment; whatever is there is removed first.
        map_size_bytes: initial size of the map, doubled whenever it is full.
        operator_name: for error messages.
    """

    def __init__(self, path: str, map_size_bytes: int, operator_name: str) -> None:
        shutil.rmtree(path, ignore_errors=True)
        self._path = path
        self._operator_name = operator_name
        self._map_size_bytes = map_size_bytes
        self._process_id = os.getpid()
        self._is_open = True
        # Growing the map is allowed only while no transaction is open in this process.
        self._no_readers = threading.Lock()
        try:
            os.makedirs(path)
            # Lock on: with lock=False a commit may reuse pages that a reader on the other thread still
            # looks at. It costs 0.1 µs per read.
            self._env = lmdb.open(path, map_size=map_size_bytes, sync=False, metasync=False, writemap=False)
        except (lmdb.Error, OSError) as error:
            raise self._error("opening", error) from error

    def table(
        self,
        state_id: int,
        codec: ValueCodec,
        max_parallelism: int,
        is_namespaced: bool = False,
        expiry: ExpiryForm | None = None,
    ) -> LmdbTable:
        """A state of its own in this environment."""
        return LmdbTable(self, state_id, codec, max_parallelism, is_namespaced, expiry)

    def get(self, key: bytes) -> bytes | None:
        """The value of a key, read in a transaction of its own so that no old page stays pinned."""
        with self._no_readers, self._env.begin() as transaction:
            value: bytes | None = transaction.get(key)
            return value

    def scan(self, prefix: bytes, start: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        """The first entries whose key starts with `prefix`, which is cut off, in order.

        Args:
            start: where to start behind the prefix, inclusive.
            limit: how many to return at most: a transaction must not stay open for long.
        """
        found: list[tuple[bytes, bytes]] = []
        with self._no_readers, self._env.begin() as transaction:
            cursor = transaction.cursor()
            if cursor.set_range(prefix + start):
                for key, value in islice(cursor, limit):
                    if not key.startswith(prefix):
                        break
                    found.append((key[len(prefix) :], value))
        return found

    def write(self, batches: Iterator[_Batch]) -> None:
        """Apply batches in one transaction.

        Raises:
            lmdb.MapFullError: when they do not fit; nothing is written then.
            CheckpointStorageError: when the local disk refuses.
        """
        try:
            with self._env.begin(write=True) as transaction:
                cursor = transaction.cursor()
                for batch in batches:
                    cursor.putmulti(batch.puts)
                    for key in batch.deletes:
                        transaction.delete(key)
        except lmdb.MapFullError:
            raise
        except (lmdb.Error, OSError) as error:
            raise self._error("writing", error) from error

    def grow(self) -> None:
        """Double the map."""
        with self._no_readers:
            self._map_size_bytes *= 2
            try:
                self._env.set_mapsize(self._map_size_bytes)
            except (lmdb.Error, OSError) as error:
                raise self._error("growing", error) from error

    @property
    def map_size_bytes(self) -> int:
        """Current size of the map."""
        return self._map_size_bytes

    def close(self) -> None:
        """Close the environment and remove its files. May be called twice."""
        # A forked child has a copy of this object, and must not touch the parent's files.
        if self._is_open and os.getpid() == self._process_id:
            self._is_open = False
            with self._no_readers:
                self._env.close()
            shutil.rmtree(self._path, ignore_errors=True)

    def _error(self, doing: str, error: Exception) -> CheckpointStorageError:
        return CheckpointStorageError(
            f"operator {self._operator_name!r}: {doing} its local state in {self._path} failed: "
            f"{error}; free space there, or choose another directory for local state"
        )


class _Batch:
    """Some rows of a change table as LMDB entries."""

    __slots__ = ("deletes", "puts")

    def __init__(self, puts: Iterable[tuple[bytes, bytes]], deletes: list[bytes]) -> None:
        self.puts = puts
        self.deletes = deletes


class LmdbTable:
    """One state in an LMDB environment.

    Args:
        is_namespaced: whether keys are pairs of key and namespace.
        expiry: how entries carry their expiry; None without a time to live.
    """

    HASHED = _HASHED

    def __init__(
        self,
        store: LmdbStore,
        state_id: int,
        codec: ValueCodec,
        max_parallelism: int,
        is_namespaced: bool,
        expiry: ExpiryForm | None,
    ) -> None:
        self._store = store
        self._state_id = state_id
        self._codec = codec
        self._max_parallelism = max_parallelism
        self._is_namespaced = is_namespaced
        self._expiry = expiry

    def get(self, key: Any) -> Any:
        """The value of a key; None when there is none."""
        data = self._store.get(self._prefix(key))
        return None if data is None else self._decode(data)

    def get_entry(self, key: Any, map_key: Any) -> Any:
        """The value of a map entry; `MISSING` when there is none."""
        component = self.component(map_key)
        data = self.stored(key, component)
        return MISSING if data is None else self.decode_entry(component, data)

    @staticmethod
    def component(map_key: Any) -> bytes:
        """The last part of the LMDB key of a map entry: in order, but for those that start with `HASHED`."""
        return _component(encode_map_key(map_key))

    def stored(self, key: Any, component: bytes) -> bytes | None:
        """What is stored for a map key, by its component of LMDB keys."""
        return self._store.get(self._prefix(key) + component)

    def entries(self, key: Any, start: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        """The first entries of a key from a component on, as components and what is stored for them."""
        return self._store.scan(self._prefix(key), start, limit)

    def map_key(self, component: bytes, data: bytes) -> Any:
        """The map key of an entry."""
        if component[:1] != _HASHED:
            return decode_key(component)
        rest = data if self._expiry is None else self._expiry.cut(data)[1]
        return decode_key(rest[4 : 4 + _LENGTH.unpack_from(rest)[0]])

    def decode_entry(self, component: bytes, data: bytes) -> Any:
        """The value of an entry."""
        return self._decode(data, has_map_key=component[:1] == _HASHED)

    def scan(self, start: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        """The first entries of the whole state from a place on: what tells their keys, and their values."""
        return self._store.scan(_STATE.pack(self._state_id), start, limit)

    def keys_at(self, place: bytes, data: bytes, is_map: bool) -> tuple[Any, ...] | None:
        """The key, and map key, of an entry that `scan` found; None when it is stored as a hash."""
        at = _PREFIX.size - _STATE.size
        if place[at : at + 1] == _HASHED:
            return None
        key, at = decode_key_at(place, at)
        if not self._is_namespaced:
            at += 1
        elif place[at : at + 1] == _HASHED:
            return None
        else:
            namespace, at = decode_key_at(place, at)
            key = (key, namespace)
        return (key, self.map_key(place[at:], data)) if is_map else (key,)

    def write(self, table: pa.Table) -> None:
        """Apply a change table in one transaction, growing the map as often as needed."""
        while True:
            try:
                self._store.write(self._batches(table))
                return
            except lmdb.MapFullError:
                self._store.grow()

    def _prefix(self, key: Any) -> bytes:
        namespace = _NO_NAMESPACE
        if self._is_namespaced:
            key, namespace = key
            namespace = _namespace(encode_key(namespace))
        group = key_group_of(key, self._max_parallelism)
        return _PREFIX.pack(self._state_id, group) + _component(encode_key(key)) + namespace

    def _decode(self, data: bytes, has_map_key: bool = False) -> Any:
        """The value, or the entry of a state with a time to live."""
        if self._expiry is None:
            return self._codec.decode(_without_map_key(data) if has_map_key else data)
        expiry, rest = self._expiry.cut(data)
        return self._expiry.attach(
            expiry, self._codec.decode(_without_map_key(rest) if has_map_key else rest)
        )

    def _batches(self, table: pa.Table) -> Iterator[_Batch]:
        has_deletes = pc.any(table["deleted"]).as_py()
        for start in range(0, table.num_rows, _CHUNK_ENTRIES):
            part = table.slice(start, _CHUNK_ENTRIES)
            dead = part.filter(part["deleted"]) if has_deletes else part.slice(0, 0)
            live = part.filter(pc.invert(part["deleted"])) if has_deletes else part
            yield _Batch(self._puts(live), self._full_keys(dead))

    def _puts(self, part: pa.Table) -> Iterable[tuple[bytes, bytes]]:
        if part.num_rows == 0:
            return ()
        keys = self._full_keys(part)
        values = self._codec.stored_bytes(
            column_slice(part["value"], 0, part.num_rows),
            opaque_values(column_slice(part["value_pickled"], 0, part.num_rows)),
        )
        if not pa.types.is_null(part["map_key"].type):
            encoded = _encoded(part["map_key"].combine_chunks())
            values = list(map(_with_map_key, encoded, values))
        if self._expiry is not None:
            prefixes = self._expiry.prefixes(column_slice(part["expiry"], 0, part.num_rows))
            values = list(map(bytes.__add__, prefixes, values))
        return zip(keys, values, strict=True)

    def _full_keys(self, part: pa.Table) -> list[bytes]:
        if part.num_rows == 0:
            return []
        keys = self._row_keys(part)
        if self._is_namespaced:
            namespaces = map(_namespace, _encoded(part["namespace"].combine_chunks()))
            keys = [key[:-1] + namespace for key, namespace in zip(keys, namespaces, strict=True)]
        if pa.types.is_null(part["map_key"].type):
            return keys
        components = map(_component, _encoded(part["map_key"].combine_chunks()))
        return [key + component for key, component in zip(keys, components, strict=True)]

    def _row_keys(self, part: pa.Table) -> list[bytes]:
        """Everything of the LMDB keys but the map keys, without namespaces."""
        groups = part["key_group"].to_numpy()
        column = part["key"]
        if pa.types.is_int64(column.type):
            rows = np.zeros(part.num_rows, dtype=_INT_LMDB_KEY)
            rows["state"] = self._state_id
            rows["group"] = groups
            fill_int64(rows["key"], column.to_numpy())
            keys: list[bytes] = rows.view(f"V{_INT_LMDB_KEY.itemsize}").tolist()
            return keys
        encoded = _encoded(column.combine_chunks())
        state_id = self._state_id
        return [
            _PREFIX.pack(state_id, group) + _component(key) + _NO_NAMESPACE
            for group, key in zip(groups.tolist(), encoded, strict=True)
        ]


def _with_map_key(encoded: bytes, value: bytes) -> bytes:
    """A stored value, behind its map key where the LMDB key has only the hash of that."""
    if len(encoded) <= _LONGEST_COMPONENT:
        return value
    return _LENGTH.pack(len(encoded)) + encoded + value


def _encoded(column: pa.Array) -> list[bytes]:
    return binary_values(column) if column.type == ENCODED_KEY else encode_keys(key_values(column))


def _component(encoded: bytes) -> bytes:
    if len(encoded) <= _LONGEST_COMPONENT:
        return encoded
    return _HASHED + hashlib.sha256(encoded).digest()


def _namespace(encoded: bytes) -> bytes:
    return encoded if len(encoded) <= _LONGEST_NAMESPACE else _HASHED + hashlib.sha256(encoded).digest()


def _without_map_key(data: bytes) -> bytes:
    return data[4 + _LENGTH.unpack_from(data)[0] :]
