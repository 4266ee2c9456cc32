"""State backends, by PyFlink's import path."""

from __future__ import annotations

from ..common.absent_names import refusal
from ..state.backend import StateBackend
from ..state.live_backends import FileSystemStateBackend, HashMapStateBackend, MemoryStateBackend
from ..state.lmdb_backend import LmdbStateBackend
from ..state.rocksdb_backend import EmbeddedRocksDBStateBackend, PredefinedOptions

__all__ = [
    "EmbeddedRocksDBStateBackend",
    "FileSystemStateBackend",
    "HashMapStateBackend",
    "LmdbStateBackend",
    "MemoryStateBackend",
    "PredefinedOptions",
    "StateBackend",
]

__getattr__ = refusal(__name__)
