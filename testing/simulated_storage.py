"""Checkpoint storage that fails at random and watches what is deleted."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable

from ..common.errors import CheckpointStorageError
from ..protocol.handles import FileHandle
from ..protocol.manifest import decode_manifest
from ..state.memory_storage import MemoryCheckpointStorage
from ..state.storage import CheckpointStorage
from .world import World


class SimulatedStorage(CheckpointStorage):
    """In-memory storage.

    Args:
        world: Decides which writes fail.
        failure_probability: Of a write of state; manifests and claims are written by the coordinator,
            whose own failures the simulation makes by killing it.
        prefix: Directory this instance is rooted at.
    """

    def __init__(
        self,
        world: World,
        failure_probability: float,
        store: CheckpointStorage | None = None,
        prefix: str = "",
    ) -> None:
        self._world = world
        self._failure_probability = failure_probability
        self._store = store if store is not None else MemoryCheckpointStorage()
        self._prefix = prefix

    @property
    def uri(self) -> str:
        return f"simulated://{self._prefix}"

    def write_file(self, path: str, data: bytes | memoryview) -> FileHandle:
        if self._world.chance(self._failure_probability):
            raise CheckpointStorageError(f"{path} could not be written (simulated)")
        return self._store.write_file(path, data)

    def create_exclusive(self, path: str, data: bytes) -> bool:
        return self._store.create_exclusive(path, data)

    def read(self, path: str) -> bytes:
        return self._store.read(path)

    def read_file(self, handle: FileHandle) -> bytes:
        return self._store.read_file(handle)

    def list_files(self, prefix: str) -> list[str]:
        return self._store.list_files(prefix)

    def delete(self, paths: Iterable[str]) -> None:
        doomed = list(paths)
        self._store.delete([path for path in doomed if path.endswith("MANIFEST")])
        needed = self.referenced()
        for path in doomed:
            assert path not in needed, f"{path} is deleted, but checkpoint {needed[path]} needs it"
        self._store.delete(doomed)

    def referenced(self) -> dict[str, int]:
        """Every file some existing manifest refers to, with that checkpoint's id."""
        needed: dict[str, int] = {}
        for path in self._store.list_files(""):
            if path.endswith("MANIFEST"):
                manifest = decode_manifest(self._store.read(path), path)
                stored = (handle for handle in manifest.files() if not handle.is_inline)
                needed.update((handle.path, manifest.checkpoint_id) for handle in stored)
        return needed

    def sub(self, prefix: str) -> CheckpointStorage:
        joined = posixpath.join(self._prefix, prefix)
        return SimulatedStorage(self._world, self._failure_probability, self._store.sub(prefix), joined)
