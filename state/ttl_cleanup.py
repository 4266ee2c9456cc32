"""Incremental clean-up of states with a time to live: some entries at a time, round after round."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .expiry import is_stored_expired
from .map_table import MapTable
from .tables import MISSING, FlatTable
from .ttl import Ttl

if TYPE_CHECKING:
    from .lmdb_store import LmdbTable

_CHUNK_ENTRIES = 256

# The key, or the key and the map key, of an entry; None for one that need not be looked at.
_Place = tuple[Any, ...] | None


class IncrementalCleanUp:
    """Goes round the entries of a table and removes what is expired.

    A round over a table in memory holds references to its keys. A round over one in LMDB holds a piece of
    it, and passes over keys that LMDB has only by their hash: those are left to the other clean-ups.

    Args:
        ttl: must ask for incremental clean-up.
    """

    def __init__(self, table: FlatTable | MapTable, ttl: Ttl) -> None:
        assert ttl.incremental is not None
        self._table = table
        self._ttl = ttl
        self._entries_per_access = ttl.incremental.get_cleanup_size()
        self.runs_for_every_record = ttl.incremental.run_cleanup_for_every_record()
        self._round: Iterator[_Place] = iter(())

    def on_access(self) -> None:
        """The state is read or written."""
        self._check(self._entries_per_access)

    def on_records(self, count: int) -> None:
        """The operator has processed some records."""
        self._check(count * self._entries_per_access)

    def _check(self, count: int) -> None:
        now = self._ttl.clock()
        if now is None:
            return
        for _ in range(count):
            place = next(self._round, MISSING)
            if place is MISSING:
                # The next round starts with the next access: a small table is not checked over and over.
                self._round = self._new_round(now)
                return
            if place is not None:
                self._remove_expired(place)

    def _remove_expired(self, place: Any) -> None:
        table = self._table
        if isinstance(table, MapTable):
            entry = table.peek(*place)
            if entry is not MISSING and self._ttl.is_over(entry[0]):
                table.remove(*place)
            return
        key = place[0]
        entry = table.peek(key)
        if entry is None:
            return
        if not isinstance(entry, list):
            if self._ttl.is_over(entry[0]):
                table.remove(key)
            return
        live = [element for element in entry if not self._ttl.is_over(element[0])]
        if not live:
            table.remove(key)
        elif len(live) < len(entry):
            table.write(key, live)

    def _new_round(self, now_ms: int) -> Iterator[_Place]:
        table = self._table
        if table.behind is not None:
            return _stored(table.behind, table.is_map, now_ms)
        if isinstance(table, MapTable):
            return _map_entries(table)
        return ((key,) for key in list(table.values))


def _map_entries(table: MapTable) -> Iterator[_Place]:
    for key in list(table.values):
        for map_key in table.map_keys(key):
            yield key, map_key


def _stored(store: LmdbTable, is_map: bool, now_ms: int) -> Iterator[_Place]:
    start = b""
    while found := store.scan(start, _CHUNK_ENTRIES):
        for place, data in found:
            yield store.keys_at(place, data, is_map) if is_stored_expired(data, now_ms) else None
        start = found[-1][0] + b"\0"
