"""Operator state: lists and maps that belong to a subtask, not to a key.

Three modes say what happens on a restore (Flink's names): the items of a list are split evenly over the
subtasks, or every subtask gets all of them (union), or all subtasks hold one equal map (broadcast).
Items are encoded in the synchronous part of a snapshot, because the user may change them right after;
their files are written in the asynchronous part.
"""

from __future__ import annotations

import itertools
import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast
from urllib.parse import quote

from ..common.errors import KeyTypeError, StateError, StateMigrationError
from ..protocol.handles import FileHandle, ListPart, OperatorListHandle
from ..protocol.redistribution import BROADCAST, EVEN_SPLIT, UNION
from .claims import Claims, Unclaimed, without_mark
from .codecs import value_codec
from .conversion import StateConversion
from .descriptors import ListStateDescriptor, MapStateDescriptor, StateDescriptor
from .encoded_values import damage_named
from .evolution import check_restored_schema
from .kinds import BroadcastState, ListState
from .list_files import EncodedItems, decode_items, read_list_file, write_list_file
from .operator_states import OperatorBroadcastState, OperatorListState, OperatorState
from .storage import CheckpointStorage, read_restored

S = TypeVar("S", bound="OperatorState")

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class OperatorStateBackendParameters:
    """What an operator state backend must know about its place in the job.

    Attributes:
        storage: where list files go; None when checkpointing is off.
        file_prefix: directory of this operator's files in `storage`.
    """

    operator_uid: str
    operator_name: str
    subtask_index: int
    attempt: int = 0
    storage: CheckpointStorage | None = None
    file_prefix: str = ""


class FrozenOperatorState:
    """Operator state as of one snapshot: encoded, not yet written."""

    def __init__(self, files: _ListFiles, states: list[_Encoded], carried: list[OperatorListHandle]) -> None:
        self._files = files
        self._states = states
        self._carried = carried

    @property
    def is_trivial(self) -> bool:
        """Whether there is nothing to write."""
        return not self._carried and all(state.items is None for state in self._states)

    def persist(self) -> tuple[OperatorListHandle, ...]:
        """Write the files and return the handles. Runs off the task's thread.

        Raises:
            CheckpointStorageError: Storage refuses.
        """
        written = tuple(self._files.write(state) for state in self._states)
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
    """The operator states of one subtask."""

    def __init__(self, params: OperatorStateBackendParameters) -> None:
        self._where = f"operator {params.operator_name!r}, subtask {params.subtask_index}"
        self._params = params
        self._files = _ListFiles(params, self._where)
        self._states: dict[str, OperatorState] = {}
        self._restored: dict[str, OperatorListHandle] = {}
        self._claims = Claims()

    def get_list_state(self, descriptor: ListStateDescriptor) -> ListState[Any]:
        return self._get(descriptor, OperatorListState, EVEN_SPLIT)

    def get_union_list_state(self, descriptor: ListStateDescriptor) -> ListState[Any]:
        return self._get(descriptor, OperatorListState, UNION)

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
        return self._get(state_descriptor, OperatorBroadcastState, BROADCAST)

    def snapshot(self) -> FrozenOperatorState:
        """All states, encoded: the synchronous part.

        States that were restored but not declared since are carried along unchanged.

        Raises:
            StateError: when an item does not fit its declared type.
            KeyTypeError: when a map key has no deterministic encoding.
        """
        encoded = [self._encoded(state) for state in self._states.values()]
        # Everybody was given all of a union or broadcast state: one of them carries it, or it would grow.
        carried = [
            handle if handle.mode == EVEN_SPLIT or self._params.subtask_index == 0 else _emptied(handle)
            for handle in self._restored.values()
        ]
        return FrozenOperatorState(self._files, encoded, carried)

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
        return self._claims.unclaimed([name for name, each in self._restored.items() if each.item_count])

    def _encoded(self, state: OperatorState) -> _Encoded:
        try:
            is_copy = state.mode == BROADCAST and self._params.subtask_index != 0
            items = None if is_copy or state.is_empty() else state.encode()
            marked = self._claims.marked(state.name, state.stored_schema)
            return _Encoded(state.name, state.mode, marked, items)
        except (StateError, KeyTypeError) as error:
            raise type(error)(f"{self._where}: operator state {state.name!r}: {error}") from error

    def _get(self, descriptor: StateDescriptor, kind: type[S], mode: str) -> S:
        name = descriptor.get_name()
        if descriptor.ttl_config is not None:
            raise StateError(
                f"{self._where}: operator state {name!r} cannot have a time to live, only keyed state can; "
                f"remove what is too old in snapshot_state()"
            )
        schema = descriptor.schema()
        state = self._states.get(name)
        if state is None:
            state = kind(name, mode, value_codec(descriptor.type_info), schema)
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
        return cast(S, state)

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
        for part in stored.parts:
            data = self._files.read(part.file)
            with damage_named(where):
                table, schema = read_list_file(data, part.file.path)
                rows = conversion.converted(table.slice(part.start, part.end - part.start), schema)
                state.load(*decode_items(state.codec, rows))


@dataclass(frozen=True)
class _Encoded:
    """One state in a frozen snapshot; without `items` where there are none or another subtask stores them."""

    name: str
    mode: str
    schema: dict[str, object]
    items: EncodedItems | None


class _ListFiles:
    """Names, writes and reads the list files of one operator in one subtask."""

    def __init__(self, params: OperatorStateBackendParameters, where: str) -> None:
        self._params = params
        self._where = where
        self._numbers = itertools.count()
        self._copies: dict[str, FileHandle] = {}
        self.are_foreign = False

    def write(self, state: _Encoded) -> OperatorListHandle:
        """Write the items of a state; an empty one needs no file."""
        items = state.items
        if items is None:
            return OperatorListHandle(state.name, state.mode, state.schema)
        data = write_list_file(items, self._params.operator_uid, state.name, without_mark(state.schema))
        part = ListPart(self._stored(state.name, data), 0, len(items.values))
        return OperatorListHandle(state.name, state.mode, state.schema, (part,))

    def read(self, file: FileHandle) -> bytes:
        """Content of a file."""
        return read_restored(self._params.storage, file)

    def owned(self, handle: OperatorListHandle) -> OperatorListHandle:
        """A restored handle on files of this job: those of another job are copied first."""
        if not self.are_foreign:
            return handle
        parts = tuple(replace(part, file=self._copy(handle.state_name, part.file)) for part in handle.parts)
        return replace(handle, parts=parts)

    def _copy(self, state_name: str, file: FileHandle) -> FileHandle:
        if file.path not in self._copies:
            self._copies[file.path] = self._stored(state_name, self.read(file))
        return self._copies[file.path]

    def _stored(self, state_name: str, data: bytes | memoryview) -> FileHandle:
        params = self._params
        path = (
            f"{params.file_prefix}/operator/{quote(state_name, safe='')}-{params.subtask_index}"
            f"-{params.attempt}-{next(self._numbers)}.parquet"
        ).lstrip("/")
        return self._storage().write_file(path, data)

    def _storage(self) -> CheckpointStorage:
        storage = self._params.storage
        if storage is None:
            raise StateError(
                f"{self._where}: operator state cannot be stored without a checkpoint storage; "
                f"set one in CheckpointConfig"
            )
        return storage


def _emptied(handle: OperatorListHandle) -> OperatorListHandle:
    return replace(handle, parts=())
