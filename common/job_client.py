"""How a program watches and steers a running job (name of `pyflink.common.job_client`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from .completable_future import CompletableFuture
from .job_execution_result import JobExecutionResult
from .job_id import JobID
from .job_status import JobStatus

__all__ = ["JobClient"]


class JobClient(ABC):
    """One job, as `StreamExecutionEnvironment.execute_async` returns it."""

    @abstractmethod
    def get_job_id(self) -> JobID:
        """Return the id of the job."""

    @abstractmethod
    def get_job_status(self) -> CompletableFuture[JobStatus]:
        """Return where the job is in its life."""

    @abstractmethod
    def cancel(self) -> CompletableFuture[None]:
        """Stop the job without a checkpoint."""

    @abstractmethod
    def stop_with_savepoint(
        self, advance_to_end_of_event_time: bool = False, savepoint_directory: str | None = None
    ) -> CompletableFuture[str]:
        """Stop the job with a savepoint; the answer is its path."""

    @abstractmethod
    def trigger_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture[str]:
        """Take a savepoint while the job goes on; the answer is its path."""

    def get_accumulators(self) -> CompletableFuture[dict[str, Any]]:
        """Return the accumulators by name, which are none: Python functions cannot make any."""
        future: CompletableFuture[dict[str, Any]] = CompletableFuture()
        future.set_result({})
        return future

    @abstractmethod
    def get_job_execution_result(self) -> CompletableFuture[JobExecutionResult]:
        """Wait for the end; the future holds the result or the error that ended the job."""
