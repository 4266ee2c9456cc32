"""The memory in front of LMDB, in bytes: one budget for the caches and write buffers of all states.

Sizes are estimates: Python's own figure for the dicts, and for what is in them the average over a few
entries of each table, looked at once per batch. While a table's cache holds everything, its buffers hold
the same objects, which are counted once.

The budget is split as it is used: write buffers, also those frozen and not yet stored, may take half of
it, the read caches take what is left. A cache has two generations, so the young one may have half of that.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable
from itertools import islice
from typing import Any

from ...protocol.spill_state import SpillState
from .tables import DELETED, StateTable

_SAMPLE = 4
_ELEMENTS = 16
_DEPTH = 4
_LEAVES = frozenset({int, float, bool, str, bytes, type(None)})
# What a dict takes for an entry while it grows; and with a dict of a few entries for each key.
_SLOT_BYTES = 100
_MAP_SLOT_BYTES = 400
# Until a first look, entries are taken to be large.
_UNKNOWN_ENTRY_BYTES = 1_024


class MemoryBudget:
    """Shares one budget among the tables of a backend. All but `stored` belongs to the task's thread.

    Args:
        size_bytes: the budget.
    """

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.first_cache_entries = max(1, size_bytes // _UNKNOWN_ENTRY_BYTES)
        self._entry_bytes: dict[str, float] = {}
        self._dirty_bytes = 0
        # Caches of tables that are only now written to LMDB: until then they are buffers.
        self._unbacked_bytes = 0
        # Each is added to by one thread only.
        self._frozen_bytes = 0
        self._stored_bytes = 0

    def look(self, tables: Collection[StateTable]) -> None:
        """Measure the tables, and bound their caches. Once per batch: some microseconds a table."""
        self._dirty_bytes = self._measured(tables)
        sizes = {table.name: self._cache_bytes(table) for table in tables}
        buffers = min(self.buffer_bytes, self.size_bytes // 2)
        left = (self.size_bytes - buffers) // 2 - sum(sizes.values())
        for table in sorted(tables, key=lambda table: sizes[table.name], reverse=True):
            more = int(left / self._entry_bytes[table.name])
            table.cache_entries = max(1, table.cached_entries + more)
            if table.trim():
                left += sizes[table.name]
                # From now on its buffers may hold what the cache does not.
                self._dirty_bytes = self._measured(tables)
        awaiting = (table for table in tables if table.spill in (SpillState.WANTED, SpillState.FILLING))
        self._unbacked_bytes = sum(sizes[table.name] for table in awaiting)

    def has_room(
        self, tables: Iterable[StateTable], count: int, sample: Collection[tuple[Any, Any]], is_map: bool
    ) -> bool:
        """Whether so many more entries fit into the young cache generations.

        Args:
            sample: some of them; the values of map entries.
        """
        average = sum(_entry_bytes(*item) for item in sample) / max(1, len(sample))
        average += _MAP_SLOT_BYTES if is_map else _SLOT_BYTES
        taken = sum(map(self._cache_bytes, tables))
        return taken + count * average <= self.size_bytes // 2

    def froze(self, tables: Collection[StateTable]) -> int:
        """The write buffers are about to be frozen; their size, to be given to `stored` later."""
        size_bytes = self._measured(tables)
        self._frozen_bytes += size_bytes
        self._dirty_bytes = 0
        return size_bytes

    def stored(self, size_bytes: int) -> None:
        """Frozen buffers are stored and dropped. Called on the snapshot thread."""
        self._stored_bytes += size_bytes

    @property
    def buffer_bytes(self) -> int:
        """Size of the write buffers, with those frozen and not yet stored, and what LMDB waits for."""
        return self._dirty_bytes + self._unbacked_bytes + self._frozen_bytes - self._stored_bytes

    @property
    def are_buffers_full(self) -> bool:
        """Whether the write buffers have outgrown their half."""
        return self.buffer_bytes > self.size_bytes // 2

    @property
    def is_spill_due(self) -> bool:
        """Whether to freeze now, so that the next half of their share fills while this one is stored."""
        return self._dirty_bytes > self.size_bytes // 4 or self.are_buffers_full or self._unbacked_bytes > 0

    def _measured(self, tables: Collection[StateTable]) -> int:
        size_bytes = 0
        for table in tables:
            size_bytes += table.log_bytes
            if not table.dirty:
                continue
            average = self._looked_at(table)
            if table.dirty is table.values:
                # Counted as a cache, which it is until LMDB gets anything.
                continue
            size_bytes += sys.getsizeof(table.dirty)
            if table.behind is not None:
                size_bytes += int(table.dirty_entries * average)
        return size_bytes

    def _cache_bytes(self, table: StateTable) -> int:
        average = self._entry_bytes.get(table.name) or self._looked_at(table)
        return sys.getsizeof(table.values) + int(table.cached_entries * average)

    def _looked_at(self, table: StateTable) -> float:
        """The bytes of an entry: an average that follows a few entries of each look."""
        seen = [_map_entry_bytes(*item) if table.is_map else _entry_bytes(*item) for item in _some(table)]
        average = self._entry_bytes.get(table.name)
        if seen:
            now = sum(seen) / len(seen)
            # Growing values are believed faster than shrinking ones.
            weight = 0.5 if average is None or now > average else 0.1
            average = now if average is None else average + weight * (now - average)
            self._entry_bytes[table.name] = average
        return self._entry_bytes.setdefault(table.name, float(_UNKNOWN_ENTRY_BYTES))


def _some(table: StateTable) -> Iterable[tuple[Any, Any]]:
    """The oldest and the newest entries of the write buffer, else of the cache."""
    entries = table.dirty or table.values
    yield from islice(entries.items(), _SAMPLE)
    yield from islice(reversed(entries.items()), _SAMPLE)


def _entry_bytes(key: Any, value: Any) -> float:
    return object_bytes(key) + (0 if value is DELETED else object_bytes(value))


def _map_entry_bytes(key: Any, entries: dict[Any, Any]) -> float:
    return (object_bytes(key) + object_bytes(entries)) / max(1, len(entries))


def object_bytes(value: Any, depth: int = _DEPTH) -> int:
    """About how many bytes an object and what it holds take; large collections by their first elements."""
    size = sys.getsizeof(value)
    if type(value) in _LEAVES or depth == 0:
        return size
    if isinstance(value, dict):
        parts: Collection[Any] = value.items()
    elif isinstance(value, (tuple, list, set, frozenset)):
        parts = value
    else:
        parts = _attributes(value)
    first = list(islice(parts, _ELEMENTS))
    if not first:
        return size
    inside = sum(object_bytes(part, depth - 1) for part in first)
    return size + inside * len(parts) // len(first)


def _attributes(value: Any) -> Collection[Any]:
    own = getattr(value, "__dict__", None)
    slots = [getattr(value, name, None) for name in getattr(type(value), "__slots__", ())]
    return slots if own is None else [own, *slots]
