"""Operator state: lists of items that are redistributed over subtasks, not bound to keys."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..common.errors import StateError
from ..protocol.handles import OperatorListHandle
from .codecs import ValueCodec, value_codec
from .descriptors import ListStateDescriptor
from .kinds import ListState

EVEN_SPLIT = "even-split"
UNION = "union"


class OperatorStateBackend:
    """The operator list states of one subtask.

    Args:
        operator_name, subtask_index: for error messages.
    """

    def __init__(self, operator_name: str, subtask_index: int) -> None:
        self._where = f"operator {operator_name!r}, subtask {subtask_index}"
        self._states: dict[str, _OperatorListState] = {}
        self._restored: dict[str, OperatorListHandle] = {}

    def get_list_state(self, descriptor: ListStateDescriptor) -> ListState[Any]:
        """A list whose items are split evenly over the subtasks on a restore."""
        return self._get(descriptor, EVEN_SPLIT)

    def get_union_list_state(self, descriptor: ListStateDescriptor) -> ListState[Any]:
        """A list of which every subtask gets all items on a restore."""
        return self._get(descriptor, UNION)

    def snapshot(self) -> tuple[OperatorListHandle, ...]:
        """All states, encoded item by item. Synchronous: operator state is small.

        States that were restored but not declared since are carried along unchanged.

        Raises:
            StateError: when an item does not fit its declared type.
        """
        declared = tuple(state.to_handle() for state in self._states.values())
        return (*declared, *self._restored.values())

    def restore(self, handles: Iterable[OperatorListHandle]) -> None:
        """Start from stored items; called before any state is declared."""
        self._restored = {handle.state_name: handle for handle in handles}

    def _get(self, descriptor: ListStateDescriptor, mode: str) -> ListState[Any]:
        name = descriptor.get_name()
        state = self._states.get(name)
        if state is None:
            codec = value_codec(descriptor.type_info)
            state = _OperatorListState(name, mode, codec, descriptor.schema(), self._where)
            restored = self._restored.get(name)
            if restored is not None:
                state.load(restored)
                del self._restored[name]
            self._states[name] = state
        elif state.mode != mode or state.schema != descriptor.schema():
            raise StateError(
                f"{self._where}: operator state {name!r} is already declared as {state.mode} list "
                f"of {state.schema['value_type']}; use one descriptor and one mode per name"
            )
        return state


class _OperatorListState(ListState[Any]):
    def __init__(
        self, name: str, mode: str, codec: ValueCodec, schema: dict[str, object], where: str
    ) -> None:
        self.mode = mode
        self.schema = schema
        self._name = name
        self._codec = codec
        self._where = where
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

    def load(self, handle: OperatorListHandle) -> None:
        """Take over stored items."""
        if handle.mode != self.mode:
            raise StateError(
                f"{self._where}: operator state {self._name!r} was stored as {handle.mode} list but "
                f"is now declared {self.mode}; keep the mode, or give the state a new name"
            )
        self._items = [self._codec.decode(item) for item in handle.items]

    def to_handle(self) -> OperatorListHandle:
        """The items, each encoded on its own."""
        try:
            items = tuple(self._codec.encode_many(self._items))
        except StateError as error:
            raise StateError(f"{self._where}: operator state {self._name!r}: {error}") from error
        return OperatorListHandle(self._name, self.mode, items)
