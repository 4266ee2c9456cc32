"""Savepoint directories: where one may be made, its manifest, and its removal.

A savepoint is a directory `savepoint-<job>-<checkpoint id>` of its own, in a directory that the user names.
It belongs to the user: no job deletes it, unless the user let a job claim it.
"""

from __future__ import annotations

import re

from ...common.errors import CheckpointNotFoundError, CheckpointStorageError
from ...protocol.checkpoints.control_file import decode_control_file, encode_control_file
from ...protocol.checkpoints.json_fields import Fields
from ...protocol.checkpoints.manifest import CheckpointManifest, decode_manifest, encode_manifest
from ...protocol.elements import SnapshotKind
from ...protocol.ids import CheckpointId, JobId
from ...state.storage.checkpoint_storage import CheckpointStorage, open_storage
from ...state.storage.stored_checkpoint import MANIFEST_NAME

CLAIM_NAME = "CLAIMED"
"""The file that names the job which a savepoint or checkpoint belongs to now."""

_PREFIX = "savepoint-"
_PROBE = f"{_PREFIX}probe"
_OLD_CLAIM = re.compile(rb"[0-9a-f]{32}")
_REMEDY = (
    "It names the job that owns this checkpoint and deletes it when it no longer needs it. If no job does, "
    "delete the file"
)


def encode_claim(job_id: JobId) -> bytes:
    """The content of a claim. It names no place: savepoints may be moved, with their claims."""
    return encode_control_file("claim", {}, {"job_id": job_id})


def read_claim(storage: CheckpointStorage) -> JobId:
    """The job that has claimed a savepoint or checkpoint.

    Args:
        storage: Its directory.

    Raises:
        CorruptCheckpointError: The claim is damaged.
    """
    path = f"{storage.uri.rstrip('/')}/{CLAIM_NAME}"
    return decode_claim(storage.read(CLAIM_NAME), path)


def decode_claim(data: bytes, path: str) -> JobId:
    """The job in the content of a claim that was read from `path`.

    Raises:
        CorruptCheckpointError: The claim is damaged.
    """
    file = decode_control_file(data, path, "claim", {}, _REMEDY, _old_claim)
    return JobId(Fields(file.document, path, "").text("job_id"))


def _old_claim(data: bytes) -> dict[str, str]:
    if not _OLD_CLAIM.fullmatch(data):
        raise ValueError("it is not the id of a job")
    return {"job_id": data.decode()}


def savepoint_path(directory: str, job_id: JobId, checkpoint_id: CheckpointId) -> str:
    """The directory of one savepoint; no two have the same, since ids are never given twice."""
    return f"{directory.rstrip('/')}/{_PREFIX}{job_id[:6]}-{checkpoint_id}"


def check_savepoint_directory(directory: str) -> None:
    """Raise a clear error unless savepoints can be made in `directory`.

    It may be absent, empty, or hold other savepoints.

    Raises:
        CheckpointStorageError: It holds other things, or cannot be written.
    """
    if not directory:
        raise CheckpointStorageError(
            "none was given, and the job has no default; give one, or set "
            "execution.checkpointing.savepoint-dir"
        )
    storage = open_storage(directory)
    found = storage.list_files("")
    strangers = [path for path in found if not path.startswith(_PREFIX)]
    if strangers:
        raise CheckpointStorageError(
            f"the directory {directory} is not empty and holds more than savepoints, such as "
            f"{strangers[0]!r}; choose a new or empty directory, or one with savepoints only"
        )
    storage.write_file(_PROBE, b"")
    storage.delete([_PROBE])


def write_savepoint(path: str, manifest: CheckpointManifest) -> None:
    """Make a savepoint exist whose files are all there.

    Raises:
        CheckpointStorageError: The manifest could not be written, or there is one already.
    """
    if not open_storage(path).create_exclusive(MANIFEST_NAME, encode_manifest(manifest)):
        raise CheckpointStorageError(f"there is a savepoint at {path} already")


def discard_savepoint(path: str) -> None:
    """Remove everything of a savepoint, the manifest first: one with missing files must not seem to exist.

    Raises:
        CheckpointStorageError: Storage refuses.
    """
    _remove(open_storage(path))


def dispose_savepoint(path: str, force: bool = False) -> CheckpointManifest:
    """Remove a savepoint that its owner needs no more.

    Args:
        path: Its directory.
        force: Whether to remove it although a job has claimed it.

    Returns:
        What was removed.

    Raises:
        CheckpointNotFoundError: There is none.
        CheckpointStorageError: It is a checkpoint, or a job has claimed it.
        CorruptCheckpointError: It is damaged, so that nobody can tell what it is.
    """
    path = path.rstrip("/").removesuffix(f"/{MANIFEST_NAME}")
    storage = open_storage(path)
    found = storage.list_files("")
    if MANIFEST_NAME not in found:
        raise CheckpointNotFoundError(f"there is no savepoint at {path}: it has no file {MANIFEST_NAME}")
    manifest = decode_manifest(storage.read(MANIFEST_NAME), f"{path}/{MANIFEST_NAME}")
    if manifest.kind is not SnapshotKind.SAVEPOINT:
        raise CheckpointStorageError(
            f"{path} is checkpoint {manifest.checkpoint_id} of job {manifest.job_id} and no savepoint: its "
            f"files may be shared with other checkpoints, and the job removes it when it needs it no more"
        )
    if CLAIM_NAME in found and not force:
        owner = read_claim(storage)
        raise CheckpointStorageError(
            f"the savepoint {path} is claimed by job {owner}, which removes it when it needs it no more. "
            f"If that job is gone, use --force"
        )
    _remove(storage)
    return manifest


def _remove(storage: CheckpointStorage) -> None:
    storage.delete([MANIFEST_NAME])
    storage.delete_all()
