"""The table of a map state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .tables import DELETED, MISSING, FrozenTable, StateTable, TableSettings

if TYPE_CHECKING:
    from .lmdb_store import LmdbTable


class MapTable(StateTable):
    """Entries per (key, map key); None is a value like any other."""

    is_map = True

    def __init__(self, settings: TableSettings) -> None:
        super().__init__(settings)
        self._dirty_entries = 0
        self._cached_entries = 0

    @property
    def dirty_entries(self) -> int:
        return self._dirty_entries

    @property
    def cached_entries(self) -> int:
        return self._cached_entries

    def freeze(self) -> FrozenTable | None:
        self._dirty_entries = 0
        return super().freeze()

    def trim(self) -> None:
        before = self.values
        super().trim()
        if self.values is not before:
            self._cached_entries = 0

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

    def write(self, key: Any, map_key: Any, value: Any) -> None:
        """Set an entry."""
        self._cache(key, map_key, value)
        if self._journals:
            self._journal(key, map_key, value)

    def remove(self, key: Any, map_key: Any) -> None:
        """Remove an entry."""
        for generation in (self.values, self._old):
            entries = generation.get(key)
            if entries is not None:
                entries.pop(map_key, None)
                if not entries:
                    del generation[key]
        if self._journals:
            self._journal(key, map_key, DELETED)
            self.has_deletes = True

    def map_keys(self, key: Any) -> list[Any]:
        """The map keys of a key."""
        if self.behind is None:
            return list(self.values.get(key, ()))
        buffers = [frozen.changes.get(key) for frozen in self.frozen]
        buffers.append(self.dirty.get(key))
        present = dict.fromkeys(self.behind.map_keys(key))
        for buffer in buffers:
            for map_key, value in (buffer or {}).items():
                if value is DELETED:
                    present.pop(map_key, None)
                else:
                    present[map_key] = None
        return list(present)

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
