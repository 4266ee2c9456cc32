"""Finds the savepoints and checkpoints below a directory."""

from __future__ import annotations

from dataclasses import dataclass

from ...common.errors import CheckpointNotFoundError, CheckpointStorageError
from ...protocol.checkpoints.checkpoint_paths import check_address
from ...protocol.checkpoints.manifest import CheckpointManifest, decode_manifest
from ...state.storage.checkpoint_storage import CheckpointStorage, MissingFileError, open_storage
from ...state.storage.stored_checkpoint import MANIFEST_NAME


@dataclass(frozen=True)
class StoredCheckpoint:
    """One savepoint or checkpoint in storage."""

    path: str
    """Address of its directory."""
    manifest: CheckpointManifest | None
    """`None` for one that is damaged or cannot be read."""
    problem: str = ""


def stored_checkpoints(directory: str) -> list[StoredCheckpoint]:
    """What savepoints and checkpoints there are, the newest first, damaged ones at the end.

    Only manifests are read, no files of state.

    Args:
        directory: A local path, or any address that `open_storage` takes.

    Raises:
        CheckpointNotFoundError: There is no such directory, or nothing in it.
        CheckpointStorageError: It cannot be read.
    """
    storage = open_storage(directory)
    files = storage.list_files("")
    if not files:
        raise CheckpointNotFoundError(
            f"there is nothing in {directory}; give a directory with savepoints in it"
        )
    manifests = [path for path in files if path.rpartition("/")[2] == MANIFEST_NAME]
    found = [one for one in (_read(storage, path) for path in manifests) if one is not None]
    return sorted(found, key=lambda one: one.manifest.completed_ms if one.manifest else 0, reverse=True)


def _read(storage: CheckpointStorage, path: str) -> StoredCheckpoint | None:
    place = f"{storage.uri.rstrip('/')}/{path}".removesuffix(f"/{MANIFEST_NAME}")
    try:
        manifest = decode_manifest(storage.read(path), f"{place}/{MANIFEST_NAME}")
        check_address(manifest, place)
        return StoredCheckpoint(place, manifest)
    except MissingFileError:
        # Its job has deleted it since the files were listed.
        return None
    except CheckpointStorageError as error:
        # One that is damaged, too large or not readable must not hide the others.
        return StoredCheckpoint(place, None, str(error))
