"""State backends, by PyFlink's import path."""

from __future__ import annotations

from ..state.backend import HashMapStateBackend, StateBackend
from ..state.lmdb_backend import EmbeddedRocksDBStateBackend, LmdbStateBackend

__all__ = [
    "EmbeddedRocksDBStateBackend",
    "HashMapStateBackend",
    "LmdbStateBackend",
    "StateBackend",
]
