"""The console's server on a free port of this machine, over jobs that a test tells of."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from tidegate.common.errors import CheckpointStorageError
from tidegate.common.job_id import JobID
from tidegate.console.rest.directory import FoundJob, JobDirectory, ListedJob
from tidegate.console.rest.server import ServerSettings, served
from tidegate.console.rest.tokens import ConsoleSecret
from tidegate.coordinator.control.control_requests import ControlRequest
from tidegate.coordinator.control.job_client import JobClient
from tidegate.coordinator.monitoring.job_details import JobDetails

from tests.fake_jobs import FakeJob

TOKEN = "a-token-of-these-tests"


class ToldJobs:
    """A directory of the jobs that a test tells of, at any time."""

    def __init__(self) -> None:
        self._clients: dict[str, JobClient] = {}
        self._handles: dict[str, FakeJob] = {}
        self._archived: dict[str, ListedJob] = {}

    def tell(self, details: JobDetails) -> None:
        """There is a simulated job, or it is otherwise than before."""
        self._handles[details.job_id] = FakeJob(details)
        self._clients[details.job_id] = JobClient(JobID(details.job_id), self._handles[details.job_id])

    def asked(self, number: int) -> list[ControlRequest[Any]]:
        """What was asked of a simulated job."""
        return self._handles[f"{number:032x}"].asked

    def tell_of_archived(self, details: JobDetails) -> None:
        """There is a job that is told of from storage."""
        self._archived[details.job_id] = ListedJob(details.job_id, FoundJob(details))

    def tell_of_damaged(self, job_id: str, error: str) -> None:
        """There is an archive that cannot be read."""
        self._archived[job_id] = ListedJob(job_id, None, error)

    def add(self, client: JobClient) -> None:
        """There is a real job."""
        self._clients[str(client.get_job_id())] = client

    def forget(self, job_id: str) -> None:
        """A job is gone."""
        self._clients.pop(job_id, None)
        self._archived.pop(job_id, None)

    def forget_all(self) -> None:
        """There is none."""
        self._clients.clear()
        self._archived.clear()

    def jobs(self) -> Sequence[ListedJob]:
        live = [
            ListedJob(job_id, FoundJob(client.details(), client)) for job_id, client in self._clients.items()
        ]
        return [*live, *self._archived.values()]

    def find(self, job_id: str) -> FoundJob | None:
        found = next((job for job in self.jobs() if job.job_id == job_id), None)
        if found is not None and found.error is not None:
            raise CheckpointStorageError(found.error)
        return None if found is None else found.found


class ServedConsole:
    """A console that listens, until it is stopped; it can be started again at the same address.

    Args:
        jobs: Where it finds jobs.
        host: Beyond loopback it wants the token for everything.
        secret: `None` for a console that only shows.
    """

    def __init__(self, jobs: JobDirectory, host: str = "127.0.0.1", secret: str | None = TOKEN) -> None:
        self._jobs = jobs
        self._settings = ServerSettings(
            host, 0, None if secret is None else ConsoleSecret(secret), savepoint_roots=("/elsewhere",)
        )
        self._running = contextlib.ExitStack()
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._settings.port}/"

    def start(self) -> None:
        address = self._running.enter_context(served(self._jobs, self._settings))
        self._settings = replace(self._settings, port=urlsplit(address).port or 0)

    def stop(self) -> None:
        self._running.close()


def with_wide_tasks(details: JobDetails, parallelism: int) -> JobDetails:
    """The same job with so many subtasks in each task, without their channels, which would be very many."""
    by_task = {each.subtask.task_id: each for each in details.subtasks}
    subtasks = tuple(
        replace(each, subtask=each.subtask._replace(index=index))
        for each in by_task.values()
        for index in range(parallelism)
    )
    nodes = [{**node, "parallelism": parallelism} for node in details.plan["nodes"]]
    return replace(details, subtasks=subtasks, plan={"nodes": nodes})


def with_rates(details: JobDetails, **rates: float) -> JobDetails:
    """The same job with other rates in all its subtasks."""
    changed = tuple(
        replace(each, rates=replace(each.rates, **rates), metrics_ms=each.metrics_ms + 1)
        for each in details.subtasks
    )
    return replace(details, subtasks=changed)
