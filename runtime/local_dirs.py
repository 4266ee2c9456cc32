"""Local directories of jobs and their operators, and how none is left behind.

    <root>/tidegate-jobs/<job id>/<operator>-<subtask>/<attempt>    state of one attempt
    <root>/tidegate-jobs/<job id>/snapshots/<subtask>               copies of its last snapshots
    <root>/tidegate-jobs/<job id>/files/<digest>/<name>             files that travelled with the job

A process that runs tasks of a job holds a lock on the job's directory, which the system gives back when
the process dies, however it dies. A directory that nobody holds belongs to a job that has ended, or that
has lost all its processes here: whoever starts next removes it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import urllib.parse
from collections.abc import Iterable

_JOBS = "tidegate-jobs"
_ATTEMPTS = 1_000


def local_dir(root: str, job_id: str, uid: str, subtask_index: int, attempt: int) -> str:
    """Path of one operator's local files in one attempt; created by whoever needs it."""
    return os.path.join(_job_dir(root, job_id), f"{as_file_name(uid)}-{subtask_index}", str(attempt))


def local_snapshots_dir(root: str, job_id: str, subtask: str) -> str:
    """Path of the copies of one subtask's snapshots; created by whoever needs it."""
    return os.path.join(_job_dir(root, job_id), "snapshots", subtask)


def job_files_dir(root: str, job_id: str) -> str:
    """Path of the files that travelled with a job; created by whoever needs it."""
    return os.path.join(_job_dir(root, job_id), "files")


def as_file_name(uid: str) -> str:
    """A uid may hold anything; a file name may not be `..` or hold a slash."""
    return "op-" + urllib.parse.quote(uid, safe="")


def remove_older_attempts(path: str) -> None:
    """Delete what a killed process of an earlier attempt left beside `path`."""
    parent, attempt = os.path.split(path)
    if not os.path.isdir(parent):
        return
    for name in os.listdir(parent):
        if name.isdigit() and int(name) < int(attempt):
            shutil.rmtree(os.path.join(parent, name), ignore_errors=True)


def remove_if_empty(path: str) -> None:
    """Delete a directory and the one above it where nothing is left in them."""
    for _ in range(2):
        # Not empty, or gone already: both are fine.
        with contextlib.suppress(OSError):
            os.rmdir(path)
        path = os.path.dirname(path)


class JobDirectories:
    """The directories of one job on this machine, held as long as this process lives.

    Args:
        roots: Where directories of jobs are made.
    """

    def __init__(self, roots: Iterable[str], job_id: str) -> None:
        self._held = {path: _held(path) for path in {_job_dir(root, job_id) for root in roots}}
        for parent in {os.path.dirname(path) for path in self._held}:
            for name in os.listdir(parent):
                _remove_unless_held(os.path.join(parent, name))

    def close(self) -> None:
        """The job has ended: the last of its processes here deletes everything, also what killed ones left.

        Not earlier: a coordinator that was replaced ends its processes while those of its successor run.
        """
        while self._held:
            path, lock = self._held.popitem()
            os.close(lock)
            _remove_unless_held(path)
            with contextlib.suppress(OSError):
                os.rmdir(os.path.dirname(path))


def _job_dir(root: str, job_id: str) -> str:
    return os.path.join(root, _JOBS, job_id)


def _held(path: str) -> int:
    """A file descriptor that holds the directory `path`, which is created.

    Jobs that end remove it, or the directory above it, at any moment until it is held.
    """
    obstacle: OSError = FileNotFoundError(errno.ENOENT, "removed again and again by another process", path)
    for _ in range(_ATTEMPTS):
        try:
            os.makedirs(path, exist_ok=True)
        except (FileNotFoundError, FileExistsError) as error:
            obstacle = error
            continue
        lock = _lock(path, fcntl.LOCK_SH)
        with contextlib.suppress(FileNotFoundError):
            if lock is not None and os.path.samestat(os.fstat(lock), os.stat(path)):
                return lock
        if lock is not None:
            os.close(lock)
    raise obstacle


def _remove_unless_held(path: str) -> None:
    lock = _lock(path, fcntl.LOCK_EX | fcntl.LOCK_NB)
    if lock is not None:
        shutil.rmtree(path, ignore_errors=True)
        os.close(lock)


def _lock(path: str, kind: int) -> int | None:
    """A file descriptor with a lock on a directory; None if it is gone or held otherwise."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        fcntl.flock(descriptor, kind)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor
