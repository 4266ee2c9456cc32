"""Finds the latest checkpoint to start from: `latest:<directory>` (ADR 063), `latest-if-any:` (ADR 070).

The directory is that of one job's checkpoints, or the one in which all runs of a program keep theirs. Jobs
that started from a checkpoint of another one continue its history, so the latest checkpoint of a history is
that of its last job, or of an earlier one where the last jobs completed none. It is looked for after the jobs
of the history are fenced; before, a job that still runs could complete another one.

With `latest-if-any:<directory>` a job starts from nothing if there is no checkpoint yet, after it has fenced
all jobs in the directory: they become the beginning of its history.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from itertools import chain

from ...common.errors import (
    CheckpointNotFoundError,
    CheckpointStorageError,
    ConfigurationError,
    CorruptCheckpointError,
)
from ...protocol.checkpoints.restorers import StoredJob, histories
from ...protocol.checkpoints.takeover import counts
from ...protocol.elements import SnapshotKind
from ...protocol.ids import CheckpointId, JobId
from ...state.storage.checkpoint_storage import CheckpointStorage, MissingFileError, open_storage
from ...state.storage.stored_checkpoint import MANIFEST_NAME, read_checkpoint
from ..checkpoints.coordinator_epochs import Epochs
from ..checkpoints.takeover_records import TakeoverRecords
from ..spec import JobSpec
from .restore_fence import fence_checkpoint, fence_job, restoring_job

PREFIX = "latest:"
IF_ANY = "latest-if-any:"
_RETENTION = "execution.checkpointing.externalized-checkpoint-retention"
_OF_A_JOB = re.compile(r"(?:(?P<job>[^/]+)/)?(?:epochs/\d+|chk-(?P<id>\d+)/MANIFEST)")


def is_latest(path: str) -> bool:
    """Whether a restore path names the latest checkpoint in a directory."""
    return path.startswith((PREFIX, IF_ANY))


def directory_of(path: str) -> str:
    """A restore path without `latest:` or `latest-if-any:`."""
    for prefix in (PREFIX, IF_ANY):
        if path.startswith(prefix):
            return path.removeprefix(prefix)
    return path


def secure_restored(spec: JobSpec) -> JobSpec:
    """End the job from whose checkpoint this one starts, and find the latest checkpoint where that is wanted.

    Returns:
        The job with the address of one checkpoint or savepoint as its restore path; without one if the job
        starts from nothing.

    Raises:
        CheckpointNotFoundError: There is no checkpoint.
        CheckpointStorageError: There are several histories, or storage refuses.
        ConfigurationError: The job may start from nothing, and would do so although it has run.
    """
    path = spec.settings.restore_path
    if path is None:
        return spec
    if not is_latest(path):
        fence_checkpoint(path, restoring_job(spec))
        return spec
    check_latest(spec)
    restoring = restoring_job(spec)
    fenced: set[str] = set()
    restored = _latest_of(_origins(path), lambda directory: fence_job(directory, restoring), fenced)
    _check_found(path, restored)
    follows = () if restored is not None else tuple(sorted(fenced))
    return replace(spec, settings=replace(spec.settings, restore_path=restored, follows=follows))


def latest_now(path: str) -> str | None:
    """The latest checkpoint in a directory as long as no job that still runs completes another.

    Nothing is fenced: for checks that come first.

    Returns:
        Its address; `None` if there is none, and the job may start from nothing.

    Raises:
        CheckpointNotFoundError: There is no checkpoint.
        CheckpointStorageError: There are several histories, or storage refuses.
    """
    found = _latest_of(_origins(path), _stored_job, set())
    _check_found(path, found)
    return found


def check_latest(spec: JobSpec) -> None:
    """Raise `ConfigurationError` if a job that may start from nothing would do so although it has run."""
    path, own = spec.settings.restore_path or "", spec.settings.checkpoint_dir
    if not path.startswith(IF_ANY):
        return
    if spec.settings.trigger is None or own is None:
        raise ConfigurationError(
            f"execution.state-recovery.path is {path}, but the job takes no checkpoints; set "
            f"execution.checkpointing.interval and execution.checkpointing.dir"
        )
    if not (spec.settings.keep_on_finish and spec.settings.keep_on_cancel and spec.settings.keep_on_fail):
        raise ConfigurationError(
            f"execution.state-recovery.path is {path}, but a job that has ended would leave no checkpoint, "
            f"and be repeated from the beginning. Set {_RETENTION}: RETAIN_ON_CANCELLATION and "
            f"tidegate.checkpointing.retain-on-finish: true"
        )
    if open_storage(directory_of(path)).uri.rstrip("/") != open_storage(own).uri.rstrip("/"):
        raise ConfigurationError(
            f"execution.state-recovery.path is {path}, but execution.checkpointing.dir is {own}, so the job "
            f"would start from nothing each time. Use {IF_ANY}{own}; or, to start from checkpoints in "
            f"another directory, use {PREFIX}{directory_of(path)}"
        )


def _check_found(path: str, found: str | None) -> None:
    if found is None and not path.startswith(IF_ANY):
        raise CheckpointNotFoundError(_nothing(path))


def _origins(path: str) -> tuple[str, ...]:
    """The directories of the jobs with which the one history in a directory begins.

    All jobs are returned if none has a checkpoint and none is required. That no checkpoint is required may
    not hide one: without checkpoints, a savepoint is an error.
    """
    directory = directory_of(path)
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
        return (storage.uri.rstrip("/"),)
    by_directory = {f"{storage.uri.rstrip('/')}/{name}": job for name, job in jobs.items()}
    found = histories(by_directory)
    if not any(job.checkpoints for job in jobs.values()):
        has_savepoints = any(file.endswith(f"/{MANIFEST_NAME}") for file in files)
        if has_savepoints or not path.startswith(IF_ANY):
            raise CheckpointNotFoundError(_nothing(path, has_savepoints))
        return tuple(chain.from_iterable(found))
    if len(found) > 1:
        first = [origins[0] for origins in found]
        listed = ", ".join(_described(each, by_directory[each]) for each in first)
        raise CheckpointStorageError(
            f"{directory} has {len(found)} jobs of which none was started from a checkpoint of another: "
            f"{listed}. Choose one, such as {PREFIX}{first[0]}, or delete the directories of the others"
        )
    return found[0]


def _latest_of(origins: tuple[str, ...], look: Callable[[str], StoredJob], seen: set[str]) -> str | None:
    """The latest checkpoint of the history that begins with some jobs, `None` if it has none.

    Args:
        origins: The directories of the jobs.
        look: Finds out what a directory holds; fences its job before, if it is to be fenced.
        seen: Takes the directories that were looked at.
    """
    found = [each for each in (_latest(origin, look, seen) for origin in origins) if each is not None]
    if len(found) > 1:
        # They ran at the same time, and had none when their successor was started.
        raise CheckpointStorageError(
            f"there are checkpoints of {len(found)} jobs that ran at the same time: {', '.join(found)}. To "
            f"start from one of them, name it"
        )
    return found[0] if found else None


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
        takeovers = TakeoverRecords(storage, JobId(_name(storage))).all()
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
                f"{_RETENTION}"
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
        f"there is no completed checkpoint in {directory_of(path)}; give the directory of a job's "
        f"checkpoints, or the one of execution.checkpointing.dir.{remark}"
    )
