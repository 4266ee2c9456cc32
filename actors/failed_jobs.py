"""Keeps how a job failed, in the key-value store of Ray's head, when its coordinator has left.

A detached job may fail before a user looks at it. `tidegate status`, `tidegate list --all` and the console
find it here for an hour, which is the default of Flink's `jobstore.expiration-time`.
"""

from __future__ import annotations

import logging
from typing import Any

from ray.exceptions import RayError
from ray.experimental import internal_kv

from ..common.errors import CheckpointStorageError, JobExecutionError
from ..coordinator.control.control_requests import ControlRequest
from ..coordinator.control.terminated_job import TerminatedJob
from ..coordinator.monitoring.job_archive import decode_job, encode_job
from ..coordinator.monitoring.job_details import JobDetails

logger = logging.getLogger(__name__)

KEPT_MS = 3_600_000
MOST_KEPT = 20
"""The latest failures. The head keeps them in memory, and a job with many subtasks takes a megabyte."""
_NAMESPACE = "tidegate-failed"


def keep_failed(details: JobDetails, now_ms: int) -> None:
    """Keep a job that has failed, and forget those that failed long ago."""
    try:
        # So that the keys are in the order of their time.
        internal_kv._internal_kv_put(
            f"{now_ms:015d}-{details.job_id}", encode_job(details), namespace=_NAMESPACE
        )
        for key in _keys()[:-MOST_KEPT]:
            internal_kv._internal_kv_del(key, namespace=_NAMESPACE)
    except (RayError, RuntimeError) as error:
        logger.warning("The end of job %s cannot be kept on Ray's head: %s", details.job_id, error)


def forget_failed(job_id: str) -> None:
    """Remove a job whose driver knows that it failed."""
    for key in _keys():
        if _job_id(key) == job_id:
            internal_kv._internal_kv_del(key, namespace=_NAMESPACE)


def failed_jobs(now_ms: int) -> dict[str, FailedJob]:
    """The jobs that failed within the last hour and whose drivers did not fetch their results, by id."""
    return {_job_id(key): FailedJob(key) for key in _keys() if int(key.partition("-")[0]) > now_ms - KEPT_MS}


def _keys() -> list[str]:
    return sorted(key.decode() for key in internal_kv._internal_kv_list("", namespace=_NAMESPACE))


def _job_id(key: str) -> str:
    return key.partition("-")[2]


class FailedJob:
    """The `JobHandle` of a job of which only its end is known."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._job: TerminatedJob | None = None

    def ask(self, request: ControlRequest[Any]) -> Any:
        if self._job is None:
            details = self._read()
            self._job = TerminatedJob(details.report, lambda: details)
        return self._job.ask(request)

    def _read(self) -> JobDetails:
        data = internal_kv._internal_kv_get(self._key, namespace=_NAMESPACE)
        if data is None:
            raise JobExecutionError(f"job {_job_id(self._key)} failed long ago, and is forgotten")
        try:
            return decode_job(data, f"the entry {self._key!r} in the key-value store of Ray's head")
        except CheckpointStorageError as error:
            raise JobExecutionError(
                f"job {_job_id(self._key)} failed, but its end cannot be read: {error}"
            ) from error

    def take_results(self, timeout_s: float = 0.0) -> list[Any]:
        return []

    def wait(self, timeout_s: float | None) -> bool:
        return True

    def release(self) -> None:
        """The driver is done with the job."""
        forget_failed(_job_id(self._key))
