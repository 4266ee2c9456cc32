"""Incremental clean-up of states with a time to live: some entries at a time, round after round."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from ..keyed.map_table import MapTable
from ..keyed.tables import MISSING, FlatTable
from .expiry import ListExpiry, is_expired, is_stored_expired
from .ttl_tables import Ttl

if TYPE_CHECKING:
    from ..lmdb.store import LmdbTable

_CHUNK_ENTRIES = 256
_BURST_ENTRIES = 64

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
        self._owed_entries = 0
        self._now_ms = 0
        self.runs_for_every_record = ttl.incremental.run_cleanup_for_every_record()
        self._round: Iterator[_Place] = iter(())

    def on_access(self) -> None:
        """The state is read or written. What is owed for that is checked some accesses at a time."""
        self._owed_entries += self._entries_per_access
        if self._owed_entries >= _BURST_ENTRIES:
            owed, self._owed_entries = self._owed_entries, 0
            self._check(owed)

    def on_records(self, count: int) -> None:
        """The operator has processed some records."""
        self._check(count * self._entries_per_access)

    def _check(self, count: int) -> None:
        now = self._ttl.clock()
        if now is None:
            return
        self._now_ms = now
        places = list(islice(self._round, count))
        for place in filter(None, places):
            self._remove_expired(place)
        if len(places) < count:
            # Checked from the next access on: a small table is not gone over again and again.
            self._round = self._new_round()

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

    def _new_round(self) -> Iterator[_Place]:
        """The place of every entry that is expired when its turn comes, and None for the others."""
        table = self._table
        if table.behind is not None:
            return self._stored(table.behind)
        if isinstance(table, MapTable):
            return self._map_entries(table)
        return self._lists(table) if isinstance(table.expiry, ListExpiry) else self._singles(table)

    def _singles(self, table: FlatTable) -> Iterator[_Place]:
        get = table.values.get
        for key in list(table.values):
            entry = get(key)
            yield (key,) if entry is not None and is_expired(entry[0], self._now_ms) else None

    def _lists(self, table: FlatTable) -> Iterator[_Place]:
        for key in list(table.values):
            elements = table.values.get(key, ())
            yield (key,) if any(is_expired(expiry, self._now_ms) for expiry, _ in elements) else None

    def _map_entries(self, table: MapTable) -> Iterator[_Place]:
        for key in list(table.values):
            for map_key in table.map_keys(key):
                entry = table.peek(key, map_key)
                is_over = entry is not MISSING and is_expired(entry[0], self._now_ms)
                yield (key, map_key) if is_over else None

    def _stored(self, store: LmdbTable) -> Iterator[_Place]:
        start = b""
        while found := store.scan(start, _CHUNK_ENTRIES):
            for place, data in found:
                is_over = is_stored_expired(data, self._now_ms)
                yield store.keys_at(place, data, self._table.is_map) if is_over else None
            start = found[-1][0] + b"\0"
