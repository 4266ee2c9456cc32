"""One LMDB environment on local disk: reads, writes in pieces, growth, and compaction.

Nothing here is durable: the files die with the attempt, and checkpoints hold what matters.
"""

from __future__ import annotations

import errno
import os
import shutil
import threading
from dataclasses import dataclass
from itertools import islice
from typing import Any

import lmdb

from ...common.errors import CheckpointStorageError
from .compaction import Drop, FileSize, Sweep, file_size, is_copy_due
from .watched_file import WatchedFile
from .write_interleaving import WriteInterleaver

LEAST_MAPPED_BYTES = 256 << 20
# Linux maps the 16 pages around the one that is touched.
_MAPPED_PER_LOOK_BYTES = 64 << 10
# Of LMDB's lock file with the 126 readers it has room for.
_LOCK_FILE_BYTES = 8192


@dataclass(frozen=True, slots=True)
class WriteBatch:
    """Entries to put, in the order of their keys, and keys to delete."""

    keys: list[bytes]
    values: list[bytes]
    deletes: list[bytes]


class LmdbEnvironment:
    """Reads come from the task's thread, everything else from the snapshot thread.

    Args:
        path: directory of the environment; whatever is there is removed first.
        map_size_bytes: initial size of the map, doubled whenever it is full.
        operator_name: for error messages.
        mapped_bytes: about how much of the file may stay mapped. Mapped pages count as memory of the
            process, although the kernel can take them back.
    """

    def __init__(
        self, path: str, map_size_bytes: int, operator_name: str, mapped_bytes: int = LEAST_MAPPED_BYTES
    ) -> None:
        shutil.rmtree(path, ignore_errors=True)
        self.turns = WriteInterleaver()
        self._path = path
        self._where = f"operator {operator_name!r}"
        self._map_size_bytes = map_size_bytes
        self._process_id = os.getpid()
        self._is_open = True
        self._generation = 0
        self._sweep = Sweep()
        self._mapped_bytes = mapped_bytes
        self._most_looks = mapped_bytes // _MAPPED_PER_LOOK_BYTES
        self._looks = 0
        # Whoever writes or copies; remapping must not meet its transaction.
        self._one_writer = threading.RLock()
        # Growing or replacing the map is allowed only while no transaction is open in this process.
        self._no_readers = threading.Lock()
        try:
            self._env = self._open(0)
            self._file = self._watched(0)
        except (lmdb.Error, OSError) as error:
            raise self._error("opening", error) from error

    def get(self, key: bytes) -> bytes | None:
        """The value of a key, read in a transaction of its own so that no old page stays pinned."""
        with self._no_readers, self._begun() as transaction:
            value: bytes | None = transaction.get(key)
        self._looked_at(1)
        return value

    def get_many(self, keys: list[bytes]) -> dict[bytes, bytes]:
        """The values of many keys; what is not there is left out."""
        with self._no_readers, self._begun() as transaction:
            found: dict[bytes, bytes] = dict(transaction.cursor().getmulti(keys))
        self._looked_at(len(keys))
        return found

    def scan(self, prefix: bytes, start: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        """The first entries whose key starts with `prefix`, which is cut off, in order.

        Args:
            start: where to start behind the prefix, inclusive.
            limit: how many to return at most: a transaction must not stay open for long.
        """
        found: list[tuple[bytes, bytes]] = []
        with self._no_readers, self._begun() as transaction:
            cursor = transaction.cursor()
            if cursor.set_range(prefix + start):
                for key, value in islice(cursor, limit):
                    if not key.startswith(prefix):
                        break
                    found.append((key[len(prefix) :], value))
        return found

    def write(self, batch: WriteBatch) -> None:
        """Apply a batch in one transaction, growing the map as often as needed.

        One transaction per batch rather than per checkpoint: LMDB can reuse the pages that a transaction
        replaced only two transactions later, so one that rewrites everything would triple the file.

        Raises:
            CheckpointStorageError: when the local disk refuses; the batch is not written then.
        """
        while True:
            try:
                with (
                    self._one_writer,
                    self._begun(write=True) as transaction,
                    self.turns.writing(),
                ):
                    transaction.cursor().putmulti(zip(batch.keys, batch.values, strict=True))
                    for key in batch.deletes:
                        transaction.delete(key)
                self._looked_at(len(batch.keys) + len(batch.deletes))
                return
            except lmdb.MapFullError:
                self._grow()
            except (lmdb.Error, OSError) as error:
                raise self._error("writing", error) from error

    def sweep(self, entry_count: int, drop: Drop) -> int:
        """Look at the next entries, round and round, and remove those that `drop` names.

        Args:
            entry_count: how many to look at in this call, at most once round.

        Returns:
            How many were removed.

        Raises:
            CheckpointStorageError: when the local disk refuses.
        """
        while True:
            try:
                with self._one_writer:
                    self._file.check(self._where)
                    return self._sweep.step(self._env, self.turns, entry_count, drop)
            except lmdb.MapFullError:
                self._grow()
            except (lmdb.Error, OSError) as error:
                raise self._error("sweeping", error) from error

    def compact_if_grown(self) -> bool:
        """Replace the file by a compacted copy if much of it is free pages; whether that was done.

        Readers wait only while the two are exchanged.

        Raises:
            CheckpointStorageError: when the local disk refuses; the old file stays in use then.
        """
        with self._one_writer:
            return is_copy_due(self.size(), self._path) and self._compact()

    def _compact(self) -> bool:
        copy = self._generation + 1
        try:
            os.makedirs(self._directory(copy))
            self._env.copy(self._directory(copy), compact=True)
            env = self._open(copy)
            file = self._watched(copy)
        except (lmdb.Error, OSError) as error:
            shutil.rmtree(self._directory(copy), ignore_errors=True)
            raise self._error("compacting", error) from error
        with self._no_readers:
            old, self._env = self._env, env
            old_file, self._file = self._file, file
        old.close()
        old_file.close()
        shutil.rmtree(self._directory(self._generation), ignore_errors=True)
        self._generation = copy
        return True

    def size(self) -> FileSize:
        """How large the file is, and how much of it is in use."""
        with self._no_readers:
            self._file.check(self._where)
            return file_size(self._env)

    def close(self) -> None:
        """Close the environment and remove its files. May be called twice."""
        # A forked child has a copy of this object, and must not touch the parent's files.
        if self._is_open and os.getpid() == self._process_id:
            self._is_open = False
            with self._no_readers:
                self._env.close()
                self._file.close()
            shutil.rmtree(self._path, ignore_errors=True)

    def _begun(self, write: bool = False) -> Any:
        """A transaction, begun after a look whether its pages are still in the file."""
        self._file.check(self._where)
        return self._env.begin(write=write)

    def _watched(self, generation: int) -> WatchedFile:
        return WatchedFile(os.path.join(self._directory(generation), "data.mdb"))

    def _directory(self, generation: int) -> str:
        return os.path.join(self._path, str(generation))

    def _open(self, generation: int) -> lmdb.Environment:
        directory = self._directory(generation)
        os.makedirs(directory, exist_ok=True)
        _allocate(os.path.join(directory, "lock.mdb"), _LOCK_FILE_BYTES)
        # Lock on: with lock=False a commit may reuse pages that a reader on the other thread still looks
        # at. It costs 0.1 µs per read.
        return lmdb.open(
            directory,
            map_size=self._map_size_bytes,
            sync=False,
            metasync=False,
            writemap=False,
        )

    def _looked_at(self, entry_count: int) -> None:
        """Unmap what may have been mapped by looking at entries, when it is more than it may be."""
        self._looks += entry_count
        if self._looks <= self._most_looks or not self._one_writer.acquire(blocking=False):
            return
        try:
            self._looks = 0
            if self.size().file_bytes > self._mapped_bytes:
                with self._no_readers:
                    # Of the same size: LMDB unmaps the file and maps it anew. The pages stay in the page
                    # cache, so coming back to one is a minor fault.
                    self._env.set_mapsize(self._map_size_bytes)
        except (lmdb.Error, OSError) as error:
            raise self._error("mapping", error) from error
        finally:
            self._one_writer.release()

    def _grow(self) -> None:
        with self._no_readers:
            try:
                self._env.set_mapsize(2 * self._map_size_bytes)
            except (lmdb.Error, OSError) as error:
                raise self._error("growing", error) from error
            self._map_size_bytes *= 2

    def _error(self, doing: str, error: Exception) -> CheckpointStorageError:
        reason = str(error)
        if os.strerror(errno.EIO) in reason:
            # LMDB knows no other word for a write that a disk cut short because it got full.
            reason = f"{reason} ({os.strerror(errno.ENOSPC)}, or the disk is broken)"
        return CheckpointStorageError(
            f"{self._where}: {doing} its local state in {self._path} failed: {reason} "
            f"({self._sizes()}); free space there, choose another directory for local state, or a smaller "
            f"initial map size"
        )

    def _sizes(self) -> str:
        sizes = [f"map of {_mebibytes(self._map_size_bytes)}"]
        data = os.path.join(self._directory(self._generation), "data.mdb")
        if os.path.exists(data):
            sizes.append(f"file of {_mebibytes(os.stat(data).st_size)}")
        # Absolute: the parents of a relative path end with an empty one, which never exists.
        place = os.path.abspath(self._path)
        while not os.path.exists(place):
            place = os.path.dirname(place)
        sizes.append(f"{_mebibytes(shutil.disk_usage(place).free)} free on disk")
        return ", ".join(sizes)


def _allocate(path: str, size_bytes: int) -> None:
    """Have the disk set aside what LMDB maps into memory and writes to there.

    LMDB only sets the file's length, and a disk that is full when a page of it is first written to kills
    the process by SIGBUS; here it raises an OSError.
    """
    with open(path, "wb") as file:
        file.write(bytes(size_bytes))


def _mebibytes(size_bytes: int) -> str:
    return f"{size_bytes / (1 << 20):,.1f} MiB"
