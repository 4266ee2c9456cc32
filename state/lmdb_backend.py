"""The LMDB state backend: state may be larger than memory."""

from __future__ import annotations

import os
from dataclasses import dataclass
from urllib.parse import quote

from ..common.errors import ConfigurationError
from .backend import KeyedStateBackend, KeyedStateBackendParameters, StateBackend


@dataclass(frozen=True)
class LmdbStateBackend(StateBackend):
    """A write buffer and a read cache of live values over LMDB on local disk.

    Args:
        enable_incremental_checkpointing: accepted for Flink's sake; checkpoints are always incremental.
        cache_entries: entries of one of the two generations of the read cache, per state.
        write_buffer_entries: changed entries per state that may wait in memory for a checkpoint;
            beyond it they are spilled to LMDB.
        initial_map_size_bytes: LMDB's map at the start; it grows by itself.
    """

    enable_incremental_checkpointing: bool = True
    cache_entries: int = 1_000_000
    write_buffer_entries: int = 1_000_000
    initial_map_size_bytes: int = 256 << 20

    def __post_init__(self) -> None:
        for name in ("cache_entries", "write_buffer_entries", "initial_map_size_bytes"):
            if getattr(self, name) < 1:
                raise ConfigurationError(f"LmdbStateBackend: {name} must be at least 1")

    def create_keyed_backend(self, params: KeyedStateBackendParameters) -> KeyedStateBackend:
        from .keyed_backend import BufferLimits, TableKeyedStateBackend
        from .lmdb_store import LmdbStore

        name = f"{quote(params.operator_uid, safe='')}-{params.subtask_index}-{params.attempt}"
        store = LmdbStore(
            os.path.join(params.local_dir, name),
            self.initial_map_size_bytes,
            params.operator_name,
        )
        limits = BufferLimits(self.cache_entries, self.write_buffer_entries)
        return TableKeyedStateBackend(params, store, limits)
