"""Whom the checkpoint belongs to that a job was started from (Flink's restore modes, FLIP-193).

Whatever the mode, the job's first checkpoint holds copies of everything restored, so no checkpoint of the
job ever depends on files outside its directory. With `CLAIM` the job also removes what it started from, once
as many checkpoints of its own are complete as it keeps.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from ...common.errors import CheckpointStorageError, CorruptCheckpointError
from ...protocol.checkpoints.manifest import CheckpointManifest, decode_manifest
from ...protocol.elements import SnapshotKind
from ...protocol.ids import JobId
from ...state.storage.checkpoint_storage import is_absolute, open_storage
from ...state.storage.stored_checkpoint import MANIFEST_NAME
from ..checkpoints.coordinator_epochs import Epochs
from ..checkpoints.savepoints import CLAIM_NAME, encode_claim, read_claim

logger = logging.getLogger("tidegate")

_REMOVED_NAME = "REMOVED"
"""The manifest of a checkpoint that is being deleted."""


class ClaimedCheckpoint:
    """A savepoint or retained checkpoint that one job owns.

    Args:
        path: Its directory.
        job_id: The job that claims it.
        has_fenced: Whether this job has fenced the one with an id, so that it takes over its claim.
    """

    def __init__(
        self, path: str, job_id: JobId, has_fenced: Callable[[JobId], bool] = lambda owner: False
    ) -> None:
        self.path = checkpoint_directory(path)
        self._job_id = job_id
        self._has_fenced = has_fenced

    def check(self) -> None:
        """Raise `CheckpointStorageError` if another job has claimed it that may still run."""
        storage = open_storage(self.path)
        if CLAIM_NAME in storage.list_files(""):
            owner = read_claim(storage)
            if owner != self._job_id and not self._has_fenced(owner):
                raise CheckpointStorageError(
                    f"{self.path} is claimed by job {owner}, which removes it when it needs it no more; "
                    f"restore something else, or with execution.state-recovery.claim-mode: NO_CLAIM"
                )

    def take(self) -> None:
        """Claim it, unless it is claimed already.

        Raises:
            CheckpointStorageError: Another job has claimed it that may still run, or storage refuses.
        """
        storage, claim = open_storage(self.path), encode_claim(self._job_id)
        if storage.create_exclusive(CLAIM_NAME, claim):
            return
        self.check()
        if read_claim(storage) != self._job_id:
            # Of a fenced job, which removes nothing. If two jobs replace it at the same time, one of them is
            # fenced too. If that one is last, the checkpoint stays.
            storage.write_file(CLAIM_NAME, claim)

    def remove(self) -> None:
        """Delete it; files that other checkpoints beside it refer to stay. Nothing to do if it is gone.

        Raises:
            CheckpointStorageError: Storage refuses; may be tried again, also by another coordinator.
        """
        storage = open_storage(self.path)
        found = storage.list_files("")
        if CLAIM_NAME not in found or read_claim(storage) != self._job_id:
            return
        if MANIFEST_NAME in found:
            # With missing files it must not seem to exist, but the next try must find out what they were.
            data = storage.read(MANIFEST_NAME)
            self._mark_continued(decode_manifest(data, f"{self.path}/{MANIFEST_NAME}"))
            storage.create_exclusive(_REMOVED_NAME, data)
            storage.delete([MANIFEST_NAME])
            found.append(_REMOVED_NAME)
        if _REMOVED_NAME in found:
            manifest = decode_manifest(storage.read(_REMOVED_NAME), f"{self.path}/{_REMOVED_NAME}")
            if manifest.kind is not SnapshotKind.SAVEPOINT:
                self._remove_shared(manifest)
            storage.delete([_REMOVED_NAME])
        storage.delete_all()

    def _mark_continued(self, manifest: CheckpointManifest) -> None:
        """Record who removed a checkpoint, so that it does not count as lost; a savepoint is of no job."""
        epochs = Epochs(open_storage(storage_root(self.path)), manifest.job_id)
        if manifest.kind is not SnapshotKind.SAVEPOINT and epochs.newest:
            epochs.mark_continued(self._job_id)

    def _remove_shared(self, manifest: CheckpointManifest) -> None:
        """The files of a checkpoint lie beside it, and others may share them."""
        root = open_storage(storage_root(self.path))
        kept: set[str] = set()
        for path in root.list_files(""):
            if path.rsplit("/", 1)[-1] == MANIFEST_NAME:
                try:
                    kept |= _files(decode_manifest(root.read(path), f"{root.uri}/{path}"))
                except CorruptCheckpointError as error:
                    # Nobody knows what it needs, and somebody may repair it.
                    logger.warning("The files of %s stay, beside a damaged checkpoint: %s", self.path, error)
                    return
        root.delete(sorted(_files(manifest) - kept))


def checkpoint_directory(path: str) -> str:
    """The directory of a checkpoint that is given by its directory or its manifest."""
    return path.rstrip("/").removesuffix(f"/{MANIFEST_NAME}")


def storage_root(path: str) -> str:
    """The directory of the job that a checkpoint directory is in."""
    return open_storage(path).uri.rstrip("/").rpartition("/")[0]


def _files(manifest: CheckpointManifest) -> set[str]:
    return {file.path for file in manifest.files() if not file.is_inline and not is_absolute(file.path)}
