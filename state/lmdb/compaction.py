"""Keeps the file of an LMDB environment near the size of what is in it.

LMDB reuses free pages but never gives them back, so a file stays as large as it ever was. A compacting
copy holds a read transaction, which pins old pages only while something is written; the one thread that
writes is the one that copies.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice

import lmdb

from .write_interleaving import WriteInterleaver

# Copying costs about 1.5 s per GiB, so not before half of the file would be given back.
_GROWTH = 1.75
_SMALLEST_FILE_BYTES = 16 << 20
_SWEEP_ENTRIES = 8_192

Drop = Callable[[bytes, bytes], bool]
"""Whether an entry, given as LMDB key and value, is to be removed."""


@dataclass(frozen=True, slots=True)
class FileSize:
    """Size of an environment's file, and of the pages in it that hold data."""

    file_bytes: int
    live_bytes: int


def file_size(env: lmdb.Environment) -> FileSize:
    """Measure an environment; independent of its size."""
    stat = env.stat()
    used = stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"]
    # Two pages at the start of the file say where the root is.
    return FileSize((env.info()["last_pgno"] + 1) * stat["psize"], (used + 2) * stat["psize"])


def is_copy_due(size: FileSize, directory: str) -> bool:
    """Whether a compacting copy is worth its time, and fits beside the file."""
    if size.file_bytes < max(_SMALLEST_FILE_BYTES, _GROWTH * size.live_bytes):
        return False
    return shutil.disk_usage(directory).free > 2 * size.live_bytes


class Sweep:
    """Goes round the entries of an environment, some at a time, and removes what is to be dropped."""

    def __init__(self) -> None:
        self._next_key = b""

    def step(self, env: lmdb.Environment, turns: WriteInterleaver, entry_count: int, drop: Drop) -> int:
        """Look at the next entries.

        Args:
            entry_count: how many to look at; the round ends with the last entry, and a new one begins
                with the next call.

        Returns:
            How many were removed.

        Raises:
            lmdb.Error: when the local disk refuses.
        """
        removed = 0
        while entry_count > 0:
            limit = min(entry_count, _SWEEP_ENTRIES)
            with turns.writing():
                removed += self._step(env, limit, drop)
            entry_count = entry_count - limit if self._next_key else 0
        return removed

    def _step(self, env: lmdb.Environment, limit: int, drop: Drop) -> int:
        with env.begin() as transaction:
            cursor = transaction.cursor()
            found = list(islice(cursor, limit + 1)) if cursor.set_range(self._next_key) else []
        doomed = [key for key, value in found[:limit] if drop(key, value)]
        if doomed:
            with env.begin(write=True) as transaction:
                for key in doomed:
                    transaction.delete(key)
        self._next_key = found[limit][0] if len(found) > limit else b""
        return len(doomed)
