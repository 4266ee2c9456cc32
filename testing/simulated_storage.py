"""Checkpoint storage that fails at random; it lets nobody delete what is still needed."""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Callable, Iterable

from ..common.errors import CheckpointStorageError
from ..protocol.handles import FileHandle
from ..state.storage import (
    CheckpointStorage,
    MissingFileError,
    checked_relative,
    is_absolute,
    read_verified,
    register_scheme,
)
from .storage_watcher import SAVEPOINTS, StorageWatcher
from .world import World

ROOT = "simulated://storage"


class SimulatedStorage(CheckpointStorage):
    """In-memory storage of one simulation. `open_storage` opens that of the newest one.

    Args:
        world: Decides which operations fail.
        failure_probability: Of an operation that may fail.
        point: Called before and after each change: whoever runs may die there.
        may_fail: Whether whoever runs has to live with errors now.
    """

    def __init__(
        self,
        world: World,
        failure_probability: float,
        point: Callable[[], None],
        may_fail: Callable[[], bool],
    ) -> None:
        self._world = world
        self._failure_probability = failure_probability
        self._point = point
        self._may_fail = may_fail
        self._prefix = ""
        self._files: dict[str, bytes] = {}
        self.watcher = StorageWatcher(self._files)
        register_scheme("simulated", lambda path: self.sub(path.partition("/")[2]))

    @property
    def uri(self) -> str:
        return posixpath.join(ROOT, self._prefix) if self._prefix else ROOT

    def _path(self, path: str) -> str:
        if is_absolute(path):
            return path.removeprefix(f"{ROOT}/")
        return f"{self._prefix}/{path}" if self._prefix else path

    def _fails(self) -> bool:
        return self._world.chance(self._failure_probability) and self._may_fail()

    def write_file(self, path: str, data: bytes | memoryview) -> FileHandle:
        self._point()
        content, stored_as = bytes(data), self._path(checked_relative(path))
        if self._fails():
            # A file is there as a whole, or not at all. Those of state may be worse: they have checksums.
            if self._world.chance(0.5) and ("/shared/" in stored_as or stored_as.startswith(SAVEPOINTS)):
                self._files[stored_as] = content[: len(content) // 2]
                self.watcher.written(stored_as)
            raise CheckpointStorageError(f"{path} could not be written (simulated)")
        self._files[stored_as] = content
        self.watcher.written(stored_as)
        self._point()
        return FileHandle(path, len(content), hashlib.sha256(content).hexdigest())

    def create_exclusive(self, path: str, data: bytes) -> bool:
        self._point()
        fails = self._fails()
        if fails and self._world.chance(0.5):
            raise CheckpointStorageError(f"{path} could not be created (simulated)")
        stored_as = self._path(path)
        is_created = stored_as not in self._files
        if is_created:
            self._files[stored_as] = data
            self.watcher.written(stored_as)
            self.watcher.created(stored_as)
        if fails:
            raise CheckpointStorageError(f"whether {path} was created is not known (simulated)")
        self._point()
        return is_created

    def read(self, path: str) -> bytes:
        data = self._files.get(self._path(path))
        if data is None:
            raise MissingFileError(f"there is no file {path!r} in {self.uri}")
        return data

    def read_file(self, handle: FileHandle) -> bytes:
        self.watcher.files_read += 1
        if self._fails():
            raise CheckpointStorageError(f"{handle.path} could not be read (simulated)")
        return read_verified(self, handle)

    def list_files(self, prefix: str) -> list[str]:
        below = self._path(prefix).rstrip("/")
        below = f"{below}/" if below else ""
        start = len(self._prefix) + 1 if self._prefix else 0
        return sorted(path[start:] for path in self._files if path.startswith(below))

    def delete(self, paths: Iterable[str]) -> None:
        self._point()
        for path in paths:
            if self._fails():
                raise CheckpointStorageError(f"{path} could not be deleted (simulated)")
            stored_as = self._path(checked_relative(path))
            self.watcher.may_be_deleted(stored_as)
            self._files.pop(stored_as, None)
        self._point()

    def sub(self, prefix: str) -> CheckpointStorage:
        storage = SimulatedStorage.__new__(SimulatedStorage)
        storage.__dict__.update(self.__dict__)
        storage._prefix = self._path(prefix).rstrip("/")
        return storage

    # ------------------------------------------------------------ what people do with it

    def move(self, directory: str, to: str) -> None:
        """Move a directory as its owner would: nothing fails, and nobody is asked."""
        for path in [path for path in self._files if path.startswith(f"{directory}/")]:
            self._files[f"{to}/{path.removeprefix(f'{directory}/')}"] = self._files.pop(path)
        self.watcher.moved(directory, to)

    def remove(self, directory: str) -> None:
        """Remove a directory as its owner would."""
        for path in [path for path in self._files if path.startswith(f"{directory}/")]:
            del self._files[path]
        self.watcher.removed(directory)
