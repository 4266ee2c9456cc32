"""Ends the job that wrote a checkpoint before another job starts from it (ADR 063).

The job may still run: its driver was killed, and its processes live on for seconds. It could complete more
checkpoints, delete the one to restore, and commit what the new job processes again. Claiming the next epoch
in its directory, as a new coordinator does (ADR 009), prevents all three. A savepoint belongs to its user, so
a job that starts from one ends none.
"""

from __future__ import annotations

from ...common.errors import CheckpointNotFoundError, CheckpointStorageError, CorruptCheckpointError
from ...protocol.checkpoints.manifest import CheckpointManifest
from ...protocol.checkpoints.restorers import Restorers, RestoringJob, StoredJob
from ...protocol.elements import SnapshotKind
from ...protocol.ids import CheckpointId, JobId
from ...state.storage.checkpoint_storage import open_storage
from ...state.storage.stored_checkpoint import read_checkpoint
from ..checkpoints.checkpoint_store import CheckpointStore, FencedError
from ..checkpoints.coordinator_epochs import Epochs
from ..checkpoints.takeover_records import TakeoverRecords
from ..spec import JobSpec
from .claim_mode import checkpoint_directory, storage_root


def restoring_job(spec: JobSpec) -> RestoringJob:
    """The record of a job that starts from a checkpoint of another one."""
    settings = spec.settings
    if settings.checkpoint_root is None or not settings.takes_checkpoints:
        return RestoringJob(spec.job_id, "")
    return RestoringJob(spec.job_id, open_storage(settings.checkpoint_root).sub(spec.job_id).uri.rstrip("/"))


def fence_job(directory: str, restoring: RestoringJob, job_id: str = "") -> StoredJob:
    """End the job whose checkpoints are in `directory`: it neither completes a checkpoint nor commits again.

    Args:
        directory: Address of the job's directory.
        restoring: The job that starts from one of its checkpoints. If it ended that job before, nothing
            changes.
        job_id: Id of the job, for one that starts from a checkpoint which a person named: damage in the
            records of others does not matter then. Without it the directory is named by the id.

    Returns:
        Its completed checkpoints, and the other jobs that had started from one of them. If there are any,
        damage is only reported: the latest checkpoint may be one of theirs, and one of them may have claimed
        and removed what is missing.

    Raises:
        CorruptCheckpointError: It is not known which of its checkpoints is the latest.
        CheckpointStorageError: Storage cannot be written.
    """
    storage, known_id = open_storage(directory), JobId(job_id or directory.rpartition("/")[2])
    epochs, store = Epochs(storage, known_id), CheckpointStore(storage, known_id, num_retained=1)
    newest = epochs.newest
    if not newest:
        # No coordinator can run without its epoch: the job has ended, or this is a copy.
        return StoredJob(frozenset(store.stored_ids()))
    try:
        restorers = epochs.restorers(newest)
        found = TakeoverRecords(storage, known_id).find(newest) if restorers[-1:] == (restoring,) else None
        if found is not None:
            there = found.checkpoints.intersection(store.stored_ids())
            return StoredJob(frozenset(map(CheckpointId, there)), _others(restorers, restoring))
        store.claim(restoring)
        return StoredJob(frozenset(store.accept()), _others(store.restorers, restoring))
    except CorruptCheckpointError as error:
        if not job_id:
            others = _others(store.restorers, restoring)
            if not others:
                raise
            return StoredJob(frozenset(), others, damage=str(error))
        store.claim(restoring, ignores_damage=True)
        return StoredJob(frozenset(store.stored_ids()))
    except FencedError:
        raise
    except CheckpointStorageError as error:
        raise CheckpointStorageError(
            f"the job in {directory} cannot be fenced, so it might still run and commit what this job "
            f"processes again: {error}. Make the directory writable. If that job has certainly ended, copy "
            f"the directory without epochs/, and restore from the copy"
        ) from error


def _others(restorers: Restorers, restoring: RestoringJob) -> Restorers:
    return tuple(each for each in restorers if each != restoring)


def fence_checkpoint(path: str, restoring: RestoringJob) -> None:
    """End the job that wrote the checkpoint at `path`, if it is one of a job and no savepoint.

    Raises:
        CheckpointNotFoundError: There is no checkpoint at `path`, or none any more.
        CheckpointStorageError: Storage refuses.
    """
    manifest = read_checkpoint(path)
    directory = storage_root(checkpoint_directory(path))
    if manifest.kind is SnapshotKind.SAVEPOINT or directory == restoring.directory:
        return
    job = fence_job(directory, restoring, manifest.job_id)
    if manifest.checkpoint_id not in job.checkpoints:
        latest = f"; its latest one is chk-{max(job.checkpoints)}" if job.checkpoints else ""
        raise CheckpointNotFoundError(
            f"checkpoint {path} does not exist any more: the job that wrote it was still running{latest}. "
            f"Start from latest:{directory}"
        )


def has_fenced(path: str, restoring: RestoringJob, owner: JobId) -> bool:
    """Whether a job has fenced the one that claimed the checkpoint at `path`, or that one has removed itself.

    Args:
        path: The checkpoint.
        restoring: The job that starts from it.
        owner: The job that claimed it.

    Raises:
        CheckpointStorageError: Storage refuses.
    """
    manifest = read_checkpoint(path)
    if manifest.kind is SnapshotKind.SAVEPOINT:
        return False
    directory = storage_root(checkpoint_directory(path))
    epochs = Epochs(open_storage(directory), manifest.job_id)
    try:
        for each in epochs.restorers(epochs.newest):
            if each.job_id == owner and each.is_beside(directory):
                claiming = Epochs(open_storage(each.directory), owner)
                newest = claiming.newest
                return not newest or restoring in claiming.restorers(newest)
    except CorruptCheckpointError:
        # It is not known whether the owner still runs.
        return False
    return False


def check_still_fenced(path: str, manifest: CheckpointManifest, restoring: RestoringJob) -> None:
    """Verify that no other job has started from the same job's checkpoints since this one was submitted.

    Called when this job has claimed its own directory: a later job looks there after it has fenced the job
    at `path`. So it fences this job too, or this job finds its claim here.

    Args:
        path: The checkpoint to restore.
        manifest: Its manifest.

    Raises:
        FencedError: Another job has, or the job that wrote the checkpoint was never fenced.
        CheckpointStorageError: Storage refuses.
    """
    directory = storage_root(checkpoint_directory(path))
    if manifest.kind is SnapshotKind.SAVEPOINT or directory == restoring.directory:
        return
    _check_newest_restorer(directory, manifest.job_id, restoring)


def check_still_first(directories: tuple[str, ...], restoring: RestoringJob) -> None:
    """Verify for a job that started from nothing that no other job was started since it was submitted.

    Called when this job has claimed its own directory, as `check_still_fenced` is.

    Args:
        directories: Of the jobs that were ended when this one was submitted.
        restoring: This job.

    Raises:
        FencedError: Another job was started.
        CheckpointStorageError: Storage refuses.
    """
    for directory in directories:
        _check_newest_restorer(directory, directory.rpartition("/")[2], restoring)


def _check_newest_restorer(directory: str, job_id: str, restoring: RestoringJob) -> None:
    epochs = Epochs(open_storage(directory), job_id)
    newest = epochs.newest
    restorers = epochs.restorers(newest)
    if newest and restorers[-1:] != (restoring,):
        who = f"job {restorers[-1]} was started" if restorers else "no job was recorded as started"
        raise FencedError(
            f"{who} to continue the job in {directory} after this job was submitted, so this job ends before "
            f"it processes anything"
        )


def mark_continued(path: str, manifest: CheckpointManifest, restoring: RestoringJob) -> None:
    """Record that a job which started from the checkpoint at `path` is about to complete its first one.

    Raises:
        CheckpointStorageError: Storage refuses.
    """
    epochs = Epochs(open_storage(storage_root(checkpoint_directory(path))), manifest.job_id)
    if manifest.kind is not SnapshotKind.SAVEPOINT and epochs.newest:
        epochs.mark_continued(restoring.job_id)
