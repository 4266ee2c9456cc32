"""Jobs that have ended, from what they left in storage."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Sequence

from ...common.errors import CheckpointStorageError
from ...coordinator.monitoring.job_archive import JobArchive
from ...protocol.checkpoints.stored_path import address_problem
from .directory import FoundJob, ListedJob

_REMEMBERED = 1_000
"""Documents that are not read again; they never change."""
_LIST_FRESH_S = 5.0


def _state_problem(newest_checkpoint: str | None) -> str:
    """A document may name any address; only those of checkpoints are opened."""
    problem = None if newest_checkpoint is None else address_problem(newest_checkpoint)
    if problem is None:
        return ""
    return f"the archive names {newest_checkpoint!a:.200}, which is not opened: {problem}"


class ArchivedJobs:
    """The jobs of a directory that `jobmanager.archive.fs.dir` named.

    Args:
        directory: A local path or the URL of a file system.
    """

    def __init__(self, directory: str) -> None:
        self._archive = JobArchive(directory)
        self._lock = threading.Lock()
        self._read: OrderedDict[str, FoundJob] = OrderedDict()
        self._ids: list[str] = []
        self._listed_s = -_LIST_FRESH_S

    def jobs(self) -> Sequence[ListedJob]:
        listed = []
        for job_id in self._job_ids():
            try:
                listed.append(ListedJob(job_id, self._job(job_id)))
            except CheckpointStorageError as error:
                # One damaged file must not hide the others.
                listed.append(ListedJob(job_id, None, str(error)))
        return listed

    def find(self, job_id: str) -> FoundJob | None:
        with self._lock:
            known = self._read.get(job_id)
        if known is not None:
            return known
        return self._job(job_id) if job_id in self._archive.job_ids() else None

    def _job_ids(self) -> list[str]:
        with self._lock:
            if time.monotonic() - self._listed_s >= _LIST_FRESH_S:
                self._ids = self._archive.job_ids()
                self._listed_s = time.monotonic()
            return self._ids

    def _job(self, job_id: str) -> FoundJob:
        with self._lock:
            known = self._read.get(job_id)
        if known is not None:
            return known
        details = self._archive.read(job_id)
        found = FoundJob(details, state_problem=_state_problem(details.report.newest_checkpoint))
        with self._lock:
            self._read[job_id] = found
            while len(self._read) > _REMEMBERED:
                self._read.popitem(last=False)
        return found
