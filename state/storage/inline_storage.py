"""Checkpoint storage that leaves small files to the manifest."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from ...protocol.checkpoints.handles import FileHandle
from .checkpoint_storage import CheckpointStorage, checked_relative
from .upload_time import uploading


class InlineStorage(CheckpointStorage):
    """Writes files up to a size into their handles, which travel in acknowledgement and manifest.

    A tiny checkpoint then writes a single file, its manifest (Flink's `data-inline-threshold`).

    Args:
        storage: Where larger files go, and where everything is read.
        threshold_bytes: The largest file that is written inline: 0 for none, None for all of them.
    """

    def __init__(self, storage: CheckpointStorage, threshold_bytes: int | None) -> None:
        self._storage = storage
        self._threshold_bytes = threshold_bytes

    @property
    def uri(self) -> str:
        return self._storage.uri

    def write_file(self, path: str, data: bytes | memoryview) -> FileHandle:
        if self._threshold_bytes is not None and len(data) > self._threshold_bytes:
            with uploading():
                return self._storage.write_file(path, data)
        content = bytes(data)
        return FileHandle(checked_relative(path), len(content), hashlib.sha256(content).hexdigest(), content)

    def create_exclusive(self, path: str, data: bytes) -> bool:
        return self._storage.create_exclusive(path, data)

    def read(self, path: str) -> bytes:
        return self._storage.read(path)

    def read_file(self, handle: FileHandle) -> bytes:
        return self._storage.read_file(handle)

    def list_files(self, prefix: str) -> list[str]:
        return self._storage.list_files(prefix)

    def list_unfinished(self, prefix: str) -> list[str]:
        return self._storage.list_unfinished(prefix)

    def delete(self, paths: Iterable[str]) -> None:
        self._storage.delete(paths)

    def sub(self, prefix: str) -> CheckpointStorage:
        return InlineStorage(self._storage.sub(prefix), self._threshold_bytes)
