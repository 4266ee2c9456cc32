"""Finds the latest checkpoint to start from: what `latest:<directory>` means (ADR 063).

The directory is that of one job's checkpoints, or the one in which all runs of a program keep theirs. Jobs
that started from a checkpoint of another one continue its history, so the latest checkpoint of a history is
that of its last job, or of an earlier one where the last jobs completed none. It is looked for after the jobs
of the history are fenced; before, a job that still runs could complete another one.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace

from ..common.errors import CheckpointNotFoundError, CheckpointStorageError, CorruptCheckpointError
from ..protocol.elements import SnapshotKind
from ..protocol.ids import CheckpointId, JobId
from ..protocol.restorers import StoredJob, origins
from ..protocol.takeover import counts
from ..state.storage import CheckpointStorage, MissingFileError, open_storage
from ..state.stored_checkpoint import MANIFEST_NAME, read_checkpoint
from .epochs import Epochs
from .restore_fence import fence_checkpoint, fence_job, restoring_job
from .spec import JobSpec
from .takeovers import Takeovers

PREFIX = "latest:"
_OF_A_JOB = re.compile(r"(?:(?P<job>[^/]+)/)?(?:epochs/\d+|chk-(?P<id>\d+)/MANIFEST)")


def is_latest(path: str) -> bool:
    """Whether a restore path names the latest checkpoint in a directory."""
    return path.startswith(PREFIX)


def secure_restored(spec: JobSpec) -> JobSpec:
    """End the job from whose checkpoint this one starts, and find the latest checkpoint where that is wanted.

    Returns:
        The job with the address of one checkpoint or savepoint as its restore path.

    Raises:
        CheckpointNotFoundError: There is no checkpoint.
        CheckpointStorageError: There are several histories, or storage refuses.
    """
    path = spec.settings.restore_path
    if path is None:
        return spec
    if not is_latest(path):
        fence_checkpoint(path, restoring_job(spec))
        return spec
    restoring = restoring_job(spec)
    restored = _latest(_history(path), lambda directory: fence_job(directory, restoring), set())
    if restored is None:
        raise CheckpointNotFoundError(_nothing(path))
    return replace(spec, settings=replace(spec.settings, restore_path=restored))


def latest_now(path: str) -> str:
    """The latest checkpoint of `latest:<directory>` as long as no job that still runs completes another.

    Nothing is fenced: for checks that come first.

    Raises:
        CheckpointNotFoundError: There is no checkpoint.
        CheckpointStorageError: There are several histories, or storage refuses.
    """
    restored = _latest(_history(path), _stored_job, set())
    if restored is None:
        raise CheckpointNotFoundError(_nothing(path))
    return restored


def _history(path: str) -> str:
    """The directory of the job with which the one history in a directory begins."""
    directory = path.removeprefix(PREFIX)
    storage = open_storage(directory)
    files = storage.list_files("")
    if MANIFEST_NAME in files:
        kind = "savepoint" if read_checkpoint(directory).kind is SnapshotKind.SAVEPOINT else "checkpoint"
        raise CheckpointStorageError(
            f"{directory} is one {kind}, and {PREFIX} needs a directory of checkpoints; restore it without "
            f"{PREFIX}"
        )
    jobs = _stored_jobs(storage, files)
    if "" in jobs:
        return storage.uri.rstrip("/")
    by_directory = {f"{storage.uri.rstrip('/')}/{name}": job for name, job in jobs.items()}
    found = origins(by_directory)
    if not any(job.checkpoints for job in jobs.values()):
        has_savepoints = any(file.endswith(f"/{MANIFEST_NAME}") for file in files)
        raise CheckpointNotFoundError(_nothing(path, has_savepoints))
    if len(found) > 1:
        listed = ", ".join(_described(each, by_directory[each]) for each in found)
        raise CheckpointStorageError(
            f"{directory} has {len(found)} jobs of which none was started from a checkpoint of another: "
            f"{listed}. Choose one, such as {PREFIX}{found[0]}, or delete the directories of the others"
        )
    return found[0]


def _stored_jobs(storage: CheckpointStorage, files: list[str]) -> dict[str, StoredJob]:
    """The jobs below a directory by name; an empty name if the directory is that of a job itself."""
    checkpoints: dict[str, set[CheckpointId]] = defaultdict(set)
    for match in filter(None, map(_OF_A_JOB.fullmatch, files)):
        found = checkpoints[match["job"] or ""]
        if match["id"]:
            found.add(CheckpointId(int(match["id"])))
    return {
        name: _with_restorers(storage.sub(name) if name else storage, ids)
        for name, ids in checkpoints.items()
    }


def _with_restorers(storage: CheckpointStorage, stored: set[CheckpointId]) -> StoredJob:
    epochs = _epochs(storage)
    newest = epochs.newest
    restorers = epochs.restorers(newest)
    if not stored or not newest:
        # Nothing to judge, or a copy, which may have another name.
        return StoredJob(frozenset(stored), restorers)
    try:
        # A coordinator that was replaced may have written one too late: it must not end a job that has none.
        takeovers = Takeovers(storage, JobId(_name(storage))).all()
    except MissingFileError:
        # The job has ended and is being removed.
        return StoredJob(frozenset(), restorers)
    except CorruptCheckpointError as error:
        return StoredJob(frozenset(stored), restorers, damage=str(error))
    return StoredJob(frozenset(each for each in stored if counts(each, takeovers)), restorers)


def _epochs(storage: CheckpointStorage) -> Epochs:
    return Epochs(storage, _name(storage))


def _name(storage: CheckpointStorage) -> str:
    return storage.uri.rstrip("/").rpartition("/")[2]


def _described(directory: str, job: StoredJob) -> str:
    return f"{directory} ({f'chk-{max(job.checkpoints)}' if job.checkpoints else 'no checkpoint'})"


def _latest(directory: str, look: Callable[[str], StoredJob], seen: set[str]) -> str | None:
    """The latest checkpoint of the history that begins with a job, `None` if no job of it has one.

    Args:
        directory: Of the job.
        look: Finds out what a directory holds; fences its job before, if it is to be fenced.
        seen: The directories that were looked at.
    """
    seen.add(directory)
    job = look(directory)
    continued = _epochs(open_storage(directory)).continued
    for restorer in reversed(job.restorers):
        if not restorer.directory or restorer.directory in seen:
            continue
        if not restorer.is_beside(directory):
            raise CheckpointStorageError(
                f"job {restorer} continued from a checkpoint in {directory}, in another place. Start from "
                f"{PREFIX}{restorer.directory}, or name a checkpoint of {directory}"
            )
        if _epochs(open_storage(restorer.directory)).newest:
            found = _latest(restorer.directory, look, seen)
            if found is not None:
                return found
        elif restorer.job_id in continued:
            raise CheckpointStorageError(
                f"job {restorer} continued from a checkpoint in {directory} and removed its own checkpoints "
                f"when it ended, so what it committed since would be repeated. To start from a checkpoint of "
                f"{directory} nevertheless, name it. To keep checkpoints, set "
                f"execution.checkpointing.externalized-checkpoint-retention"
            )
    if job.damage:
        raise CorruptCheckpointError(job.damage)
    return f"{directory}/chk-{max(job.checkpoints)}" if job.checkpoints else None


def _stored_job(directory: str) -> StoredJob:
    storage = open_storage(directory)
    return _stored_jobs(storage, storage.list_files("")).get("", StoredJob(frozenset()))


def _nothing(path: str, has_savepoints: bool = False) -> str:
    remark = " It contains savepoints: name one of them" if has_savepoints else ""
    return (
        f"there is no completed checkpoint in {path.removeprefix(PREFIX)}; give the directory of a job's "
        f"checkpoints, or the one of execution.checkpointing.dir.{remark}"
    )
