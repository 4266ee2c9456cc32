"""The state handles of a keyed backend, over its tables."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Protocol

from ..common.errors import StateError
from .descriptors import AggregatingStateDescriptor, ReducingStateDescriptor
from .key_codec import check_key
from .kinds import AggregatingState, ListState, MapState, ReducingState, ValueState
from .map_table import MapTable
from .tables import DELETED, MISSING, FlatTable, StateTable


class KeyContext(Protocol):
    """What handles need of their backend."""

    @property
    def current_key(self) -> Any:
        """The key in the tables; None while no key is set."""

    @property
    def where(self) -> str:
        """Operator and subtask, for error messages."""


class NamespaceContext(KeyContext, Protocol):
    """What handles of namespaced states need of it."""

    @property
    def current_namespace(self) -> Any:
        """The namespace; None while none is set."""


class MergeableState(ABC):
    """A state whose contents in one namespace can be merged into those in another."""

    __slots__ = ()

    @property
    @abstractmethod
    def is_namespaced(self) -> bool:
        """Whether the state was declared with namespaces."""

    @abstractmethod
    def take(self) -> Any:
        """Remove what is stored for the current key and namespace, and return it; None when nothing is."""

    @abstractmethod
    def merge(self, taken: Any) -> None:
        """Add what was taken elsewhere, behind what is there."""


class NamespacedKeys:
    """The context of namespaced states: their keys are pairs of the current key and namespace."""

    __slots__ = ("_backend", "where")

    def __init__(self, backend: NamespaceContext) -> None:
        self._backend = backend
        self.where = backend.where

    @property
    def current_key(self) -> Any:
        """The pair; None while no key is set."""
        backend = self._backend
        key, namespace = backend.current_key, backend.current_namespace
        if namespace is None and key is not None:
            raise StateError(
                f"{self.where}: a namespaced state was used while no namespace is set; set "
                f"current_namespace of the keyed backend first"
            )
        return None if key is None else (key, namespace)


def _no_key(context: KeyContext, table: StateTable) -> StateError:
    return StateError(
        f"{context.where}: keyed state {table.name!r} was used while no key is set; use it only while "
        f"a record or a timer is processed, not in open() or close()"
    )


class _FlatState:
    """A state with one stored value per key."""

    __slots__ = ("_context", "_table")

    def __init__(self, context: KeyContext, table: FlatTable) -> None:
        self._context = context
        self._table = table

    def _key(self) -> Any:
        key = self._context.current_key
        if key is None:
            raise _no_key(self._context, self._table)
        return key

    def clear(self) -> None:
        self._table.remove(self._key())


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

    @abstractmethod
    def _merged(self, before: Any, taken: Any) -> Any:
        """The two as one."""

    def _store(self, key: Any, value: Any) -> None:
        if value is None:
            self._table.remove(key)
        else:
            self._table.write(key, value)


class TableValueState(_FlatState, ValueState[Any]):
    """A `ValueState` over a table whose values may change in place."""

    __slots__ = ()

    def value(self) -> Any:
        return self._table.read(self._key())

    def update(self, value: Any) -> None:
        key = self._context.current_key
        if key is None:
            raise _no_key(self._context, self._table)
        if value is None:
            self._table.remove(key)
            return
        table = self._table
        table.values[key] = value
        table.dirty[key] = value


class ImmutableValueState(TableValueState):
    """The same for immutable values, which need no private copies: the shortest way in."""

    __slots__ = ()

    def value(self) -> Any:
        key = self._context.current_key
        value = self._table.values.get(key)
        if value is None:
            return self._table.read(self._key())
        return value


class TableReducingState(_MergeableFlatState, ReducingState[Any]):
    """A `ReducingState` over a table."""

    __slots__ = ("_reduce",)

    def __init__(self, context: KeyContext, table: FlatTable, descriptor: ReducingStateDescriptor) -> None:
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

    def __init__(self, context: KeyContext, table: FlatTable, descriptor: AggregatingStateDescriptor) -> None:
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


class TableListState(_MergeableFlatState, ListState[Any]):
    """A `ListState` over a table of lists. An empty list is not stored."""

    __slots__ = ()

    def get(self) -> list[Any]:
        elements = self._table.read(self._key())
        return [] if elements is None else list(elements)

    def add(self, value: Any) -> None:
        self._own_list().append(value)

    def add_all(self, values: Iterable[Any]) -> None:
        added = list(values)
        if added:
            self._own_list().extend(added)

    def update(self, values: list[Any]) -> None:
        key = self._key()
        if values:
            self._table.write(key, list(values))
        else:
            self._table.remove(key)

    def _merged(self, before: Any, taken: Any) -> Any:
        return before + taken

    def _own_list(self) -> list[Any]:
        """The list in the write buffer; only that one may be appended to."""
        key = self._key()
        elements = self._table.dirty.get(key)
        if elements is None or elements is DELETED:
            elements = self._table.read(key)
            if elements is None:
                elements = []
            self._table.write(key, elements)
        return elements


class TableMapState(MapState[Any, Any]):
    """A `MapState` over a table with one entry per map key."""

    __slots__ = ("_context", "_table")

    def __init__(self, context: KeyContext, table: MapTable) -> None:
        self._context = context
        self._table = table

    def get(self, key: Any) -> Any:
        value = self._table.read(self._key(), key)
        return None if value is MISSING else value

    def put(self, key: Any, value: Any) -> None:
        check_key(key)
        self._table.write(self._key(), key, value)

    def put_all(self, dict_value: dict[Any, Any]) -> None:
        for key, value in dict_value.items():
            self.put(key, value)

    def remove(self, key: Any) -> None:
        check_key(key)
        self._table.remove(self._key(), key)

    def contains(self, key: Any) -> bool:
        return self._table.read(self._key(), key) is not MISSING

    def keys(self) -> list[Any]:
        return self._table.map_keys(self._key())

    def items(self) -> list[tuple[Any, Any]]:
        key = self._key()
        read = self._table.read
        return [(map_key, read(key, map_key)) for map_key in self._table.map_keys(key)]

    def values(self) -> list[Any]:
        return [value for _, value in self.items()]

    def is_empty(self) -> bool:
        return not self._table.map_keys(self._key())

    def clear(self) -> None:
        key = self._key()
        for map_key in self._table.map_keys(key):
            self._table.remove(key, map_key)

    def _key(self) -> Any:
        key = self._context.current_key
        if key is None:
            raise _no_key(self._context, self._table)
        return key
