"""The LMDB state backend: keyed and operator state may be larger than memory."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

from ..common.errors import ConfigurationError
from ..common.options.checkpoint_options import StateBackendOptions
from .backend import KeyedStateBackend, KeyedStateBackendParameters, StateBackend

if TYPE_CHECKING:
    from .operator.list_storage import OperatorStateBackendParameters
    from .operator.operator_state_backend import OperatorStateBackend

_OPERATOR_STATE_SHARE = 4


@dataclass(frozen=True)
class LmdbStateBackend(StateBackend):
    """A write buffer and a read cache of live values over LMDB on local disk.

    Args:
        enable_incremental_checkpointing: accepted for Flink's sake; checkpoints are always incremental.
        memory_size_bytes: memory for caches and write buffers of keyed state, per operator and subtask, by
            estimate. Changed entries beyond their share are spilled to LMDB between checkpoints. Each large
            broadcast state may take a quarter of that in addition.
        initial_map_size_bytes: LMDB's map at the start; it grows by itself.
    """

    enable_incremental_checkpointing: bool = True
    memory_size_bytes: int = StateBackendOptions.LMDB_MEMORY.default
    initial_map_size_bytes: int = 256 << 20

    def __post_init__(self) -> None:
        for name in ("memory_size_bytes", "initial_map_size_bytes"):
            if getattr(self, name) < 1:
                raise ConfigurationError(f"LmdbStateBackend: {name} must be at least 1")

    def create_keyed_backend(self, params: KeyedStateBackendParameters) -> KeyedStateBackend:
        from .keyed.keyed_backend import TableKeyedStateBackend
        from .keyed.memory_budget import MemoryBudget
        from .lmdb.environment import LEAST_MAPPED_BYTES
        from .lmdb.store import LmdbStore

        name = f"{quote(params.operator_uid, safe='')}-{params.subtask_index}-{params.attempt}"
        store = LmdbStore(
            os.path.join(params.local_dir, name),
            self.initial_map_size_bytes,
            params.operator_name,
            max(self.memory_size_bytes, LEAST_MAPPED_BYTES),
        )
        return TableKeyedStateBackend(params, store, MemoryBudget(self.memory_size_bytes))

    def create_operator_backend(self, params: OperatorStateBackendParameters) -> OperatorStateBackend:
        from .lmdb.operator_state import LmdbOperatorStates
        from .operator.growth import MemoryLimit
        from .operator.operator_state_backend import OperatorStateBackend

        memory_size_bytes = max(1, self.memory_size_bytes // _OPERATOR_STATE_SHARE)
        states = LmdbOperatorStates(params, memory_size_bytes, self.initial_map_size_bytes, MemoryLimit())
        return OperatorStateBackend(params, states)
