"""Broadcast state that may be larger than memory.

A small map is a dict, stored whole by each snapshot. A large one is a map state of a keyed backend whose only
key is `BROADCAST_KEY`: the same buffer and cache over LMDB, the same segments, the same merges. The segments
are the parts of its handle, marked as changes. Only subtask 0 stores the map, so in the other subtasks the
backend remembers no changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ...protocol.checkpoints.handles import KeyedStateHandle, ListPart, SegmentHandle
from ...protocol.checkpoints.redistribution import BROADCAST
from ..backend import FrozenKeyedState, KeyedStateBackend
from ..descriptors import MapStateDescriptor
from ..keyed.tables import private_copy
from ..kinds import BroadcastState, MapState
from ..serializers.codecs import value_codec
from .growth import LOOK_EVERY, MemoryLimit
from .list_storage import BROADCAST_GROUPS, BROADCAST_KEY, ListStorage, RestoredItems
from .live_operator_state import FrozenItems, OperatorBroadcastState, OperatorState


class _FrozenMap(FrozenItems):
    """What changed in a map since the last snapshot."""

    def __init__(self, frozen: FrozenKeyedState) -> None:
        self._frozen = frozen

    def persist(self, files: ListStorage, state_name: str, schema: dict[str, object]) -> tuple[ListPart, ...]:
        segments = self._frozen.persist().segments
        return tuple(ListPart(each.file, 0, each.entry_count, is_changes=True) for each in segments)


class BroadcastStateOnDisk(OperatorState, BroadcastState[Any, Any]):
    """A map that moves from memory to a backend on local disk when it grows over a limit.

    Args:
        new_backend: opens that backend.
    """

    def __init__(
        self,
        descriptor: MapStateDescriptor,
        new_backend: Callable[[MapStateDescriptor], KeyedStateBackend],
        limit: MemoryLimit,
    ) -> None:
        name, codec, schema = descriptor.get_name(), value_codec(descriptor.type_info), descriptor.schema()
        super().__init__(name, BROADCAST, codec, schema)
        self._descriptor = descriptor
        self._new_backend = new_backend
        self._limit = limit
        self._puts = 0
        self._small = OperatorBroadcastState(name, BROADCAST, codec, schema)
        self._backend: KeyedStateBackend | None = None
        self._held: OperatorBroadcastState | MapState[Any, Any] = self._small

    def get(self, key: Any) -> Any:
        return self._held.get(key)

    def contains(self, key: Any) -> bool:
        return self._held.contains(key)

    def put(self, key: Any, value: Any) -> None:
        if self._backend is not None:
            # The buffer keeps the value until it is stored, and the caller may change it in the meantime.
            self._held.put(key, private_copy(value))
            return
        self._small.put(key, value)
        self._puts += 1
        if self._puts % LOOK_EVERY == 1 or self._small.count > self._limit.entries:
            self._move_if_large()

    def put_all(self, dict_value: dict[Any, Any]) -> None:
        for key, value in dict_value.items():
            self.put(key, value)

    def remove(self, key: Any) -> None:
        self._held.remove(key)

    def items(self) -> Iterable[tuple[Any, Any]]:
        return self._held.items()

    def keys(self) -> Iterable[Any]:
        return self._held.keys()

    def values(self) -> Iterable[Any]:
        return self._held.values()

    def is_empty(self) -> bool:
        return self._held.is_empty()

    def clear(self) -> None:
        self._held.clear()

    def freeze(self) -> FrozenItems:
        return self._small.freeze() if self._backend is None else _FrozenMap(self._backend.freeze())

    def load(self, restored: RestoredItems) -> None:
        handle = restored.handle
        if restored.are_changes:
            name = handle.state_name
            schema = {key: text for key, text in handle.schema.items() if key != "value_encoding"}
            segments = tuple(_segment(name, part, at == 0) for at, part in enumerate(handle.parts))
            self._move(KeyedStateHandle(segments, {name: schema}), restored.are_owned)
            return
        self._small.load(restored)
        self._move_if_large()

    def _move_if_large(self) -> None:
        if self._limit.is_exceeded(self._small.count, self._small.newest()):
            self._move(KeyedStateHandle(), owned=True)

    def _move(self, stored: KeyedStateHandle, owned: bool) -> None:
        """From now on the map is in a backend, which starts with what is stored and what is in memory."""
        backend = self._new_backend(self._descriptor)
        backend.restore(stored, owned)
        held = backend.get_map_state(self._descriptor)
        backend.current_key = BROADCAST_KEY
        self._backend, self._held = backend, held
        self.put_all(dict(self._small.items()))
        self._small.clear()


def _segment(state_name: str, part: ListPart, is_base: bool) -> SegmentHandle:
    return SegmentHandle(state_name, part.file, BROADCAST_GROUPS, part.item_count, is_base)
