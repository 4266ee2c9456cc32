"""The stored form of timers: which there are, per key. Operators keep the order in which they fire.

A timer is an entry of a namespaced state: its namespace is its time, or the pair of its time and its own
namespace, and its value is true. Nothing is ever read back but on a restore, so the table only notes what
changed since the last snapshot; what is added and removed in between leaves no trace.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from .tables import DELETED, FlatTable, FrozenTable, TableSettings


class TimerTable(FlatTable):
    """A journal of timers. It never reads or writes LMDB, whose entries would be a second copy of them."""

    # Nothing is left of a timer that is added and removed between two snapshots.
    can_drain = False

    def __init__(self, settings: TableSettings) -> None:
        super().__init__(settings)
        self._is_kept = settings.journals
        self._restored: list[tuple[Any, Any]] = []
        # Whether `dirty` may hold timers that are new since the last snapshot.
        self._has_new = False

    def add(self, key: Any, entry: Any) -> None:
        """Note a timer that is new."""
        if self._is_kept:
            pair = (key, entry)
            self._has_new = True
            if self.dirty.setdefault(pair, True) is DELETED:
                # It is stored, and the note that would remove it is not needed any more.
                del self.dirty[pair]

    def discard(self, key: Any, entry: Any) -> None:
        """Note that a timer there was is gone."""
        if self._is_kept:
            pair = (key, entry)
            if self.dirty.pop(pair, None) is None:
                self.dirty[pair] = DELETED
                self.has_deletes = True

    def discard_many(self, timers: Collection[tuple[Any, Any]]) -> None:
        """Note that some timers there were, given as key and entry, are gone."""
        if not self._is_kept:
            return
        if not self._has_new or self.dirty.keys().isdisjoint(timers):
            self.dirty.update(dict.fromkeys(timers, DELETED))
            self.has_deletes = True
        else:
            for key, entry in timers:
                self.discard(key, entry)

    def freeze(self) -> FrozenTable | None:
        self._has_new = False
        return super().freeze()

    def take_restored(self) -> list[tuple[Any, Any]]:
        """Key and entry of every restored timer; given once."""
        restored, self._restored = self._restored, []
        return restored

    def load(self, keys: list[Any], map_keys: list[Any] | None, values: list[Any]) -> None:
        self._restored += keys
