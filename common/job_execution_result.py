"""What a finished job leaves (name of `pyflink.common.job_execution_result`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .job_id import JobID

__all__ = ["JobExecutionResult"]


@dataclass(frozen=True)
class JobExecutionResult:
    """The end of a job that ran without fail.

    Attributes:
        net_runtime_ms: milliseconds from submission to the end.
    """

    job_id: JobID
    net_runtime_ms: int

    def get_job_id(self) -> JobID:
        """Return the id of the job."""
        return self.job_id

    def get_net_runtime(self) -> int:
        """Return the milliseconds from submission to the end."""
        return self.net_runtime_ms

    def get_accumulator_result(self, accumulator_name: str) -> Any:
        """Return the value of an accumulator, or None: Python functions have none, use metrics."""
        return self.get_all_accumulator_results().get(accumulator_name)

    def get_all_accumulator_results(self) -> dict[str, Any]:
        """Return the accumulators by name, which are none: Python functions cannot make any."""
        return {}

    def __str__(self) -> str:
        return (
            f"Program execution finished\nJob with JobID {self.job_id} has finished.\n"
            f"Job Runtime: {self.net_runtime_ms} ms\n"
        )
