"""Copies of a subtask's snapshot files on local disk, for a restart on the same machine.

A copy is named by the SHA-256 of its content and checked against it whenever it is read, so one that is
damaged, torn by a crash, or left over from anywhere is never taken for what it is not. Checkpoint storage
stays the truth: what is not here, or cannot be stored here, costs time and nothing else.
"""

from __future__ import annotations

import hashlib
import itertools
import logging
import os
import threading
from collections.abc import Iterable
from typing import BinaryIO

from ...protocol.checkpoints.handles import FileHandle
from ...protocol.ids import CheckpointId
from .checkpoint_storage import CheckpointStorage

logger = logging.getLogger(__name__)

_NUMBERS = itertools.count()
_TEMPORARY = ".tmp-"
_PIECE_BYTES = 1 << 20
_MOST_AGE = 2
"""A merge in the background is taken over by the next snapshot or the one after it, or never."""


class LocalSnapshots:
    """The local copies of one subtask, bounded to what its last confirmed checkpoint needs.

    Files may be added on the snapshot thread while the task's thread confirms checkpoints.

    Args:
        directory: Of this subtask alone; made when it is needed.
    """

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._needed: dict[CheckpointId, frozenset[str]] = {}
        # Stored, and referred to by no snapshot yet; with the number of snapshots since then.
        self._new: dict[str, int] = {}
        self._lock = threading.Lock()

    def beside(self, storage: CheckpointStorage) -> CheckpointStorage:
        """`storage`, with copies of what is written to it and reads from copies where they are intact."""
        return _CopyingStorage(storage, self)

    def start(self, restored: Iterable[FileHandle]) -> None:
        """Keep what an attempt is restored from, and delete everything that earlier ones left here."""
        needed = _contents(restored)
        with self._lock:
            self._needed = {CheckpointId(0): needed}
            self._new.clear()
            if os.path.isdir(self._directory):
                self._delete(set(os.listdir(self._directory)) - needed)

    def acknowledged(self, checkpoint_id: CheckpointId, files: Iterable[FileHandle]) -> None:
        """A snapshot of these files was stored for a checkpoint, which may complete or not."""
        needed = _contents(files)
        with self._lock:
            self._needed[checkpoint_id] = needed
            ages = {name: age + 1 for name, age in self._new.items() if name not in needed}
            self._new = {name: age for name, age in ages.items() if age <= _MOST_AGE}
            self._delete(ages.keys() - self._new.keys())

    def confirmed(self, checkpoint_id: CheckpointId) -> None:
        """A checkpoint is complete: delete what only older ones need."""
        with self._lock:
            if checkpoint_id not in self._needed:
                return
            older = [self._needed.pop(each) for each in list(self._needed) if each < checkpoint_id]
            self._delete(frozenset().union(*older).difference(self._new, *self._needed.values()))

    def stored(self, sha256: str, data: bytes | memoryview) -> None:
        """Keep a copy of a file that the next snapshots may refer to."""
        if self.add(sha256, data):
            with self._lock:
                self._new[sha256] = 0

    def add(self, sha256: str, data: bytes | memoryview) -> bool:
        """Keep a copy of a file; a local disk that refuses is only worth a warning, and False."""
        path = self._path(sha256)
        temporary = f"{path}{_TEMPORARY}{os.getpid()}-{next(_NUMBERS)}"
        try:
            os.makedirs(self._directory, exist_ok=True)
            with open(temporary, "wb") as stream:
                stream.write(data)
            os.replace(temporary, path)
        except OSError as error:
            logger.warning("No local copy of a snapshot's file in %s: %s", self._directory, error)
            _remove(temporary)
            return False
        return True

    def read(self, handle: FileHandle) -> bytes | None:
        """The content of a file; None if there is no copy, or none that is intact."""
        copy = self.open(handle)
        if copy is None:
            return None
        with copy:
            return copy.read()

    def open(self, handle: FileHandle) -> BinaryIO | None:
        """The copy of a file, checked and open for reading; None if there is none that is intact."""
        try:
            copy = open(self._path(handle.sha256), "rb")  # noqa: SIM115 (the caller closes it)
        except OSError:
            return None
        if _sha256(copy) == handle.sha256:
            copy.seek(0)
            return copy
        copy.close()
        logger.warning(
            "The local copy of %r in %s is damaged; the file is read from checkpoint storage",
            handle.path,
            self._directory,
        )
        _remove(self._path(handle.sha256))
        return None

    def _path(self, sha256: str) -> str:
        return os.path.join(self._directory, sha256)

    def _delete(self, names: Iterable[str]) -> None:
        for name in names:
            _remove(os.path.join(self._directory, name))


class _CopyingStorage(CheckpointStorage):
    """Checkpoint storage beside which local copies are kept."""

    def __init__(self, storage: CheckpointStorage, copies: LocalSnapshots) -> None:
        self._storage = storage
        self._copies = copies

    @property
    def uri(self) -> str:
        return self._storage.uri

    def write_file(self, path: str, data: bytes | memoryview) -> FileHandle:
        handle = self._storage.write_file(path, data)
        if not handle.is_inline:
            self._copies.stored(handle.sha256, data)
        return handle

    def create_exclusive(self, path: str, data: bytes) -> bool:
        return self._storage.create_exclusive(path, data)

    def read(self, path: str) -> bytes:
        return self._storage.read(path)

    def read_file(self, handle: FileHandle) -> bytes:
        if handle.is_inline:
            return self._storage.read_file(handle)
        data = self._copies.read(handle)
        if data is None:
            data = self._storage.read_file(handle)
            # Of use to the next restart: the task may have come from another machine.
            self._copies.add(handle.sha256, data)
        return data

    def open_file(self, handle: FileHandle) -> BinaryIO:
        copy = None if handle.is_inline else self._copies.open(handle)
        return self._storage.open_file(handle) if copy is None else copy

    def list_files(self, prefix: str) -> list[str]:
        return self._storage.list_files(prefix)

    def delete(self, paths: Iterable[str]) -> None:
        self._storage.delete(paths)

    def sub(self, prefix: str) -> CheckpointStorage:
        return _CopyingStorage(self._storage.sub(prefix), self._copies)


def _contents(files: Iterable[FileHandle]) -> frozenset[str]:
    return frozenset(file.sha256 for file in files if not file.is_inline)


def _sha256(stream: BinaryIO) -> str:
    digest = hashlib.sha256()
    while piece := stream.read(_PIECE_BYTES):
        digest.update(piece)
    return digest.hexdigest()


def _remove(path: str) -> None:
    """Delete a copy; one that stays behind is found at the next start."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
    except OSError as error:
        logger.warning("A local copy of a snapshot's file could not be removed: %s", error)
