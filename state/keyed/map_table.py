"""The table of a map state."""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from ..serializers.key_codec import encode_map_key
from .map_scan import LAST, MapScan
from .tables import DELETED, MISSING, FrozenTable, StateTable, TableSettings

if TYPE_CHECKING:
    from ..lmdb.store import LmdbTable


class MapTable(StateTable):
    """Entries per (key, map key); None is a value like any other."""

    is_map = True

    def __init__(self, settings: TableSettings) -> None:
        super().__init__(settings)
        self._dirty_entries = 0
        self._cached_entries = 0
        self._removals = 0

    @property
    def dirty_entries(self) -> int:
        return self._dirty_entries

    @property
    def cached_entries(self) -> int:
        return self._cached_entries

    def _taken(self) -> FrozenTable:
        self._dirty_entries = 0
        return super()._taken()

    def trim(self) -> bool:
        is_new = super().trim()
        if is_new:
            self._cached_entries = 0
        return is_new

    def back_by_store(self) -> None:
        if self.dirty is self.values:
            self._dirty_entries = self._cached_entries
        super().back_by_store()

    def read(self, key: Any, map_key: Any) -> Any:
        """The value of an entry, private to the caller; `MISSING` when there is none."""
        entries = self.values.get(key)
        value = MISSING if entries is None else entries.get(map_key, MISSING)
        if value is MISSING:
            if self.behind is None:
                return MISSING
            return self._read_behind(key, map_key, self.behind)
        if self.copy is not None and not self._is_dirty(key, map_key):
            value = self.copy(value)
            self._cache(key, map_key, value)
        return value

    def peek(self, key: Any, map_key: Any) -> Any:
        """The value of an entry, to be looked at only; `MISSING` when there is none."""
        value = self.values.get(key, {}).get(map_key, MISSING)
        return self.read(key, map_key) if value is MISSING and self.behind is not None else value

    def write(self, key: Any, map_key: Any, value: Any) -> None:
        """Set an entry."""
        self._cache(key, map_key, value)
        if self.journals:
            self._journal(key, map_key, value)

    def remove(self, key: Any, map_key: Any) -> None:
        """Remove an entry."""
        for generation in (self.values, self._old):
            entries = generation.get(key)
            if entries is not None:
                entries.pop(map_key, None)
                self._removals += 1
                if not entries:
                    del generation[key]
        if self.journals:
            self._journal(key, map_key, DELETED)
            self.has_deletes = True

    def map_keys(self, key: Any) -> Iterator[Any]:
        """The map keys of a key, whatever the order.

        Here and in `items`, entries may come and go meanwhile: one that is there all the time is given
        once, one that is removed before its turn is not, one that is added may be.
        """
        return self._cached_keys(key) if self.behind is None else MapScan(self, key, self.behind).map_keys()

    def items(self, key: Any) -> Iterator[tuple[Any, Any]]:
        """The entries of a key, whatever the order; values are private to the caller."""
        if self.behind is None:
            return ((map_key, self.read(key, map_key)) for map_key in self._cached_keys(key))
        return MapScan(self, key, self.behind).items()

    def sorted_items(self, key: Any, from_key: Any, to_key: Any) -> Iterator[tuple[Any, Any]]:
        """The entries of a key in the order of their encoding.

        Args:
            from_key: where to start, inclusive; None for the first.
            to_key: where to end, exclusive; None for behind the last.
        """
        start = b"" if from_key is None else encode_map_key(from_key)
        end = LAST if to_key is None else encode_map_key(to_key)
        if self.behind is not None:
            return MapScan(self, key, self.behind).sorted_items(start, end)
        encoded = ((encode_map_key(map_key), map_key) for map_key in self._cached_keys(key))
        inside = sorted((pair for pair in encoded if start <= pair[0] < end), key=itemgetter(0))
        present = ((map_key, self.read(key, map_key)) for _, map_key in inside)
        return ((map_key, value) for map_key, value in present if value is not MISSING)

    def is_empty(self, key: Any) -> bool:
        """Whether a key has no entry."""
        if key in self.values or key in self._old:
            return False
        return self.behind is None or next(self.map_keys(key), MISSING) is MISSING

    def clear(self, key: Any) -> None:
        """Remove the entries of a key; what may be stored needs a mark for each."""
        if self.journals:
            for map_key in self.map_keys(key):
                self.remove(key, map_key)
        else:
            self.values.pop(key, None)
            self._removals += 1

    def change(self, key: Any, map_key: Any) -> Any:
        """The newest value in a buffer; `DELETED`, or `MISSING` when no buffer has the entry."""
        for changes in (self.dirty.get(key), *(frozen.changes.get(key) for frozen in reversed(self.frozen))):
            if changes is not None:
                value = changes.get(map_key, MISSING)
                if value is not MISSING:
                    return value
        return MISSING

    def changed_keys(self, key: Any) -> dict[Any, Any]:
        """The map keys of a key that the buffers have put, as the keys of a dict."""
        changes: dict[Any, Any] = {}
        for buffer in [*(frozen.changes.get(key) for frozen in self.frozen), self.dirty.get(key)]:
            changes.update(buffer or ())
        return {map_key: None for map_key, value in changes.items() if value is not DELETED}

    def _cached_keys(self, key: Any) -> Iterator[Any]:
        """Map keys when all are in memory: as the dict has them until it changes, then from a copy."""
        before = self._cached_entries, self._removals
        given = []
        for map_key in self.values.get(key, ()):
            given.append(map_key)
            yield map_key
            if before != (self._cached_entries, self._removals):
                break
        else:
            return
        done = set(given)
        for map_key in [map_key for map_key in self.values.get(key, ()) if map_key not in done]:
            if map_key in self.values.get(key, ()):
                yield map_key

    def load(self, keys: list[Any], map_keys: list[Any] | None, values: list[Any]) -> None:
        for key, map_key, value in zip(keys, map_keys or (), values, strict=True):
            self._cache(key, map_key, value)

    def _cache(self, key: Any, map_key: Any, value: Any) -> None:
        entries = self.values.get(key)
        if entries is None:
            entries = self.values[key] = {}
        if map_key not in entries:
            self._cached_entries += 1
        entries[map_key] = value

    def _journal(self, key: Any, map_key: Any, value: Any) -> None:
        changes = self.dirty.get(key)
        if changes is None:
            changes = self.dirty[key] = {}
        if map_key not in changes:
            self._dirty_entries += 1
        changes[map_key] = value

    def _is_dirty(self, key: Any, map_key: Any) -> bool:
        changes = self.dirty.get(key)
        return changes is not None and map_key in changes

    def _read_behind(self, key: Any, map_key: Any, store: LmdbTable) -> Any:
        value = MISSING
        for buffer in self._behind(key):
            if buffer is not None:
                value = buffer.get(map_key, MISSING)
                if value is not MISSING:
                    break
        else:
            value = store.get_entry(key, map_key)
        if value is MISSING or value is DELETED:
            return MISSING
        if self.copy is not None and not self._is_dirty(key, map_key):
            value = self.copy(value)
        self.trim()
        self._cache(key, map_key, value)
        return value

    def _behind(self, key: Any) -> list[dict[Any, Any] | None]:
        """Where to look for a key's entries before LMDB, newest first."""
        older = [frozen.changes.get(key) for frozen in reversed(self.frozen)]
        return [self._old.get(key), self.dirty.get(key), *older]
