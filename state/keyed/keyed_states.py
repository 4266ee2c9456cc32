"""The state handles of a keyed backend, over its tables."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from operator import is_
from typing import Any

from ...common.errors import StateError
from ..descriptors import (
    AggregatingStateDescriptor,
    FoldingStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from ..kinds import AggregatingState, FoldingState, ListState, MapState, ReducingState, ValueState
from ..ttl.ttl_tables import ExpiringFlat, ExpiringMap, Ttl
from .key_context import KeyContext, MergeableState, no_key
from .map_keys import MapKeys
from .map_table import MapTable
from .tables import DELETED, MISSING, FlatTable, private_copy


class _FlatState:
    """A state with one stored value per key."""

    __slots__ = ("_context", "_table")

    def __init__(self, context: KeyContext, table: FlatTable | ExpiringFlat) -> None:
        self._context = context
        self._table = table

    def _key(self) -> Any:
        key = self._context.current_key
        if key is None:
            raise no_key(self._context, self._table)
        return key

    def clear(self) -> None:
        self._table.remove(self._key())

    def _store(self, key: Any, value: Any) -> None:
        if value is None:
            self._table.remove(key)
        else:
            self._table.write(key, value)


class _MergeableFlatState(_FlatState, MergeableState):
    """A flat state with namespaces that can be merged."""

    __slots__ = ()

    @property
    def is_namespaced(self) -> bool:
        return self._table.is_namespaced

    def take(self) -> Any:
        key = self._key()
        stored = self._table.read(key)
        if stored is not None:
            self._table.remove(key)
        return stored

    def merge(self, taken: Any) -> None:
        if taken is not None:
            key = self._key()
            before = self._table.read(key)
            self._store(key, taken if before is None else self._merged(before, taken))

    def stored(self, key: Any, namespace: Any) -> Any:
        return self._table.read((key, namespace))

    def stored_many(self, entries: Sequence[tuple[Any, Any]]) -> list[Any]:
        return self._table.read_many(entries)

    def store_many(self, entries: Sequence[tuple[Any, Any]], values: Sequence[Any]) -> None:
        if any(map(is_, values, repeat(None))):
            for entry, value in zip(entries, values):
                self._store(entry, value)
        else:
            self._table.write_many(entries, values)

    @abstractmethod
    def _merged(self, before: Any, taken: Any) -> Any:
        """The two as one."""


class TableValueState(_FlatState, ValueState[Any]):
    """A `ValueState` over a table of any kind."""

    __slots__ = ("_default",)

    def __init__(
        self, context: KeyContext, table: FlatTable | ExpiringFlat, descriptor: ValueStateDescriptor
    ) -> None:
        super().__init__(context, table)
        self._default = descriptor.default_value

    def value(self) -> Any:
        value = self._table.read(self._key())
        return private_copy(self._default) if value is None and self._default is not None else value

    def update(self, value: Any) -> None:
        if value is None:
            self._table.remove(self._key())
        else:
            self._table.write(self._key(), value)

    def get_many(self, keys: Sequence[Any]) -> list[Any]:
        values = self._read_many(self._context.table_keys(keys))
        default = self._default
        if default is None:
            return values
        return [private_copy(default) if value is None else value for value in values]

    def put_many(self, keys: Sequence[Any], values: Sequence[Any]) -> None:
        if len(keys) != len(values):
            raise StateError(
                f"{self._context.where}: put_many() of state {self._table.name!r} got {len(keys)} keys "
                f"and {len(values)} values; give one value for each key"
            )
        self._context.check_owned(keys)
        self._write_many(self._context.table_keys(keys), values)

    def _read_many(self, keys: Sequence[Any]) -> list[Any]:
        return list(map(self._table.read, keys))

    def _write_many(self, keys: Sequence[Any], values: Sequence[Any]) -> None:
        for key, value in zip(keys, values):
            self._store(key, value)


class DirectValueState(TableValueState):
    """The same without a time to live, with the shortest way into the table."""

    __slots__ = ("_flat",)

    def __init__(self, context: KeyContext, table: FlatTable, descriptor: ValueStateDescriptor) -> None:
        super().__init__(context, table, descriptor)
        self._flat = table

    def update(self, value: Any) -> None:
        key = self._context.current_key
        if key is None:
            raise no_key(self._context, self._table)
        table = self._flat
        if value is None:
            table.remove(key)
            return
        table.values[key] = value
        table.dirty[key] = value

    def clear(self) -> None:
        key = self._context.current_key
        table = self._flat
        if key is None:
            raise no_key(self._context, self._table)
        if table.dirty is table.values:
            table.values.pop(key, None)
        else:
            table.remove(key)

    def _read_many(self, keys: Sequence[Any]) -> list[Any]:
        self._flat.prefetch(keys)
        return super()._read_many(keys)

    def _write_many(self, keys: Sequence[Any], values: Sequence[Any]) -> None:
        removed = sum(map(is_, values, repeat(None)))
        if not removed:
            self._flat.write_many(keys, values)
        elif removed == len(values):
            self._flat.remove_many(keys)
        else:
            super()._write_many(keys, values)


class ImmutableValueState(DirectValueState):
    """The same for immutable values, which need no private copies."""

    __slots__ = ()

    def value(self) -> Any:
        key = self._context.current_key
        table = self._flat
        value = table.values.get(key)
        # In memory all values are there, so what is not has none; no table has the key None.
        if value is None and (table.behind is not None or self._default is not None or key is None):
            return super().value()
        return value

    def update(self, value: Any) -> None:
        key = self._context.current_key
        if key is None or value is None:
            super().update(value)
            return
        table = self._flat
        table.values[key] = value
        if table.journals:
            table.dirty[key] = value

    def _read_many(self, keys: Sequence[Any]) -> list[Any]:
        if self._flat.behind is not None:
            return super()._read_many(keys)
        return list(map(self._flat.values.get, keys))


class TableReducingState(_MergeableFlatState, ReducingState[Any]):
    """A `ReducingState` over a table."""

    __slots__ = ("_reduce",)

    def __init__(
        self, context: KeyContext, table: FlatTable | ExpiringFlat, descriptor: ReducingStateDescriptor
    ) -> None:
        super().__init__(context, table)
        self._reduce = descriptor.reduce

    def get(self) -> Any:
        return self._table.read(self._key())

    def add(self, value: Any) -> None:
        key = self._key()
        before = self._table.read(key)
        self._store(key, value if before is None else self._reduce(before, value))

    def _merged(self, before: Any, taken: Any) -> Any:
        return self._reduce(before, taken)


class TableAggregatingState(_MergeableFlatState, AggregatingState[Any, Any]):
    """An `AggregatingState` over a table of accumulators."""

    __slots__ = ("_function",)

    def __init__(
        self, context: KeyContext, table: FlatTable | ExpiringFlat, descriptor: AggregatingStateDescriptor
    ) -> None:
        super().__init__(context, table)
        self._function = descriptor.get_agg_function()

    def get(self) -> Any:
        accumulator = self._table.read(self._key())
        return None if accumulator is None else self._function.get_result(accumulator)

    def add(self, value: Any) -> None:
        key = self._key()
        accumulator = self._table.read(key)
        if accumulator is None:
            accumulator = self._function.create_accumulator()
        self._store(key, self._function.add(value, accumulator))

    def _merged(self, before: Any, taken: Any) -> Any:
        merge = getattr(self._function, "merge", None)
        if merge is None:
            raise StateError(
                f"{self._context.where}: the aggregate function {type(self._function).__name__} of state "
                f"{self._table.name!r} has no method merge(); merging windows need it"
            )
        return merge(before, taken)


class TableFoldingState(_FlatState, FoldingState[Any, Any]):
    """A `FoldingState` over a table of accumulators."""

    __slots__ = ("_fold", "_initial")

    def __init__(
        self, context: KeyContext, table: FlatTable | ExpiringFlat, descriptor: FoldingStateDescriptor
    ) -> None:
        super().__init__(context, table)
        self._fold = descriptor.fold
        self._initial = descriptor.initial_value

    def get(self) -> Any:
        return self._table.read(self._key())

    def add(self, value: Any) -> None:
        key = self._key()
        accumulator = self._table.read(key)
        if accumulator is None:
            accumulator = private_copy(self._initial)
        self._store(key, self._fold(accumulator, value))


class TableListState(_MergeableFlatState, ListState[Any]):
    """A `ListState` over a table of lists. An empty list is not stored."""

    __slots__ = ("_flat",)

    def __init__(self, context: KeyContext, table: FlatTable) -> None:
        super().__init__(context, table)
        self._flat = table

    def get(self) -> list[Any]:
        elements = self._flat.read(self._key())
        return [] if elements is None else list(elements)

    def add(self, value: Any) -> None:
        self._own_list().append(value)

    def add_all(self, values: Iterable[Any]) -> None:
        added = list(values)
        if added:
            self._own_list().extend(added)

    def update(self, values: list[Any]) -> None:
        self._store(self._key(), list(values) or None)

    def _merged(self, before: Any, taken: Any) -> Any:
        return before + taken

    def _own_list(self) -> list[Any]:
        """The list in the write buffer; only that one may be appended to."""
        key = self._key()
        elements = self._flat.dirty.get(key)
        if elements is None or elements is DELETED:
            elements = self._flat.read(key)
            if elements is None:
                elements = []
            self._flat.write(key, elements)
        return elements


class ExpiringListState(TableListState):
    """A `ListState` whose elements expire one by one: a table of lists of (expiry, element)."""

    __slots__ = ("_clean_up", "_ttl")

    def __init__(self, context: KeyContext, table: FlatTable, ttl: Ttl, clean_up: Callable[[], None]) -> None:
        super().__init__(context, table)
        self._ttl = ttl
        self._clean_up = clean_up

    def get(self) -> list[Any]:
        self._clean_up()
        key, ttl = self._key(), self._ttl
        elements = self._flat.read(key)
        if elements is None:
            return []
        live = [element for element in elements if not ttl.is_over(element[0])]
        is_shorter = len(live) < len(elements)
        if ttl.refreshes_on_read:
            expiry = ttl.expiry()
            live = [(expiry, value) for _, value in live]
        if is_shorter or ttl.refreshes_on_read:
            self._store(key, live or None)
        return [value for _, value in (elements if ttl.returns_expired else live)]

    def add(self, value: Any) -> None:
        self._clean_up()
        super().add((self._ttl.expiry(), value))

    def add_all(self, values: Iterable[Any]) -> None:
        self._clean_up()
        super().add_all(self._entries(values))

    def update(self, values: list[Any]) -> None:
        self._clean_up()
        super().update(self._entries(values))

    def _entries(self, values: Iterable[Any]) -> list[Any]:
        expiry = self._ttl.expiry()
        return [(expiry, value) for value in values]


class TableMapState(MapState[Any, Any]):
    """A `MapState` over a table with one entry per map key."""

    __slots__ = ("_check_map_key", "_context", "_plain_types", "_table")

    def __init__(self, context: KeyContext, table: MapTable | ExpiringMap, map_keys: MapKeys) -> None:
        self._context = context
        self._table = table
        self._plain_types = map_keys.plain_types
        self._check_map_key = map_keys.check

    def get(self, key: Any) -> Any:
        value = self._table.read(self._key(), key)
        return None if value is MISSING else value

    def put(self, key: Any, value: Any) -> None:
        if type(key) not in self._plain_types:
            self._check_map_key(key)
        self._table.write(self._key(), key, value)

    def put_all(self, dict_value: dict[Any, Any]) -> None:
        for key, value in dict_value.items():
            self.put(key, value)

    def remove(self, key: Any) -> None:
        if type(key) not in self._plain_types:
            self._check_map_key(key)
        self._table.remove(self._key(), key)

    def contains(self, key: Any) -> bool:
        return self._table.read(self._key(), key) is not MISSING

    def keys(self) -> Iterator[Any]:
        return self._table.map_keys(self._key())

    def items(self) -> Iterator[tuple[Any, Any]]:
        return self._table.items(self._key())

    def values(self) -> Iterator[Any]:
        return (value for _, value in self.items())

    def sorted_items(self, from_key: Any = None, to_key: Any = None) -> Iterator[tuple[Any, Any]]:
        return self._table.sorted_items(self._key(), from_key, to_key)

    def is_empty(self) -> bool:
        return self._table.is_empty(self._key())

    def clear(self) -> None:
        self._table.clear(self._key())

    def _key(self) -> Any:
        key = self._context.current_key
        if key is None:
            raise no_key(self._context, self._table)
        return key
