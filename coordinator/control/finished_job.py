"""What `execute` returns: the end of a job, or the start of one that continues without its driver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...common.errors import ConfigurationError
from ...common.job_execution_result import JobExecutionResult

if TYPE_CHECKING:
    # A job would start later if this were imported before.
    from ..monitoring.job_report import JobReport

_DETACHED = (
    "the job was started detached (execution.attached: false), so this program did not wait for its {}; run "
    "`tidegate status`"
)


@dataclass(frozen=True)
class FinishedJob(JobExecutionResult):
    """The end of a job, with the last view of it."""

    report: JobReport


class DetachedJob(FinishedJob):
    """A job that goes on without its driver; `report` is from its start."""

    def get_net_runtime(self) -> int:
        raise ConfigurationError(_DETACHED.format("runtime"))

    def get_all_accumulator_results(self) -> dict[str, Any]:
        raise ConfigurationError(_DETACHED.format("accumulators"))

    def __str__(self) -> str:
        return f"Job has been submitted with JobID {self.job_id}\n"
