"""Where the console finds jobs: running ones on a cluster or in this process, ended ones in storage."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ...common.errors import JobExecutionError, TidegateError
from ...common.job_id import JobID
from ...coordinator.control.job_client import JobClient
from ...coordinator.monitoring.job_details import JobDetails

logger = logging.getLogger(__name__)

_FRESH_S = 0.5
"""Pages that poll at the same time share one look at the job."""
_LIST_FRESH_S = 2.0


@dataclass(frozen=True)
class FoundJob:
    """A job and what is known of it; without a client nothing can be asked of it.

    Attributes:
        state_problem: Why the state in its newest checkpoint is not opened; empty if it may be.
        changed: To be called when something was done to the job, so that the next look at it sees that.
    """

    details: JobDetails
    client: JobClient | None = None
    state_problem: str = ""
    changed: Callable[[], None] = field(default=lambda: None, compare=False)


@dataclass(frozen=True)
class ListedJob:
    """One job in a list; `error` says why nothing more is known of it."""

    job_id: str
    found: FoundJob | None
    error: str | None = None


class JobDirectory(Protocol):
    """A place where jobs are found. Its methods may be called from several threads at once."""

    def jobs(self) -> Sequence[ListedJob]:
        """All jobs, in any order."""

    def find(self, job_id: str) -> FoundJob | None:
        """The job with an id, `None` if there is none.

        Raises:
            TidegateError: There is one, but nothing can be read of it.
        """


class LiveJobs:
    """Jobs with a client, such as local ones, or simulated ones.

    Args:
        clients: The jobs that there are now, by id.
    """

    def __init__(self, clients: Callable[[], Mapping[str, JobClient]]) -> None:
        self._clients = clients
        self._lock = threading.Lock()
        self._seen: dict[str, tuple[float, FoundJob]] = {}
        self._changed_s: dict[str, float] = {}

    @staticmethod
    def of(clients: Iterable[JobClient]) -> LiveJobs:
        """A directory of these jobs and no others."""
        fixed = {str(client.get_job_id()): client for client in clients}
        return LiveJobs(lambda: fixed)

    def jobs(self) -> Sequence[ListedJob]:
        listed = []
        for job_id, client in self._clients().items():
            try:
                listed.append(ListedJob(job_id, self._look(job_id, client)))
            except JobExecutionError:
                # It ended while it was asked, and its coordinator is gone.
                continue
        return listed

    def find(self, job_id: str) -> FoundJob | None:
        client = self._clients().get(job_id)
        if client is None:
            return None
        try:
            return self._look(job_id, client)
        except JobExecutionError:
            return None

    def _look(self, job_id: str, client: JobClient) -> FoundJob:
        now_s = time.monotonic()
        with self._lock:
            seen_s, known = self._seen.get(job_id, (0.0, None))
            is_fresh = now_s - seen_s < _FRESH_S and seen_s >= self._changed_s.get(job_id, 0.0)
        if known is not None and is_fresh:
            return known
        found = FoundJob(client.details(), client, changed=lambda: self._change(job_id))
        with self._lock:
            self._seen[job_id] = (now_s, found)
        return found

    def _change(self, job_id: str) -> None:
        with self._lock:
            self._changed_s[job_id] = time.monotonic()


class RayJobs:
    """The jobs of a Ray cluster, as clients for `LiveJobs`.

    Args:
        address: Of the cluster; `None` for the one in `RAY_ADDRESS`, else the one on this machine.
    """

    def __init__(self, address: str | None) -> None:
        self._address = address
        self._lock = threading.Lock()
        self._clients: dict[str, JobClient] = {}
        self._listed_s = -_LIST_FRESH_S

    def __call__(self) -> Mapping[str, JobClient]:
        """The jobs there are now, by id; `ResourceError` when there is no such cluster."""
        # Here and not above: a console over archived jobs must not pay for importing Ray.
        from ...actors.deployment import known_jobs

        with self._lock:
            if time.monotonic() - self._listed_s >= _LIST_FRESH_S:
                handles = known_jobs(self._address)
                # A handle remembers what it was told, so it is kept as long as its job is there.
                self._clients = {
                    job_id: self._clients.get(job_id) or JobClient(JobID(job_id), handle)
                    for job_id, handle in handles.items()
                }
                self._listed_s = time.monotonic()
            return self._clients


class AllJobs:
    """Several directories as one; a job in two of them is told of by the first."""

    def __init__(self, directories: Sequence[JobDirectory]) -> None:
        self._directories = directories

    def jobs(self) -> Sequence[ListedJob]:
        found: dict[str, ListedJob] = {}
        problem: TidegateError | None = None
        for directory in self._directories:
            try:
                for job in directory.jobs():
                    found.setdefault(job.job_id, job)
            except TidegateError as error:
                # A cluster that is gone must not hide the jobs that storage tells of.
                logger.warning("Some jobs cannot be listed: %s", error)
                problem = error
        if problem is not None and not found:
            raise problem
        return list(found.values())

    def find(self, job_id: str) -> FoundJob | None:
        problem: TidegateError | None = None
        for directory in self._directories:
            try:
                found = directory.find(job_id)
            except TidegateError as error:
                problem = error
                continue
            if found is not None:
                return found
        if problem is not None:
            raise problem
        return None
