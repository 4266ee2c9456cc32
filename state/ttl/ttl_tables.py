"""The time to live of one state at work, and tables that show entries without their expiry.

Semantics are those of Flink's `TtlStateFactory`: an expired value is removed when it is read, and then
still returned if the configuration says so.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

from ..keyed.map_table import MapTable
from ..keyed.tables import MISSING, FlatTable
from ..ttl_config import StateTtlConfig
from .expiry import LAST_EXPIRY_MS, NEVER, is_expired


class Ttl:
    """Configuration and clock.

    Args:
        clock: the time in milliseconds; None while it is not known yet.
    """

    def __init__(self, config: StateTtlConfig, clock: Callable[[], int | None]) -> None:
        strategies = config.get_cleanup_strategies()
        self.clock = clock
        self.length_ms = config.get_ttl().to_milliseconds()
        self.refreshes_on_read = config.get_update_type() is StateTtlConfig.UpdateType.OnReadAndWrite
        self.returns_expired = (
            config.get_state_visibility() is StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp
        )
        self.in_snapshots = strategies.in_full_snapshot() or strategies.is_cleanup_in_background()
        self.in_compactions = strategies.get_rocksdb_compact_filter_cleanup_strategy() is not None
        self.incremental = strategies.get_incremental_cleanup_strategy()

    def expiry(self) -> int:
        """When what is written now expires."""
        now = self.clock()
        if now is None or now + self.length_ms > LAST_EXPIRY_MS:
            return NEVER
        # 0 stands for never: event time may well start there.
        return now + self.length_ms or 1

    def is_over(self, expiry_ms: int) -> bool:
        """Whether an expiry has passed."""
        if expiry_ms == NEVER:
            return False
        now = self.clock()
        return now is not None and is_expired(expiry_ms, now)


class ExpiringFlat:
    """A flat table whose entries have one expiry each."""

    __slots__ = ("_clean_up", "_table", "_ttl", "is_namespaced", "name")

    def __init__(self, table: FlatTable, ttl: Ttl, clean_up: Callable[[], None]) -> None:
        self._table = table
        self._ttl = ttl
        self._clean_up = clean_up
        self.name = table.name
        self.is_namespaced = table.is_namespaced

    def read(self, key: Any) -> Any:
        """The value of a key; None when there is none, or it is expired and shall not be seen."""
        self._clean_up()
        entry = self._table.read(key)
        if entry is None:
            return None
        expiry, value = entry
        if self._ttl.is_over(expiry):
            self._table.remove(key)
            return value if self._ttl.returns_expired else None
        if self._ttl.refreshes_on_read:
            self._table.write(key, (self._ttl.expiry(), value))
        return value

    def read_many(self, keys: Collection[Any]) -> list[Any]:
        """The values of many keys."""
        return list(map(self.read, keys))

    def write(self, key: Any, value: Any) -> None:
        """Set the value of a key, whose time to live starts anew."""
        self._clean_up()
        self._table.write(key, (self._ttl.expiry(), value))

    def write_many(self, keys: Collection[Any], values: Collection[Any]) -> None:
        """Set the values of many keys."""
        for key, value in zip(keys, values):
            self.write(key, value)

    def remove(self, key: Any) -> None:
        """Remove the value of a key."""
        self._table.remove(key)


class ExpiringMap:
    """A map table each of whose entries has an expiry."""

    __slots__ = ("_clean_up", "_table", "_ttl", "name")

    def __init__(self, table: MapTable, ttl: Ttl, clean_up: Callable[[], None]) -> None:
        self._table = table
        self._ttl = ttl
        self._clean_up = clean_up
        self.name = table.name

    def read(self, key: Any, map_key: Any) -> Any:
        """The value of an entry; `MISSING` when there is none, or it is expired and shall not be seen."""
        self._clean_up()
        entry = self._table.read(key, map_key)
        return MISSING if entry is MISSING else self._seen(key, map_key, entry)

    def write(self, key: Any, map_key: Any, value: Any) -> None:
        """Set an entry, whose time to live starts anew."""
        self._clean_up()
        self._table.write(key, map_key, (self._ttl.expiry(), value))

    def remove(self, key: Any, map_key: Any) -> None:
        """Remove an entry."""
        self._table.remove(key, map_key)

    def map_keys(self, key: Any) -> Iterator[Any]:
        """The map keys of a key, whatever the order."""
        return (map_key for map_key, _ in self.items(key))

    def items(self, key: Any) -> Iterator[tuple[Any, Any]]:
        """The entries of a key, whatever the order."""
        self._clean_up()
        return self._all_seen(key, self._table.items(key))

    def sorted_items(self, key: Any, from_key: Any, to_key: Any) -> Iterator[tuple[Any, Any]]:
        """The entries of a key in the order of their encoding."""
        self._clean_up()
        return self._all_seen(key, self._table.sorted_items(key, from_key, to_key))

    def is_empty(self, key: Any) -> bool:
        """Whether a key has no entry to be seen."""
        return next(self.items(key), None) is None

    def clear(self, key: Any) -> None:
        """Remove the entries of a key."""
        self._table.clear(key)

    def _all_seen(self, key: Any, entries: Iterator[tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
        for map_key, entry in entries:
            value = self._seen(key, map_key, entry)
            if value is not MISSING:
                yield map_key, value

    def _seen(self, key: Any, map_key: Any, entry: Any) -> Any:
        expiry, value = entry
        if self._ttl.is_over(expiry):
            self._table.remove(key, map_key)
            return value if self._ttl.returns_expired else MISSING
        if self._ttl.refreshes_on_read:
            self._table.write(key, map_key, (self._ttl.expiry(), value))
        return value
