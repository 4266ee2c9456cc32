"""The live objects behind operator state: a list, or a map, of one subtask, in memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

from ...protocol.checkpoints.handles import ListPart
from ..kinds import BroadcastState, ListState
from ..serializers.codecs import ValueCodec
from .list_files import EncodedItems, decode_items, encode_items
from .list_storage import ListStorage, RestoredItems


class FrozenItems(ABC):
    """One operator state as of a snapshot."""

    @property
    def is_trivial(self) -> bool:
        """Whether there is nothing to write."""
        return False

    @abstractmethod
    def persist(self, files: ListStorage, state_name: str, schema: dict[str, object]) -> tuple[ListPart, ...]:
        """Write what is not written yet, and return where all of it is. Runs off the task's thread."""


class NoItems(FrozenItems):
    """Of an empty state, or of one that another subtask stores."""

    @property
    def is_trivial(self) -> bool:
        return True

    def persist(self, files: ListStorage, state_name: str, schema: dict[str, object]) -> tuple[ListPart, ...]:
        return ()


class WholeItems(FrozenItems):
    """All items of a state, which go to a new file."""

    def __init__(self, items: EncodedItems) -> None:
        self._items = items

    def persist(self, files: ListStorage, state_name: str, schema: dict[str, object]) -> tuple[ListPart, ...]:
        return (files.write(self._items, state_name, schema),)


class OperatorState(ABC):
    """What the kinds of operator state share."""

    def __init__(self, name: str, mode: str, codec: ValueCodec, schema: dict[str, object]) -> None:
        self.name = name
        self.mode = mode
        self.codec = codec
        self.schema = schema
        self.stored_schema = {**schema, "value_encoding": "pickle" if codec.is_pickled else "typed"}

    @abstractmethod
    def freeze(self) -> FrozenItems:
        """The synchronous part of a snapshot.

        Raises:
            StateError: An item does not fit its declared type.
            KeyTypeError: A map key has no deterministic encoding.
        """

    @abstractmethod
    def load(self, restored: RestoredItems) -> None:
        """Take over restored items; called once, before anything else."""

    def close(self) -> None:
        """Release what the state holds outside memory. May be called twice."""


class OperatorListState(OperatorState, ListState[Any]):
    """A list, even-split or union."""

    def __init__(self, name: str, mode: str, codec: ValueCodec, schema: dict[str, object]) -> None:
        super().__init__(name, mode, codec, schema)
        self._items: list[Any] = []

    def get(self) -> list[Any]:
        return list(self._items)

    def add(self, value: Any) -> None:
        self._items.append(value)

    def add_all(self, values: Iterable[Any]) -> None:
        self._items.extend(values)

    def update(self, values: list[Any]) -> None:
        self._items = list(values)

    def clear(self) -> None:
        self._items = []

    def freeze(self) -> FrozenItems:
        return WholeItems(encode_items(self.codec, self._items)) if self._items else NoItems()

    def load(self, restored: RestoredItems) -> None:
        for _, rows in restored.tables():
            self._items += decode_items(self.codec, rows)[1]


class OperatorBroadcastState(OperatorState, BroadcastState[Any, Any]):
    """A map without keys of records."""

    def __init__(self, name: str, mode: str, codec: ValueCodec, schema: dict[str, object]) -> None:
        super().__init__(name, mode, codec, schema)
        self._entries: dict[Any, Any] = {}

    def get(self, key: Any) -> Any:
        return self._entries.get(key)

    def contains(self, key: Any) -> bool:
        return key in self._entries

    @property
    def count(self) -> int:
        """How many entries there are."""
        return len(self._entries)

    def newest(self) -> Iterator[tuple[Any, Any]]:
        """The entries, the last new one first."""
        return reversed(self._entries.items())

    def put(self, key: Any, value: Any) -> None:
        self._entries[key] = value

    def put_all(self, dict_value: dict[Any, Any]) -> None:
        self._entries.update(dict_value)

    def remove(self, key: Any) -> None:
        self._entries.pop(key, None)

    def items(self) -> Iterable[tuple[Any, Any]]:
        return list(self._entries.items())

    def keys(self) -> Iterable[Any]:
        return list(self._entries)

    def values(self) -> Iterable[Any]:
        return list(self._entries.values())

    def is_empty(self) -> bool:
        return not self._entries

    def clear(self) -> None:
        self._entries = {}

    def freeze(self) -> FrozenItems:
        if not self._entries:
            return NoItems()
        return WholeItems(encode_items(self.codec, list(self._entries.values()), list(self._entries)))

    def load(self, restored: RestoredItems) -> None:
        for _, rows in restored.tables():
            map_keys, values = decode_items(self.codec, rows)
            self._entries.update(zip(map_keys, values, strict=True))
