"""Reads the manifest of a checkpoint from its directory, wherever that is."""

from __future__ import annotations

from dataclasses import replace

from ..common.errors import CheckpointStorageError
from ..protocol.handles import KeyedStateHandle, OperatorSnapshot
from ..protocol.manifest import CheckpointManifest, decode_manifest
from .storage import open_storage

MANIFEST_NAME = "MANIFEST"


def read_checkpoint(path: str) -> CheckpointManifest:
    """Read the checkpoint of another job from its directory; its files become absolute addresses.

    Args:
        path: the directory of the checkpoint, or its manifest: a local path, also a relative one, or any
            address that `open_storage` takes.

    Raises:
        CheckpointStorageError: There is no checkpoint at `path`.
        CorruptCheckpointError: Its manifest is damaged.
    """
    path = path.rstrip("/").removesuffix(f"/{MANIFEST_NAME}")
    storage = open_storage(path)
    try:
        data = storage.read(MANIFEST_NAME)
    except CheckpointStorageError as error:
        raise CheckpointStorageError(
            f"there is no checkpoint at {path}: {error}. Give the directory that holds the file "
            f"{MANIFEST_NAME}, such as …/<job id>/chk-12"
        ) from error
    manifest = decode_manifest(data, f"{path}/{MANIFEST_NAME}")
    root = storage.uri.rstrip("/").rpartition("/")[0]
    operators = {
        uid: replace(op, subtasks=tuple(_absolute(snapshot, root) for snapshot in op.subtasks))
        for uid, op in manifest.operators.items()
    }
    return replace(manifest, operators=operators)


def _absolute(snapshot: OperatorSnapshot, root: str) -> OperatorSnapshot:
    segments = tuple(
        replace(segment, file=replace(segment.file, path=_absolute_path(segment.file.path, root)))
        for segment in snapshot.keyed.segments
    )
    keyed = KeyedStateHandle(segments, snapshot.keyed.descriptors)
    return OperatorSnapshot(keyed, snapshot.lists)


def _absolute_path(path: str, root: str) -> str:
    return path if "://" in path or path.startswith("/") else f"{root}/{path}"
