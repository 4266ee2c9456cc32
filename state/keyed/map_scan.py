"""Going over the entries of one key of a map state that LMDB has, with the buffers in front of it."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import takewhile
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from ..serializers.key_codec import encode_map_key
from .tables import DELETED, MISSING

if TYPE_CHECKING:
    from ..lmdb.store import LmdbTable
    from .map_table import MapTable

# Greater than every encoded key.
LAST = b"\xff"
_FIRST_CHUNK, _LARGEST_CHUNK = 8, 4096

# Place in the order, map key, and what LMDB has; None for what is in a buffer.
_Found = tuple[bytes, Any, bytes | None]
_PLACE = itemgetter(0)


class MapScan:
    """One pass over the entries of a key.

    LMDB is read piece by piece, each in a transaction of its own, and the changes that the buffers hold at
    the start are merged in. Whether an entry is still there is asked when its turn comes.
    """

    def __init__(self, table: MapTable, key: Any, store: LmdbTable) -> None:
        self._table = table
        self._key = key
        self._store = store

    def map_keys(self) -> Iterator[Any]:
        """All map keys."""
        return (map_key for _, map_key, _ in self._entries(b"", LAST))

    def items(self) -> Iterator[tuple[Any, Any]]:
        """All entries."""
        return self._with_values(self._entries(b"", LAST))

    def sorted_items(self, start: bytes, end: bytes) -> Iterator[tuple[Any, Any]]:
        """The entries between two encodings, in their order."""
        hashed = self._store.HASHED
        # Map keys that LMDB has only by their hash are few and long; these are sorted in memory.
        by_hash = (
            (encode_map_key(map_key), map_key, data) for _, map_key, data in self._entries(hashed, LAST)
        )
        inside = sorted((found for found in by_hash if start <= found[0] < end), key=_PLACE)
        in_order = self._entries(start, min(end, hashed))
        return self._with_values(heapq.merge(in_order, inside, key=_PLACE))

    def _with_values(self, entries: Iterator[_Found]) -> Iterator[tuple[Any, Any]]:
        read, decode, component = self._table.read, self._store.decode_entry, self._store.component
        for _, map_key, data in entries:
            value = read(self._key, map_key) if data is None else decode(component(map_key), data)
            if value is not MISSING:
                yield map_key, value

    def _entries(self, start: bytes, end: bytes) -> Iterator[_Found]:
        """What is there between two components of LMDB keys, in the order of these."""
        table, key = self._table, self._key
        # The buffers first and LMDB after: what leaves a buffer is in LMDB before.
        buffered = sorted(self._buffered(start, end), key=_PLACE)
        stored = self._stored(start, end)
        last = None
        for place, map_key, data, frozen in heapq.merge(buffered, stored, key=_PLACE) if buffered else stored:
            if place == last:
                continue
            last = place
            change = table.change(key, map_key)
            if change is MISSING:
                if data is None or frozen is not table.frozen:
                    # A buffer has been stored meanwhile, and what it changed is in LMDB now.
                    data = self._store.stored(key, place)
                if data is not None:
                    yield place, map_key, data
            elif change is not DELETED:
                yield place, map_key, None

    def _buffered(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, Any, None, Any]]:
        component = self._store.component
        for map_key in self._table.changed_keys(self._key):
            place = component(map_key)
            if start <= place < end:
                yield place, map_key, None, None

    def _stored(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, Any, bytes, Any]]:
        store, limit = self._store, _FIRST_CHUNK
        while True:
            frozen = self._table.frozen
            found = store.entries(self._key, start, limit)
            for place, data in takewhile(lambda entry: entry[0] < end, found):
                yield place, store.map_key(place, data), data, frozen
            if len(found) < limit or found[-1][0] >= end:
                return
            start = found[-1][0] + b"\0"
            limit = min(4 * limit, _LARGEST_CHUNK)
