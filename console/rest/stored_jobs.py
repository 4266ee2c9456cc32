"""Jobs of which nothing is known but their checkpoints: their coordinator is gone, and they left no archive.

A manifest holds the newest part of the job's history and the names of its tasks, so the checkpoints and the
state can be shown; the edges of its graph, its failures and its settings cannot.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from ...common.errors import CheckpointNotFoundError, CorruptCheckpointError
from ...common.job_status import JobStatus
from ...coordinator.checkpoints.stored_checkpoints import StoredCheckpoint, stored_checkpoints
from ...coordinator.monitoring.job_details import JobDetails
from ...coordinator.monitoring.job_report import JobReport
from ...coordinator.monitoring.statistics import JobShape, JobStatistics
from ...coordinator.monitoring.stored_statistics import read_statistics
from ...protocol.checkpoints.manifest import CheckpointManifest
from ...protocol.elements import SnapshotKind
from .directory import FoundJob, ListedJob

_FRESH_S = 10.0
"""All manifests are read to find the newest of each job."""


class StoredJobs:
    """The jobs that have checkpoints below a directory (`execution.checkpointing.dir`).

    Args:
        directory: A local path or the URL of a file system.
    """

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._lock = threading.Lock()
        self._jobs: dict[str, ListedJob] = {}
        self._read_s = -_FRESH_S

    def jobs(self) -> Sequence[ListedJob]:
        return list(self._known().values())

    def find(self, job_id: str) -> FoundJob | None:
        listed = self._known().get(job_id)
        if listed is not None and listed.error is not None:
            raise CorruptCheckpointError(listed.error)
        return None if listed is None else listed.found

    def _known(self) -> Mapping[str, ListedJob]:
        with self._lock:
            if time.monotonic() - self._read_s >= _FRESH_S:
                self._jobs, self._read_s = self._read(), time.monotonic()
            return self._jobs

    def _read(self) -> dict[str, ListedJob]:
        try:
            found = stored_checkpoints(self._directory)
        except CheckpointNotFoundError:
            return {}
        jobs: dict[str, ListedJob] = {}
        for checkpoint in found:
            if checkpoint.manifest is None or checkpoint.manifest.kind is not SnapshotKind.SAVEPOINT:
                # The newest come first, damaged ones at the end.
                job_id = PurePosixPath(checkpoint.path).parent.name
                if job_id not in jobs:
                    jobs[job_id] = _listed(job_id, checkpoint)
        return jobs


def _listed(job_id: str, checkpoint: StoredCheckpoint) -> ListedJob:
    """The job of a directory. No other directory speaks for it, and what is wrong in it is its own affair."""
    manifest = checkpoint.manifest
    if manifest is None:
        return ListedJob(job_id, None, checkpoint.problem)
    if manifest.job_id != job_id:
        problem = f"{checkpoint.path} is a checkpoint of job {manifest.job_id[:80]!a}, and not of {job_id!a}"
        return ListedJob(job_id, None, problem)
    try:
        return ListedJob(job_id, FoundJob(_details(checkpoint.path, manifest)))
    except CorruptCheckpointError as error:
        return ListedJob(job_id, None, f"{checkpoint.path}: {error}")


def _details(path: str, manifest: CheckpointManifest) -> JobDetails:
    stored = manifest.statistics
    statistics = JobStatistics() if stored is None else read_statistics(stored)
    newest = statistics.checkpoints[-1] if statistics.checkpoints else None
    report = JobReport(
        status=JobStatus.SUSPENDED,
        cause=None,
        details="",
        restarts=0,
        statistics=statistics,
        newest_checkpoint=path,
        stopped_with=manifest.savepoint_path,
        job_name=manifest.job_name,
    )
    oldest_ms = min([manifest.triggered_ms, *(one.triggered_ms for one in statistics.checkpoints)])
    return JobDetails(
        job_id=manifest.job_id,
        report=report,
        started_ms=oldest_ms,
        ended_ms=manifest.completed_ms,
        plan={"nodes": _nodes({} if newest is None else newest.shape)},
        subtasks=(),
        exceptions=(),
        configuration={},
        coordinator_host="",
        now_ms=manifest.completed_ms,
    )


def _nodes(shape: JobShape) -> list[dict[str, Any]]:
    """One node per task, as in an execution plan without edges."""
    return [
        {
            "id": int(task_id.removeprefix("task-")),
            "type": task.name,
            "contents": task.name,
            "parallelism": task.parallelism,
            "uid": "",
            "task": number,
        }
        for number, (task_id, task) in enumerate(shape.items(), 1)
    ]
