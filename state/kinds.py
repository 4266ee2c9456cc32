"""The kinds of state a user function holds: PyFlink's handles.

A handle always means "of the current key"; it may be kept for the life of the function. Values are
live Python objects: change one in place and call `update` to store the change. An object kept across
a checkpoint must be read again before it is changed.

Source of names and semantics: `pyflink.datastream.state`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
IN = TypeVar("IN")
OUT = TypeVar("OUT")


class State(ABC):
    """Anything kept per key."""

    @abstractmethod
    def clear(self) -> None:
        """Remove the state of the current key."""


class ValueState(State, Generic[T]):
    """One value per key."""

    @abstractmethod
    def value(self) -> T | None:
        """The value; the descriptor's default, or None, when there is none."""

    @abstractmethod
    def update(self, value: T | None) -> None:
        """Replace the value; None clears it, as in Flink."""

    @abstractmethod
    def get_many(self, keys: Sequence[Any]) -> list[T | None]:
        """The values of many keys at once, whichever key is the current one.

        Args:
            keys: keys of the batch at hand.

        Returns:
            One value per key, as `value()` gives it.
        """

    @abstractmethod
    def put_many(self, keys: Sequence[Any], values: Sequence[T | None]) -> None:
        """Replace the values of many keys at once, whichever key is the current one.

        Args:
            keys: keys of the batch at hand, each once.
            values: one per key; None clears it.

        Raises:
            StateError: when there are not as many values as keys, or a key belongs to another subtask.
            KeyTypeError: when a key has no deterministic encoding.
        """


class AppendingState(State, Generic[IN, OUT]):
    """State that values are added to."""

    @abstractmethod
    def get(self) -> OUT | None:
        """What the added values amount to, or None when nothing was added."""

    @abstractmethod
    def add(self, value: IN) -> None:
        """Add one value."""


class MergingState(AppendingState[IN, OUT]):
    """Appending state whose contents can be merged."""


class ReducingState(MergingState[T, T]):
    """Values folded into one of the same type by a reduce function."""


class AggregatingState(MergingState[IN, OUT]):
    """Values folded into an accumulator by an aggregate function; `get` gives its result."""


class FoldingState(AppendingState[IN, OUT]):
    """Values folded into an accumulator of another type. Deprecated: use `AggregatingState`."""


class ListState(MergingState[T, Iterable[T]]):
    """A list per key."""

    @abstractmethod
    def get(self) -> list[T]:
        """The elements in the order they were added; an empty list when there are none."""

    @abstractmethod
    def update(self, values: list[T]) -> None:
        """Replace all elements."""

    @abstractmethod
    def add_all(self, values: Iterable[T]) -> None:
        """Append several elements."""

    def __iter__(self) -> Iterator[T]:
        return iter(self.get())


class _ReadableMap(State, Generic[K, V]):
    """What can be asked of every map."""

    @abstractmethod
    def get(self, key: K) -> V | None:
        """The value of a map key, or None."""

    @abstractmethod
    def contains(self, key: K) -> bool:
        """Whether there is an entry for a map key."""

    @abstractmethod
    def items(self) -> Iterable[tuple[K, V]]:
        """All entries, in no particular order."""

    @abstractmethod
    def keys(self) -> Iterable[K]:
        """All map keys, in no particular order."""

    @abstractmethod
    def values(self) -> Iterable[V]:
        """All values, in no particular order."""

    @abstractmethod
    def is_empty(self) -> bool:
        """Whether there is no entry."""

    def __getitem__(self, key: K) -> V | None:
        return self.get(key)

    def __contains__(self, key: K) -> bool:
        return self.contains(key)

    def __iter__(self) -> Iterator[K]:
        return iter(self.keys())


class _WritableMap(_ReadableMap[K, V]):
    """What can be done to every map that may change."""

    @abstractmethod
    def put(self, key: K, value: V) -> None:
        """Set the value of a map key."""

    @abstractmethod
    def put_all(self, dict_value: dict[K, V]) -> None:
        """Set several entries."""

    @abstractmethod
    def remove(self, key: K) -> None:
        """Remove an entry; no error when there is none."""

    def __setitem__(self, key: K, value: V) -> None:
        self.put(key, value)

    def __delitem__(self, key: K) -> None:
        self.remove(key)


class MapState(_WritableMap[K, V]):
    """A map per key; each entry is stored on its own.

    `items`, `keys`, `values` and `sorted_items` give iterators that fetch entries as they go. Such an
    iterator belongs to the record in which it was made. Meanwhile the map may change: an entry that is
    there all the time is given exactly once, one that is removed before its turn is not, one that is added
    may be, and a value is the one at its turn.
    """

    @abstractmethod
    def items(self) -> Iterator[tuple[K, V]]:
        """All entries, in no particular order."""

    @abstractmethod
    def keys(self) -> Iterator[K]:
        """All map keys, in no particular order."""

    @abstractmethod
    def values(self) -> Iterator[V]:
        """All values, in no particular order."""

    @abstractmethod
    def sorted_items(self, from_key: K | None = None, to_key: K | None = None) -> Iterator[tuple[K, V]]:
        """The entries in the order of their map keys' encoding.

        Map keys of one type among int, str, bytes, bool, date, datetime and time, and tuples of these,
        come in their natural order. With LMDB a range is read without the rest of the map.

        Args:
            from_key: where to start, inclusive; None for the first.
            to_key: where to end, exclusive; None for behind the last.
        """


class ReadOnlyBroadcastState(_ReadableMap[K, V]):
    """A map that is equal in all subtasks of an operator, for those who may only read it.

    It belongs to no key: all records of a subtask see the same map.
    """


class BroadcastState(_WritableMap[K, V], ReadOnlyBroadcastState[K, V]):
    """A map that every subtask must change in the same way, for example by the same broadcast records."""
