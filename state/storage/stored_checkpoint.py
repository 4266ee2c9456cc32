"""Reads the manifest of a checkpoint from its directory, wherever that is."""

from __future__ import annotations

from dataclasses import replace

from ...common.errors import CheckpointNotFoundError, CheckpointStorageError
from ...protocol.checkpoints.checkpoint_paths import MANIFEST_NAME as MANIFEST_NAME
from ...protocol.checkpoints.checkpoint_paths import check_address
from ...protocol.checkpoints.manifest import CheckpointManifest, decode_manifest
from ...protocol.elements import SnapshotKind
from .checkpoint_storage import open_storage

_OF_FLINK = "_metadata"


def read_checkpoint(path: str) -> CheckpointManifest:
    """Read the checkpoint of another job from its directory; its handles say where its files are.

    They can be nowhere else than in the directory that `path` names, or the one above it: a manifest names no
    addresses.

    Args:
        path: the directory of the checkpoint, or its manifest: a local path, also a relative one, or any
            address that `open_storage` takes.

    Raises:
        CheckpointNotFoundError: There is no checkpoint at `path`.
        CorruptCheckpointError: Its manifest is damaged, or that of another checkpoint.
    """
    path = path.rstrip("/").removesuffix(f"/{MANIFEST_NAME}")
    storage = open_storage(path)
    try:
        data = storage.read(MANIFEST_NAME)
    except CheckpointStorageError as error:
        found = storage.list_files("")
        if MANIFEST_NAME in found:
            raise
        is_flink = any(name == _OF_FLINK for name in found)
        raise CheckpointNotFoundError(
            f"there is no checkpoint at {path}: {error}. Give the directory that holds the file "
            f"{MANIFEST_NAME}, such as …/<job id>/chk-12"
            + (
                f". It holds {_OF_FLINK}, as those of Apache Flink do: their format is another"
                if is_flink
                else ""
            )
        ) from error
    manifest = decode_manifest(data, f"{path}/{MANIFEST_NAME}")
    directory = storage.uri.rstrip("/")
    check_address(manifest, directory)
    # A savepoint's files are below its own directory, those of a checkpoint beside it.
    is_savepoint = manifest.kind is SnapshotKind.SAVEPOINT
    root = directory if is_savepoint else directory.rpartition("/")[0] or "/"
    operators = {
        uid: replace(
            op,
            subtasks=tuple(
                snapshot.with_files(lambda file: file if file.is_inline else file.within(root))
                for snapshot in op.subtasks
            ),
        )
        for uid, op in manifest.operators.items()
    }
    return replace(manifest, operators=operators)


def check_files(manifest: CheckpointManifest) -> None:
    """Look at every file of a checkpoint that `read_checkpoint` read: whether it is there, and its length.

    Their checksums are compared when they are read: that would read all state.

    Raises:
        CorruptCheckpointError: One is missing, or has another length.
    """
    files = {file.path: file for file in manifest.files() if not file.is_inline}
    storages = {root: open_storage(root) for root in {file.root for file in files.values()}}
    for file in files.values():
        storages[file.root].open_file(file.relative()).close()
