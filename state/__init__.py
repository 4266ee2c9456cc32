"""Keyed and operator state: descriptors, handles, codecs, backends, checkpoint storage.

Live state is plain Python objects in dicts; LMDB (in `lmdb/` only) stands behind them when state may
exceed memory; snapshots are Parquet segments in a `CheckpointStorage`. Nothing here knows tasks,
channels or barriers: a backend is told to freeze, and hands back what to persist on another thread.
Importing this package loads neither lmdb nor pyarrow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..common.lazy_imports import lazy_attributes
from .storage_kinds import register

if TYPE_CHECKING:
    from .snapshots.snapshot_diff import diff
    from .snapshots.snapshot_reader import read_snapshot

__all__ = ["diff", "read_snapshot"]

# Here, because this runs before any module of the room is used.
register()

__getattr__ = lazy_attributes(
    __name__,
    {
        ".snapshots.snapshot_diff": ("diff",),
        ".snapshots.snapshot_reader": ("read_snapshot",),
    },
)
