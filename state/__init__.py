"""Keyed and operator state: descriptors, handles, codecs, backends, checkpoint storage.

Live state is plain Python objects in dicts; LMDB (in `lmdb*.py` only) stands behind them when state may
exceed memory; snapshots are Parquet segments in a `CheckpointStorage`. Nothing here knows tasks,
channels or barriers: a backend is told to freeze, and hands back what to persist on another thread.
Importing this package loads neither lmdb nor pyarrow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .snapshot_diff import diff
    from .snapshot_reader import read_snapshot

__all__ = ["diff", "read_snapshot"]


def __getattr__(name: str) -> Any:
    if name == "read_snapshot":
        from .snapshot_reader import read_snapshot

        return read_snapshot
    if name == "diff":
        from .snapshot_diff import diff

        return diff
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
