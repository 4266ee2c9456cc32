"""The live objects behind operator state: a list, or a map, of one subtask."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from .codecs import ValueCodec
from .kinds import BroadcastState, ListState
from .list_files import EncodedItems, encode_items


class OperatorState(ABC):
    """What the kinds of operator state share."""

    def __init__(self, name: str, mode: str, codec: ValueCodec, schema: dict[str, object]) -> None:
        self.name = name
        self.mode = mode
        self.codec = codec
        self.schema = schema
        self.stored_schema = {**schema, "value_encoding": "pickle" if codec.is_pickled else "typed"}

    @abstractmethod
    def is_empty(self) -> bool:
        """Whether there is no item."""

    @abstractmethod
    def encode(self) -> EncodedItems:
        """The items as columns."""

    @abstractmethod
    def load(self, map_keys: list[Any], values: list[Any]) -> None:
        """Add restored items."""


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

    def is_empty(self) -> bool:
        return not self._items

    def encode(self) -> EncodedItems:
        return encode_items(self.codec, self._items)

    def load(self, map_keys: list[Any], values: list[Any]) -> None:
        self._items += values


class OperatorBroadcastState(OperatorState, BroadcastState[Any, Any]):
    """A map without keys of records."""

    def __init__(self, name: str, mode: str, codec: ValueCodec, schema: dict[str, object]) -> None:
        super().__init__(name, mode, codec, schema)
        self._entries: dict[Any, Any] = {}

    def get(self, key: Any) -> Any:
        return self._entries.get(key)

    def contains(self, key: Any) -> bool:
        return key in self._entries

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

    def encode(self) -> EncodedItems:
        return encode_items(self.codec, list(self._entries.values()), list(self._entries))

    def load(self, map_keys: list[Any], values: list[Any]) -> None:
        self._entries.update(zip(map_keys, values, strict=True))
