"""The jobs that the tests of the REST API show: in every state of life, and archived."""

from __future__ import annotations

from pathlib import Path

from tidegate.common.job_status import JobStatus
from tidegate.console.rest.archived_jobs import ArchivedJobs
from tidegate.console.rest.directory import AllJobs, LiveJobs
from tidegate.coordinator.monitoring.job_archive import JobArchive

from tests.fake_jobs import fake_client, fake_job

RUNNING, FAILED, RESTARTING, FINISHED, ARCHIVED, DAMAGED, UNKNOWN = range(1, 8)


def id_of(number: int) -> str:
    """The id of one of the jobs above."""
    return f"{number:032x}"


def all_jobs(archive: Path, newest_checkpoint: str | None = None) -> AllJobs:
    """Jobs in every state; `archive` is an empty directory for those that are archived."""
    live = {RUNNING: JobStatus.RUNNING, FAILED: JobStatus.FAILED, RESTARTING: JobStatus.RESTARTING}
    live[FINISHED] = JobStatus.FINISHED
    clients = [
        fake_client(
            fake_job(number, status, newest_checkpoint=newest_checkpoint, savepoint_directory="/savepoints")
        )
        for number, status in live.items()
    ]
    JobArchive(str(archive)).write(fake_job(ARCHIVED, JobStatus.FAILED))
    (archive / id_of(DAMAGED)).write_bytes(b"tidegate-job 1 0000\n{}")
    (archive / "notes.txt").write_text("not a job")
    return AllJobs([LiveJobs.of(clients), ArchivedJobs(str(archive))])
