"""Checkpoint storage that fails at random, and watches what is written, given twice and deleted."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Callable, Iterable

from ..common.errors import CheckpointStorageError
from ..protocol.handles import FileHandle
from ..protocol.manifest import decode_manifest
from ..state.memory_storage import MemoryCheckpointStorage
from ..state.storage import CheckpointStorage, is_absolute
from .world import World

_MANIFEST = re.compile(r"(.*)/chk-(\d+)/MANIFEST")


class Watcher:
    """Knows every manifest that exists, and what it needs.

    Args:
        store: Everything that is stored, from its root.
    """

    def __init__(self, store: CheckpointStorage) -> None:
        self._store = store
        self._needed: dict[str, set[str]] = {}
        self.completed: set[tuple[str, int]] = set()
        """Job and id of every checkpoint that ever had a manifest."""

    def created(self, path: str, data: bytes) -> None:
        """A file was created: if it is a manifest, all it names must be there."""
        match = _MANIFEST.fullmatch(path)
        if match is None:
            return
        job, checkpoint_id = match[1], int(match[2])
        manifest = decode_manifest(data, path)
        assert manifest.checkpoint_id == checkpoint_id, f"{path} is of {manifest.checkpoint_id}"
        files = [handle for handle in manifest.files() if not handle.is_inline]
        for handle in files:
            self._store.sub(job).read_file(handle)
        root = f"{self._store.uri}/"
        self._needed[path] = {
            handle.path.removeprefix(root) if is_absolute(handle.path) else f"{job}/{handle.path}"
            for handle in files
        }
        self.completed.add((job, checkpoint_id))

    def may_be_deleted(self, path: str) -> None:
        """Raise `AssertionError` if a checkpoint that counts needs the file."""
        if _MANIFEST.fullmatch(path):
            self._needed.pop(path, None)
            return
        for manifest, files in self._needed.items():
            if path in files and not self._is_fenced_off(manifest):
                raise AssertionError(f"{path} is deleted, but {manifest} needs it")

    def _is_fenced_off(self, manifest: str) -> bool:
        """Whether a coordinator that was replaced wrote it too late to count, see ADR 009."""
        match = _MANIFEST.fullmatch(manifest)
        assert match is not None
        job = self._store.sub(match[1])
        for path in job.list_files("accepted"):
            record = json.loads(job.read(path))
            if int(match[2]) < record["first_id"] and int(match[2]) not in record["checkpoints"]:
                return True
        return False

    def orphans(self, job: str) -> list[str]:
        """Files of state of a job whose checkpoints are kept, that none of them needs."""
        needed = {path for manifest, files in self._needed.items() for path in files}
        return [path for path in self._store.list_files(job) if "/shared/" in path and path not in needed]


class SimulatedStorage(CheckpointStorage):
    """In-memory storage.

    Args:
        world: Decides which operations fail.
        failure_probability: Of an operation that may fail.
        point: Called before and after each change: whoever runs may die there.
        may_fail: Whether whoever runs has to live with errors now.
        prefix: Directory this instance is rooted at.
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
        self._store: CheckpointStorage = MemoryCheckpointStorage()
        self.watcher = Watcher(self._store)

    @property
    def uri(self) -> str:
        return self._store.uri

    def _fails(self) -> bool:
        return self._world.chance(self._failure_probability) and self._may_fail()

    def write_file(self, path: str, data: bytes | memoryview) -> FileHandle:
        self._point()
        if self._fails():
            if self._world.chance(0.5):
                self._store.write_file(path, data[: len(data) // 2])
            raise CheckpointStorageError(f"{path} could not be written (simulated)")
        handle = self._store.write_file(path, data)
        self._point()
        return handle

    def create_exclusive(self, path: str, data: bytes) -> bool:
        self._point()
        fails = self._fails()
        if fails and self._world.chance(0.5):
            raise CheckpointStorageError(f"{path} could not be created (simulated)")
        is_created = self._store.create_exclusive(path, data)
        if is_created:
            self.watcher.created(posixpath.join(self._prefix, path), data)
        if fails:
            raise CheckpointStorageError(f"whether {path} was created is not known (simulated)")
        self._point()
        return is_created

    def read(self, path: str) -> bytes:
        return self._store.read(path)

    def read_file(self, handle: FileHandle) -> bytes:
        if self._fails():
            raise CheckpointStorageError(f"{handle.path} could not be read (simulated)")
        return self._store.read_file(handle)

    def list_files(self, prefix: str) -> list[str]:
        return self._store.list_files(prefix)

    def delete(self, paths: Iterable[str]) -> None:
        self._point()
        for path in paths:
            if self._fails():
                raise CheckpointStorageError(f"{path} could not be deleted (simulated)")
            self.watcher.may_be_deleted(posixpath.join(self._prefix, path))
            self._store.delete([path])
        self._point()

    def sub(self, prefix: str) -> CheckpointStorage:
        storage = SimulatedStorage.__new__(SimulatedStorage)
        storage.__dict__.update(self.__dict__)
        storage._store = self._store.sub(prefix)
        storage._prefix = posixpath.join(self._prefix, prefix)
        return storage
