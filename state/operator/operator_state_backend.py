"""Operator state: lists and maps that belong to a subtask, not to a key.

Three modes say what happens on a restore (Flink's names): the items of a list are split evenly over the
subtasks, or every subtask gets all of them (union), or all subtasks hold one equal map (broadcast).
Files are written in the asynchronous part of a snapshot.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from ...common.errors import KeyTypeError, StateError, StateMigrationError
from ...protocol.checkpoints.handles import OperatorListHandle
from ...protocol.checkpoints.redistribution import BROADCAST, EVEN_SPLIT, UNION
from ..backend import KeyedStateBackend
from ..claims import Claims, Unclaimed
from ..descriptors import ListStateDescriptor, MapStateDescriptor, StateDescriptor
from ..evolution import check_restored_schema
from ..keyed.conversion import StateConversion
from ..kinds import BroadcastState, ListState
from ..serializers.codecs import value_codec
from ..serializers.encoded_values import damage_named
from .epoch_tables import EpochTablesDescriptor, EpochTablesState
from .list_storage import ListStorage, OperatorStateBackendParameters, RestoredItems
from .live_operator_state import (
    FrozenItems,
    NoItems,
    OperatorBroadcastState,
    OperatorListState,
    OperatorState,
)

logger = logging.getLogger(__name__)


class FrozenOperatorState:
    """Operator state as of one snapshot: nothing the user can still change, and not yet written."""

    def __init__(self, files: ListStorage, states: list[_Frozen], carried: list[OperatorListHandle]) -> None:
        self._files = files
        self._states = states
        self._carried = carried

    @property
    def is_trivial(self) -> bool:
        """Whether there is nothing to write."""
        return not self._carried and all(state.items.is_trivial for state in self._states)

    def persist(self) -> tuple[OperatorListHandle, ...]:
        """Write the files and return the handles. Runs off the task's thread.

        Raises:
            CheckpointStorageError: Storage or the local disk refuses.
            StateError: A value cannot be encoded as its declared type.
        """
        written = tuple(state.persist(self._files) for state in self._states)
        return (*written, *(self._files.owned(handle) for handle in self._carried))


class OperatorStateStore(ABC):
    """Where a function declares its operator state."""

    @abstractmethod
    def get_list_state(self, descriptor: ListStateDescriptor) -> ListState[Any]:
        """A list whose items are split evenly over the subtasks when the parallelism changes."""

    @abstractmethod
    def get_union_list_state(self, descriptor: ListStateDescriptor) -> ListState[Any]:
        """A list of which every subtask gets all items on a restore.

        A snapshot joins what the subtasks hold: a subtask that kept what it was given would multiply
        the list, so each must replace it by its own part.
        """

    @abstractmethod
    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
        """A map that the user keeps equal in all subtasks; the copy of subtask 0 is stored."""


class OperatorStateBackend(OperatorStateStore):
    """The operator states of one subtask.

    Args:
        on_disk: Makes the states that move to local disk when they grow; None keeps all in memory. The task
            spills those that have moved.
    """

    def __init__(self, params: OperatorStateBackendParameters, on_disk: StatesOnDisk | None = None) -> None:
        self._where = params.where
        self._params = params
        self.on_disk = on_disk
        self._files = ListStorage(params)
        self._states: dict[str, OperatorState] = {}
        self._restored: dict[str, OperatorListHandle] = {}
        self._claims = Claims()

    def get_list_state(self, descriptor: ListStateDescriptor) -> ListState[Any]:
        return cast(ListState[Any], self._get(descriptor, EVEN_SPLIT))

    def get_union_list_state(self, descriptor: ListStateDescriptor) -> ListState[Any]:
        return cast(ListState[Any], self._get(descriptor, UNION))

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
        return cast(BroadcastState[Any, Any], self._get(state_descriptor, BROADCAST))

    def get_epoch_tables(self, descriptor: EpochTablesDescriptor) -> EpochTablesState:
        """The records of a stage's epochs, split evenly like a list."""
        return cast(EpochTablesState, self._get(descriptor, EVEN_SPLIT))

    def snapshot(self) -> FrozenOperatorState:
        """All states as they are now: the synchronous part.

        States in memory are encoded here, because the user may change their items right after. Of those on
        local disk only what changed since the last snapshot is looked at.

        States that were restored but not declared since are carried along unchanged.

        Raises:
            StateError: when an item does not fit its declared type.
            KeyTypeError: when a map key has no deterministic encoding.
        """
        frozen = [self._frozen(state) for state in self._states.values()]
        # Everybody was given all of a union or broadcast state: one of them carries it, or it would grow.
        carried = [
            handle if handle.mode == EVEN_SPLIT or self._params.subtask_index == 0 else _emptied(handle)
            for handle in self._restored.values()
        ]
        return FrozenOperatorState(self._files, frozen, carried)

    def restore(self, handles: Iterable[OperatorListHandle], owned: bool) -> None:
        """Start from stored items; called before any state is declared.

        Args:
            owned: False when the files belong to another job.
        """
        self._restored = {
            handle.state_name: replace(handle, schema=self._claims.restored(handle.state_name, handle.schema))
            for handle in handles
        }
        self._files.are_foreign = not owned

    def opened(self) -> None:
        """`open()` of the operator has returned: states declared from now on are declared late."""
        self._claims.opened(self._states)

    def unclaimed(self) -> list[Unclaimed]:
        """Restored states with items that are not declared; to be asked when `open()` has returned."""
        return self._claims.unclaimed(
            [name for name, each in self._restored.items() if self._files.holds(each)]
        )

    def close(self) -> None:
        """Release everything and remove local files. May be called twice."""
        if self.on_disk is not None:
            self.on_disk.close()
        for state in self._states.values():
            state.close()

    def _frozen(self, state: OperatorState) -> _Frozen:
        is_copy = state.mode == BROADCAST and self._params.subtask_index != 0
        try:
            items = NoItems() if is_copy else state.freeze()
        except (StateError, KeyTypeError) as error:
            raise type(error)(f"{self._where}: operator state {state.name!r}: {error}") from error
        return _Frozen(state.name, state.mode, self._claims.marked(state.name, state.stored_schema), items)

    def _get(self, descriptor: StateDescriptor, mode: str) -> OperatorState:
        name = descriptor.get_name()
        if descriptor.ttl_config is not None:
            raise StateError(
                f"{self._where}: operator state {name!r} cannot have a time to live, only keyed state can; "
                f"remove what is too old in snapshot_state()"
            )
        schema = descriptor.schema()
        state = self._states.get(name)
        if state is None:
            state = self._created(descriptor, mode)
            names = (name, *descriptor.previous_names)
            found = next((known for known in names if known in self._restored), None)
            warning = self._claims.declared(name, found)
            if warning is not None:
                logger.warning("%s: %s", self._where, warning)
            if found is not None:
                self._load(state, descriptor, self._restored.pop(found))
            self._states[name] = state
        elif state.mode != mode or state.schema != schema:
            raise StateError(
                f"{self._where}: operator state {name!r} is already declared as {state.mode} "
                f"{state.schema}, not as {mode} {schema}; use one descriptor and one mode per name"
            )
        return state

    def _created(self, descriptor: StateDescriptor, mode: str) -> OperatorState:
        if isinstance(descriptor, EpochTablesDescriptor):
            return EpochTablesState(descriptor, self._params.local_dir)
        if self.on_disk is not None:
            if isinstance(descriptor, MapStateDescriptor):
                return self.on_disk.broadcast_state(descriptor)
            return self.on_disk.list_state(descriptor, mode)
        kind = OperatorBroadcastState if mode == BROADCAST else OperatorListState
        return kind(descriptor.get_name(), mode, value_codec(descriptor.type_info), descriptor.schema())

    def _load(self, state: OperatorState, descriptor: StateDescriptor, stored: OperatorListHandle) -> None:
        if stored.mode != state.mode:
            raise StateMigrationError(
                f"{self._where}: operator state {state.name!r} was stored as {stored.mode} state but is "
                f"now declared {state.mode}; keep the mode, or give the state a new name"
            )
        before = {name: text for name, text in stored.schema.items() if name != "value_encoding"}
        check_restored_schema(self._params.operator_name, state.name, before, state.schema)
        where = f"{self._where}: operator state {state.name!r}"
        conversion = StateConversion(where, state.schema, descriptor.type_info)
        with damage_named(where):
            state.load(RestoredItems(self._files, stored, conversion))


class StatesOnDisk(ABC):
    """Makes operator states that are in memory while they are small, and on local disk from then on."""

    @property
    @abstractmethod
    def backends(self) -> Sequence[KeyedStateBackend]:
        """Those of the broadcast states that have moved."""

    @abstractmethod
    def list_state(self, descriptor: StateDescriptor, mode: str) -> OperatorState:
        """An even-split or union list."""

    @abstractmethod
    def broadcast_state(self, descriptor: MapStateDescriptor) -> OperatorState:
        """A map."""

    @abstractmethod
    def close(self) -> None:
        """Release everything and remove local files. May be called twice."""


@dataclass(frozen=True)
class _Frozen:
    """One state in a frozen snapshot."""

    name: str
    mode: str
    schema: dict[str, object]
    items: FrozenItems

    def persist(self, files: ListStorage) -> OperatorListHandle:
        parts = self.items.persist(files, self.name, self.schema)
        return OperatorListHandle(self.name, self.mode, self.schema, parts)


def _emptied(handle: OperatorListHandle) -> OperatorListHandle:
    return replace(handle, parts=())
