"""Operator state on local disk: in LMDB, once it has outgrown memory. Small state opens no environment."""

from __future__ import annotations

import itertools
import os
import struct
from collections import deque
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote

from ..backend import BackendClosedError, KeyedStateBackend, KeyedStateBackendParameters
from ..descriptors import MapStateDescriptor, StateDescriptor
from ..operator.broadcast_on_disk import BroadcastStateOnDisk
from ..operator.growth import MemoryLimit
from ..operator.list_on_disk import ListStateOnDisk, PieceStore
from ..operator.list_storage import BROADCAST_GROUPS, OperatorStateBackendParameters
from ..operator.live_operator_state import OperatorState
from ..operator.operator_state_backend import StatesOnDisk
from ..serializers.codecs import value_codec

if TYPE_CHECKING:
    from .environment import LmdbEnvironment

_NUMBER = struct.Struct(">Q")


class LmdbPieces(PieceStore):
    """Pieces of the lists of one operator in one subtask, in an environment that the first piece opens.

    Args:
        path: directory of the environment.
        map_size_bytes: its initial map size.
        operator_name: for error messages.
    """

    def __init__(self, path: str, map_size_bytes: int, operator_name: str) -> None:
        self._path = path
        self._map_size_bytes = map_size_bytes
        self._operator_name = operator_name
        self._environment: LmdbEnvironment | None = None
        self._numbers = itertools.count()
        self._discarded: deque[int] = deque()
        self._is_closed = False

    def put(self, data: bytes) -> int:
        from .environment import LmdbEnvironment, WriteBatch

        if self._environment is None:
            self._environment = LmdbEnvironment(self._path, self._map_size_bytes, self._operator_name)
        number = next(self._numbers)
        gone = [_NUMBER.pack(self._discarded.popleft()) for _ in range(len(self._discarded))]
        self._environment.write(WriteBatch([_NUMBER.pack(number)], [data], gone))
        if gone:
            self._environment.compact_if_grown()
        return number

    def get(self, number: int) -> bytes:
        if self._is_closed or self._environment is None:
            raise BackendClosedError(f"operator {self._operator_name!r}: its operator state is closed")
        data = self._environment.get(_NUMBER.pack(number))
        assert data is not None, "a piece is removed only when nothing refers to it"
        return data

    def discard(self, numbers: Iterable[int]) -> None:
        self._discarded.extend(numbers)

    def close(self) -> None:
        """Remove all pieces. May be called twice."""
        self._is_closed = True
        if self._environment is not None:
            self._environment.close()


class LmdbOperatorStates(StatesOnDisk):
    """The operator states of one operator in one subtask.

    Args:
        memory_size_bytes: for caches and write buffers of each large broadcast state.
        map_size_bytes: initial map size of each environment.
        limit: how much of one state stays in memory as plain objects.
    """

    def __init__(
        self,
        params: OperatorStateBackendParameters,
        memory_size_bytes: int,
        map_size_bytes: int,
        limit: MemoryLimit,
    ) -> None:
        self._params = params
        self._memory_size_bytes = memory_size_bytes
        self._map_size_bytes = map_size_bytes
        self._limit = limit
        self._pieces = LmdbPieces(self._directory("lists"), map_size_bytes, params.operator_name)
        self._backends: tuple[KeyedStateBackend, ...] = ()

    @property
    def backends(self) -> Sequence[KeyedStateBackend]:
        return self._backends

    def list_state(self, descriptor: StateDescriptor, mode: str) -> OperatorState:
        name = descriptor.get_name()
        return ListStateOnDisk(
            name,
            mode,
            value_codec(descriptor.type_info),
            descriptor.schema(),
            f"{self._params.where}: operator state {name!r}",
            self._pieces,
            self._limit,
        )

    def broadcast_state(self, descriptor: MapStateDescriptor) -> OperatorState:
        return BroadcastStateOnDisk(descriptor, self._new_backend, self._limit)

    def close(self) -> None:
        self._pieces.close()
        for backend in self._backends:
            backend.close()

    def _new_backend(self, descriptor: MapStateDescriptor) -> KeyedStateBackend:
        from ..keyed.keyed_backend import TableKeyedStateBackend
        from ..keyed.memory_budget import MemoryBudget
        from .environment import LEAST_MAPPED_BYTES
        from .store import LmdbStore

        params = self._params
        directory = self._directory(f"broadcast-{quote(descriptor.get_name(), safe='')}")
        store = LmdbStore(
            directory,
            self._map_size_bytes,
            params.operator_name,
            max(self._memory_size_bytes, LEAST_MAPPED_BYTES),
        )
        backend = TableKeyedStateBackend(
            KeyedStateBackendParameters(
                operator_uid=params.operator_uid,
                operator_name=params.operator_name,
                subtask_index=params.subtask_index,
                attempt=params.attempt,
                max_parallelism=BROADCAST_GROUPS.size,
                key_groups=BROADCAST_GROUPS,
                key_type=None,
                local_dir=params.local_dir,
                storage=params.storage,
                file_prefix=f"{params.file_prefix}/broadcast".lstrip("/"),
                is_stored=params.subtask_index == 0,
            ),
            store,
            MemoryBudget(self._memory_size_bytes),
        )
        self._backends = (*self._backends, backend)
        return backend

    def _directory(self, name: str) -> str:
        params = self._params
        uid = quote(params.operator_uid, safe="")
        return os.path.join(
            params.local_dir, f"{uid}-{params.subtask_index}-{params.attempt}-operator-{name}"
        )
