"""Checkpoint storage in the memory of this process: for tests, simulation and trying things out."""

from __future__ import annotations

import hashlib
import itertools
import threading
import weakref
from collections.abc import Iterable

from ...protocol.checkpoints.handles import FileHandle
from .checkpoint_storage import CheckpointStorage, MissingFileError, checked_relative, read_verified

_NUMBERS = itertools.count()


class _Files:
    """The files of one named place, shared by all storages that point there."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.content: dict[str, bytes] = {}


_NAMED: dict[str, _Files] = {}
_ANONYMOUS: weakref.WeakValueDictionary[str, _Files] = weakref.WeakValueDictionary()
_REGISTRY_LOCK = threading.Lock()


def _files_of(name: str) -> _Files:
    with _REGISTRY_LOCK:
        anonymous = _ANONYMOUS.get(name)
        return anonymous if anonymous is not None else _NAMED.setdefault(name, _Files())


class MemoryCheckpointStorage(CheckpointStorage):
    """Files in a dict.

    Args:
        name: storages of one name share their files while the process lives; without a name the
            storage has files of its own, which go when the last storage over them goes.
    """

    def __init__(self, name: str | None = None) -> None:
        self._root, _, prefix = (name or "").partition("/")
        self._prefix = prefix.rstrip("/") + "/" if prefix else ""
        if self._root:
            self._files = _files_of(self._root)
        else:
            self._root = f"anonymous-{next(_NUMBERS)}"
            self._files = _ANONYMOUS[self._root] = _Files()

    def __reduce__(self) -> tuple[type[MemoryCheckpointStorage], tuple[str]]:
        return MemoryCheckpointStorage, (self.uri.removeprefix("memory://"),)

    @property
    def uri(self) -> str:
        return f"memory://{self._root}/{self._prefix}".rstrip("/")

    def write_file(self, path: str, data: bytes | memoryview) -> FileHandle:
        with self._files.lock:
            self._files.content[self._prefix + checked_relative(path)] = bytes(data)
        return FileHandle(path, len(data), hashlib.sha256(data).hexdigest())

    def create_exclusive(self, path: str, data: bytes) -> bool:
        with self._files.lock:
            full = self._prefix + checked_relative(path)
            if full in self._files.content:
                return False
            self._files.content[full] = bytes(data)
            return True

    def read(self, path: str) -> bytes:
        with self._files.lock:
            data = self._files.content.get(self._prefix + checked_relative(path))
        if data is None:
            raise MissingFileError(f"there is no file {path!r} in {self.uri}")
        return data

    def read_file(self, handle: FileHandle) -> bytes:
        return read_verified(self, handle)

    def list_files(self, prefix: str) -> list[str]:
        below = self._prefix + (prefix.rstrip("/") + "/" if prefix else "")
        with self._files.lock:
            found = [path for path in self._files.content if path.startswith(below)]
        return sorted(path.removeprefix(self._prefix) for path in found)

    def delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            with self._files.lock:
                self._files.content.pop(self._prefix + checked_relative(path), None)

    def sub(self, prefix: str) -> CheckpointStorage:
        return MemoryCheckpointStorage(f"{self.uri.removeprefix('memory://')}/{prefix}")
