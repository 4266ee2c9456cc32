"""The tables in LMDB behind the write buffers of one operator in one subtask.

Layout of a key: state id (2 bytes) ‖ key group (2 bytes, big endian) ‖ key ‖ namespace ‖ map key.
Keys are encoded by `key_codec` and delimit themselves, so the entries of a key, and of a key group, are
one range. The namespace of a state without namespaces is `00`. LMDB bounds keys at 511 bytes: a key or map
key longer than 236, or a namespace longer than 33, is stored as `FE` ‖ SHA-256, and a map key so shortened
stands in front of its value. In front of that stands the expiry, in states with a time to live.
"""

from __future__ import annotations

import hashlib
import struct
from array import array
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..keyed.tables import MISSING
from ..serializers.key_codec import (
    INT_KEY_DTYPE,
    decode_key,
    decode_key_at,
    encode_key,
    encode_keys,
    encode_map_key,
    fill_int64,
)
from ..serializers.key_hashing import key_group_of, key_groups_of
from ..serializers.value_codecs import ValueCodec
from ..serializers.value_layouts import binary_values
from ..snapshots.segments import ENCODED_KEY, column_slice, key_values, opaque_values
from ..ttl.expiry import ExpiryLayout, is_stored_expired
from .environment import LmdbEnvironment, WriteBatch

_PREFIX = struct.Struct(">HH")
_STATE = struct.Struct(">H")
_LENGTH = struct.Struct(">I")
_LONGEST_COMPONENT = 236
_LONGEST_NAMESPACE = 33
# In front of a hash: greater than the tag of every encoded key.
_HASHED = b"\xfe"
_NO_NAMESPACE = b"\x00"
# Written in some milliseconds, which is how long the task's loop stands aside.
_CHUNK_ENTRIES = 16_384
_CHUNK_BYTES = 2 << 20
# Looked at per checkpoint or spill: a round over ten million entries takes five minutes of checkpoints
# a second, and some 20 ms of each.
_SWEEP_ENTRIES = 32_768
_INT_LMDB_KEY = np.dtype([("state", ">u2"), ("group", ">u2"), ("key", INT_KEY_DTYPE), ("namespace", "u1")])


class LmdbStore(LmdbEnvironment):
    """The environment of all keyed states of one operator in one subtask."""

    def table(
        self,
        state_id: int,
        codec: ValueCodec,
        max_parallelism: int,
        is_namespaced: bool = False,
        expiry: ExpiryLayout | None = None,
    ) -> LmdbTable:
        """A state of its own in this environment."""
        return LmdbTable(self, state_id, codec, max_parallelism, is_namespaced, expiry)

    def sweep_expired(self, times_ms: dict[int, int]) -> int:
        """Look at the next entries, and remove those of states with a time to live that are over.

        Args:
            times_ms: what time it is, by state id; other states are passed over.

        Returns:
            How many were removed.
        """

        def is_over(key: bytes, value: bytes) -> bool:
            now_ms = times_ms.get(_STATE.unpack_from(key)[0])
            return now_ms is not None and is_stored_expired(value, now_ms)

        return self.sweep(_SWEEP_ENTRIES, is_over)


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
        expiry: ExpiryLayout | None,
    ) -> None:
        self._store = store
        self.state_id = state_id
        self._codec = codec
        self._max_parallelism = max_parallelism
        self._is_namespaced = is_namespaced
        self._expiry = expiry

    def get(self, key: Any) -> Any:
        """The value of a key; None when there is none."""
        data = self._store.get(self._prefix(key))
        return None if data is None else self._decode(data)

    def get_many(self, keys: list[Any]) -> dict[Any, Any]:
        """The values of many keys of a table without namespaces and map keys; by key, where there is one."""
        encoded = self._encoded_keys(keys)
        names = dict(zip(encoded, keys, strict=True))
        found = self._store.get_many(encoded)
        values = (
            self._codec.decode_many(list(found.values()))
            if self._expiry is None
            else list(map(self._decode, found.values()))
        )
        return dict(zip(map(names.__getitem__, found), values, strict=True))

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
        return self._store.scan(_STATE.pack(self.state_id), start, limit)

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
        """Apply a change table, piece by piece.

        Raises:
            CheckpointStorageError: when the local disk refuses; part of the table may be written then.
        """
        has_deletes = any(chunk.true_count for chunk in table["deleted"].chunks)
        rows = max(1, min(_CHUNK_ENTRIES, table.num_rows * _CHUNK_BYTES // max(1, table.nbytes)))
        for start in range(0, table.num_rows, rows):
            with self._store.turns.writing():
                batch = self._batch(table.slice(start, rows), has_deletes)
            self._store.write(batch)

    def _encoded_keys(self, keys: list[Any]) -> list[bytes]:
        groups = key_groups_of(keys, self._max_parallelism)
        try:
            return self._int_keys(groups, np.array(array("q", keys)))
        except (TypeError, OverflowError):
            return self._other_keys(groups, encode_keys(keys))

    def _prefix(self, key: Any) -> bytes:
        namespace = _NO_NAMESPACE
        if self._is_namespaced:
            key, namespace = key
            namespace = _namespace(encode_key(namespace))
        group = key_group_of(key, self._max_parallelism)
        return _PREFIX.pack(self.state_id, group) + _component(encode_key(key)) + namespace

    def _decode(self, data: bytes, has_map_key: bool = False) -> Any:
        """The value, or the entry of a state with a time to live."""
        if self._expiry is None:
            return self._codec.decode(_without_map_key(data) if has_map_key else data)
        expiry, rest = self._expiry.cut(data)
        return self._expiry.attach(
            expiry, self._codec.decode(_without_map_key(rest) if has_map_key else rest)
        )

    def _batch(self, part: pa.Table, has_deletes: bool) -> WriteBatch:
        if not has_deletes:
            return WriteBatch(self._full_keys(part), self._stored_values(part), [])
        # Only here (see segments.py): most processes do without its three MiB.
        import pyarrow.compute as pc

        live, dead = part.filter(pc.invert(part["deleted"])), part.filter(part["deleted"])
        return WriteBatch(self._full_keys(live), self._stored_values(live), self._full_keys(dead))

    def _stored_values(self, part: pa.Table) -> list[bytes]:
        if part.num_rows == 0:
            return []
        values = self._codec.stored_bytes(
            column_slice(part["value"], 0, part.num_rows),
            opaque_values(column_slice(part["value_encoded"], 0, part.num_rows)),
        )
        if not pa.types.is_null(part["map_key"].type):
            encoded = _encoded(part["map_key"].combine_chunks())
            values = list(map(_with_map_key, encoded, values))
        if self._expiry is not None:
            prefixes = self._expiry.prefixes(column_slice(part["expiry"], 0, part.num_rows))
            values = list(map(bytes.__add__, prefixes, values))
        return values

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
            return self._int_keys(groups, column.to_numpy())
        return self._other_keys(groups, _encoded(column.combine_chunks()))

    def _int_keys(self, groups: npt.NDArray[np.uint16], keys: npt.NDArray[np.int64]) -> list[bytes]:
        rows = np.zeros(len(keys), dtype=_INT_LMDB_KEY)
        rows["state"] = self.state_id
        rows["group"] = groups
        fill_int64(rows["key"], keys)
        encoded: list[bytes] = rows.view(f"V{_INT_LMDB_KEY.itemsize}").tolist()
        return encoded

    def _other_keys(self, groups: npt.NDArray[np.uint16], encoded: list[bytes]) -> list[bytes]:
        state_id = self.state_id
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
