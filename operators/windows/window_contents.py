"""What a window keeps of its records: one value they were folded into, or all of them.

Key and namespace are set in the keyed backend whenever something here is called.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import repeat
from typing import Any

from ...common.errors import TidegateError
from ...common.typeinfo import TypeInformation, Types
from ...protocol.watermarks import MIN_WATERMARK_MS
from ...state.backend import KeyedStateBackend
from ...state.descriptors import AggregatingStateDescriptor, ListStateDescriptor, ReducingStateDescriptor
from .evictors import Evictor, TimestampedValue

STATE_NAME = "_window_contents"
Entries = Sequence[tuple[Any, Any]]
"""Keys and namespaces."""
Groups = Mapping[Any, list[Any]]
"""Records by key, in the order of their first record."""
Failure = Callable[[BaseException, Any], TidegateError]
"""Makes the error to raise from an exception of user code and the record it happened on."""


class WindowContents(ABC):
    """The records of windows, in state.

    Attributes:
        function: The reduce or aggregate function, `None` if there is none.
    """

    function: Any = None
    _state: Any
    _keyed: KeyedStateBackend

    def open(self, keyed: KeyedStateBackend, failure: Failure) -> None:
        """Declare the state."""
        self._keyed = keyed
        self._failure = failure
        self._state = self._declare(keyed)

    @abstractmethod
    def _declare(self, keyed: KeyedStateBackend) -> Any:
        """The state in the backend."""

    @abstractmethod
    def add(self, value: Any, timestamp: int | None) -> None:
        """Add one record."""

    @abstractmethod
    def add_groups(self, entries: Entries, groups: Iterable[list[Any]]) -> list[Any]:
        """Add records that need no timestamps to some windows.

        Args:
            entries: Key and namespace of each window, all different.
            groups: The records for each, at least one.

        Returns:
            What each had before; `None` for nothing.
        """

    def add_all(self, namespace: Any, groups: Groups) -> list[Any]:
        """Add records that need no timestamps to one window of some keys.

        Returns:
            The keys that had nothing in it before, in order.
        """
        before = self.add_groups(list(zip(groups, repeat(namespace))), groups.values())
        return [key for key, each in zip(groups, before) if each is None]

    @abstractmethod
    def elements(self, window: Any) -> list[Any] | None:
        """What the window function gets; `None` if the window is empty."""

    def fired(self, window: Any) -> None:
        """The window function has been called with `elements`."""

    def clear(self) -> None:
        """Remove everything."""
        self._state.clear()

    def merge(self, target: Any, sources: Iterable[Any]) -> None:
        """Move what is in some namespaces to another one, behind what is there."""
        self._keyed.merge_namespaces(self._state, target, sources)


class ReducedContents(WindowContents):
    """Records reduced to one of their type."""

    def __init__(self, reduce_function: Any, value_type: TypeInformation | None) -> None:
        self.function = reduce_function
        self._descriptor = ReducingStateDescriptor(STATE_NAME, reduce_function, value_type)

    def _declare(self, keyed: KeyedStateBackend) -> Any:
        self._reduce = self._descriptor.reduce
        return keyed.get_reducing_state(self._descriptor, namespaced=True)

    def add(self, value: Any, timestamp: int | None) -> None:
        self._state.add(value)

    def add_groups(self, entries: Entries, groups: Iterable[list[Any]]) -> list[Any]:
        keyed, reduce = self._keyed, self._reduce
        before: list[Any] = self._state.stored_many(entries)
        after: list[Any] = []
        value: Any = None
        try:
            for (keyed.current_key, keyed.current_namespace), values, reduced in zip(entries, groups, before):
                for value in values:
                    reduced = value if reduced is None else reduce(reduced, value)
                after.append(reduced)
        except Exception as error:
            raise self._failure(error, value) from error
        self._state.store_many(entries, after)
        return before

    def elements(self, window: Any) -> list[Any] | None:
        reduced = self._state.get()
        return None if reduced is None else [reduced]


class AggregatedContents(WindowContents):
    """Records folded into an accumulator."""

    def __init__(self, aggregate_function: Any, accumulator_type: TypeInformation | None) -> None:
        self.function = aggregate_function
        self._descriptor = AggregatingStateDescriptor(STATE_NAME, aggregate_function, accumulator_type)

    def _declare(self, keyed: KeyedStateBackend) -> Any:
        return keyed.get_aggregating_state(self._descriptor, namespaced=True)

    def add(self, value: Any, timestamp: int | None) -> None:
        self._state.add(value)

    def add_groups(self, entries: Entries, groups: Iterable[list[Any]]) -> list[Any]:
        keyed, add = self._keyed, self.function.add
        before: list[Any] = self._state.stored_many(entries)
        after: list[Any] = []
        value: Any = None
        try:
            windows = zip(entries, groups, before)
            for (keyed.current_key, keyed.current_namespace), values, accumulator in windows:
                for value in values:
                    if accumulator is None:
                        accumulator = self.function.create_accumulator()
                    accumulator = add(value, accumulator)
                after.append(accumulator)
        except Exception as error:
            raise self._failure(error, value) from error
        self._state.store_many(entries, after)
        return before

    def elements(self, window: Any) -> list[Any] | None:
        keyed = self._keyed
        accumulator = self._state.stored(keyed.current_key, keyed.current_namespace)
        return None if accumulator is None else [self.function.get_result(accumulator)]


class CollectedContents(WindowContents):
    """All records, in the order they came."""

    def __init__(self, value_type: TypeInformation | None) -> None:
        self._descriptor = ListStateDescriptor(STATE_NAME, value_type)

    def _declare(self, keyed: KeyedStateBackend) -> Any:
        return keyed.get_list_state(self._descriptor, namespaced=True)

    def add(self, value: Any, timestamp: int | None) -> None:
        self._state.add(value)

    def add_groups(self, entries: Entries, groups: Iterable[list[Any]]) -> list[Any]:
        keyed, state = self._keyed, self._state
        before: list[Any] = state.stored_many(entries)
        for (keyed.current_key, keyed.current_namespace), values in zip(entries, groups):
            state.add_all(values)
        return before

    def elements(self, window: Any) -> list[Any] | None:
        return self._state.get() or None


class EvictingContents(WindowContents):
    """All records with their timestamps; an evictor leaves some out when the window fires.

    Args:
        fold: Makes one element of all records that are left, for reduce and aggregate; `None` leaves them.
        function: The function behind `fold`.
    """

    def __init__(
        self,
        evictor: Evictor[Any, Any],
        value_type: TypeInformation | None,
        fold: Callable[[list[Any]], Any] | None = None,
        function: Any = None,
    ) -> None:
        self.function = function
        self._evictor = evictor
        self._fold = fold
        element_type = None if value_type is None else Types.TUPLE([Types.LONG(), value_type])
        self._descriptor = ListStateDescriptor(STATE_NAME, element_type)
        self._kept: list[TimestampedValue[Any]] = []
        self._context: Any = None

    def use(self, context: Evictor.EvictorContext) -> None:
        """Take what evictors may ask for."""
        self._context = context

    def _declare(self, keyed: KeyedStateBackend) -> Any:
        return keyed.get_list_state(self._descriptor, namespaced=True)

    def add(self, value: Any, timestamp: int | None) -> None:
        self._state.add((MIN_WATERMARK_MS if timestamp is None else timestamp, value))

    def add_groups(self, entries: Entries, groups: Iterable[list[Any]]) -> list[Any]:
        raise AssertionError("windows with an evictor take records one by one")

    def elements(self, window: Any) -> list[Any] | None:
        kept = [
            TimestampedValue(value, None if time == MIN_WATERMARK_MS else time)
            for time, value in self._state.get()
        ]
        if not kept:
            return None
        self._evictor.evict_before(kept, len(kept), window, self._context)
        self._kept = kept
        values = [element.value for element in kept]
        if self._fold is None:
            return values
        return [self._fold(values)] if values else None

    def fired(self, window: Any) -> None:
        kept = self._kept
        self._evictor.evict_after(kept, len(kept), window, self._context)
        self._kept = []
        self._state.update(
            [(MIN_WATERMARK_MS if e.timestamp is None else e.timestamp, e.value) for e in kept]
        )
