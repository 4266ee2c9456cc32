"""The names in a job's directory of checkpoint storage. What is named otherwise there is not the job's."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ...common.errors import CorruptCheckpointError
from ..elements import SnapshotKind
from ..ids import CheckpointId, JobId
from .manifest import CheckpointManifest

MANIFEST_NAME = "MANIFEST"

_DIRECTORY = re.compile(r"chk-([1-9][0-9]{0,17})")
_NUMBER = re.compile(r"[1-9][0-9]{0,17}")
_JOB_ID = re.compile(r"[0-9a-f]{32}")
JOB_DIRECTORIES = frozenset(
    {
        "epochs",
        "ids",
        "accepted",
        "completed",
        "continued",
        "mode",
        "parallelism",
        "shared",
        "fail-points",
    }
)
"""The directories that a job makes in its own, besides those of its checkpoints."""


def manifest_path(checkpoint_id: CheckpointId) -> str:
    """The manifest of a checkpoint, from the job's directory."""
    return f"chk-{checkpoint_id}/{MANIFEST_NAME}"


def stored_ids(paths: Iterable[str]) -> list[CheckpointId]:
    """The checkpoints that have a manifest among the files of a job's directory, oldest first.

    A copy under another name, such as `chk-backup`, is not a checkpoint of the job.
    """
    found = (path.split("/") for path in paths)
    names = (_DIRECTORY.fullmatch(parts[0]) for parts in found if parts[1:] == [MANIFEST_NAME])
    return sorted(CheckpointId(int(name[1])) for name in names if name is not None)


def numbers(paths: Iterable[str]) -> list[int]:
    """The numbers that files are named by; files with other names are left out."""
    names = (path.rpartition("/")[2] for path in paths)
    return [int(name) for name in names if _NUMBER.fullmatch(name)]


def is_own(path: str) -> bool:
    """Whether a file in a job's directory is the job's, which it may delete."""
    top, separator, _ = path.partition("/")
    return bool(separator) and (top in JOB_DIRECTORIES or _DIRECTORY.fullmatch(top) is not None)


def check_place(manifest: CheckpointManifest, path: str, checkpoint_id: int, job_id: JobId) -> None:
    """Raise `CorruptCheckpointError` unless a manifest is that of this checkpoint of this job.

    Args:
        manifest: What `path` holds.
        path: Names it in errors.
    """
    if manifest.checkpoint_id != checkpoint_id or manifest.job_id != job_id:
        raise CorruptCheckpointError(
            f"{path} is another manifest in the wrong place: it is of checkpoint {manifest.checkpoint_id} of "
            f"job {manifest.job_id}, and that of checkpoint {checkpoint_id} of job {job_id} belongs there. "
            f"Put the right file back, or start a new job from another checkpoint with "
            f"execution.state-recovery.path"
        )


def check_address(manifest: CheckpointManifest, directory: str) -> None:
    """Raise `CorruptCheckpointError` if a checkpoint states another identity than its address.

    Savepoints may be moved, and a directory may be copied under a name that says nothing.

    Args:
        manifest: That of the checkpoint.
        directory: Address of its directory.
    """
    if manifest.kind is SnapshotKind.SAVEPOINT:
        return
    parent, _, name = directory.rstrip("/").rpartition("/")
    stated = _DIRECTORY.fullmatch(name)
    if stated is None:
        return
    job_id = parent.rpartition("/")[2]
    expected = JobId(job_id if _JOB_ID.fullmatch(job_id) else manifest.job_id)
    check_place(manifest, f"{directory}/{MANIFEST_NAME}", int(stated[1]), expected)
