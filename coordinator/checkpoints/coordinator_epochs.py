"""The claims of one job in checkpoint storage: `epochs/<n>` (ADR 009), and which jobs ended it (ADR 063)."""

from __future__ import annotations

import re
import uuid
from contextlib import suppress
from typing import Any

from ...common.errors import CheckpointStorageError
from ...protocol.checkpoints.checkpoint_paths import numbers
from ...protocol.checkpoints.control_file import decode_control_file, encode_control_file
from ...protocol.checkpoints.json_fields import Fields
from ...protocol.checkpoints.restorers import (
    Restorers,
    RestoringJob,
    decode_restorers,
    encode_restorers,
    ended_by,
    with_restorer,
)
from ...protocol.ids import JobId
from ...state.storage.checkpoint_storage import CheckpointStorage, MissingFileError
from .takeover_records import TakeoverRecords

_OLD_TOKEN = re.compile(rb"[0-9a-f]{32}|")
_REMEDY = (
    "It records which jobs were started from a checkpoint of this one. Restore the file from a copy. Without "
    "one, start a new job from a checkpoint in this directory with execution.state-recovery.path"
)


class RestoredElsewhereError(CheckpointStorageError):
    """Another job has started from a checkpoint of this job, which has thereby ended."""


class Epochs:
    """Claims a job, and reads what was claimed.

    Args:
        storage: The job's own directory.
        job_id: The job.
    """

    def __init__(self, storage: CheckpointStorage, job_id: str) -> None:
        self._storage = storage
        self._job_id = JobId(job_id)

    @property
    def newest(self) -> int:
        """The newest epoch that was claimed; 0 if there is none."""
        return max(numbers(self._storage.list_files("epochs")), default=0)

    @property
    def continued(self) -> frozenset[str]:
        """Ids of the jobs that started from a checkpoint of this one, and completed one or removed it."""
        return frozenset(path.rpartition("/")[2] for path in self._storage.list_files("continued"))

    def mark_continued(self, job_id: str) -> None:
        """Record that a job which started from a checkpoint of this one completes one, or removes it."""
        identity = {"job_id": self._job_id, "name": job_id}
        data = encode_control_file("continued", identity, {})
        self._storage.create_exclusive(f"continued/{job_id}", data)

    def claim(self, restoring: RestoringJob | None, ignores_damage: bool = False) -> tuple[int, Restorers]:
        """Claim the next epoch.

        Args:
            restoring: The job that claims, if it is another one that starts from a checkpoint of this one.
            ignores_damage: Whether to claim even if the record of the jobs that did so before cannot be read.

        Returns:
            The epoch, higher than any before, and the jobs that had started from a checkpoint of this one.
        """
        records = TakeoverRecords(self._storage, self._job_id)
        epoch = max([self.newest, *records.epochs()]) + 1
        # Unique: a retry whose first answer was lost must not take another coordinator's claim for its own.
        token = uuid.uuid4().hex
        while True:
            # Each epoch repeats what the one before says, so that one read is enough.
            before = () if ignores_damage else self.restorers(epoch - 1)
            after = before if restoring is None else with_restorer(before, restoring, self.continued)
            document = {"token": token, "restored_by": encode_restorers(after)}
            data = encode_control_file("epochs", self._identity(epoch), document)
            if self._storage.create_exclusive(f"epochs/{epoch}", data):
                return epoch, before
            epoch += 1

    def restorers(self, epoch: int) -> Restorers:
        """The jobs that had started from a checkpoint of this one once an epoch was claimed.

        Raises:
            CorruptCheckpointError: The record of the epoch is damaged.
        """
        if not epoch:
            return ()
        path = f"{self._storage.uri.rstrip('/')}/epochs/{epoch}"
        try:
            data = self._storage.read(f"epochs/{epoch}")
        except MissingFileError:
            return ()
        file = decode_control_file(data, path, "epochs", self._identity(epoch), _REMEDY, _old_epoch)
        return decode_restorers(Fields(file.document, path, ""), "restored_by")

    def claimant(self, epoch: int) -> str:
        """What claimed an epoch, for the coordinator that is fenced by that."""
        restorers: Restorers = ()
        with suppress(CheckpointStorageError):
            restorers = self.restorers(epoch)
        return ended_by(restorers) if restorers else "a newer one claimed the job"

    def _identity(self, epoch: int) -> dict[str, str | int]:
        return {"job_id": self._job_id, "number": epoch}


def check_not_restored(restorers: Restorers) -> None:
    """Raise `RestoredElsewhereError` if other jobs have started from a checkpoint of a job."""
    if restorers:
        raise RestoredElsewhereError(ended_by(restorers))


def _old_epoch(data: bytes) -> Any:
    """Earlier releases wrote nothing, or a token: then no job was recorded."""
    if not _OLD_TOKEN.fullmatch(data):
        raise ValueError("it is not empty")
    return {}
