"""State backends, by PyFlink's import path."""

from __future__ import annotations

from ..state.backend import HashMapStateBackend, StateBackend
from ..state.lmdb_backend import LmdbStateBackend

EmbeddedRocksDBStateBackend = LmdbStateBackend
"""PyFlink's name for the backend that keeps state on local disk; here it is LMDB."""

__all__ = [
    "EmbeddedRocksDBStateBackend",
    "HashMapStateBackend",
    "LmdbStateBackend",
    "StateBackend",
]
