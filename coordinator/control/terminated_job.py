"""What a job that has ended answers to its clients."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...common.errors import JobExecutionError
from .control_requests import (
    Cancel,
    ControlRequest,
    GetDetails,
    GetProcesses,
    GetReport,
    StateAnswer,
    StateQuery,
)

if TYPE_CHECKING:
    from ..monitoring.job_details import JobDetails
    from ..monitoring.job_report import JobReport


class TerminatedJob:
    """A job of which only the end is known.

    Args:
        report: Its last report.
        details: Makes its details.
    """

    def __init__(self, report: JobReport, details: Callable[[], JobDetails]) -> None:
        self._report = report
        self._details = details

    def ask(self, request: ControlRequest[Any]) -> Any:
        """Answer a question about the job; there is nothing to cancel any more.

        Raises:
            JobExecutionError: Any other action was requested.
        """
        status = f"the job is {self._report.status.name}"
        match request:
            case GetReport():
                return self._report
            case GetDetails():
                return self._details()
            case GetProcesses():
                return {}
            case Cancel():
                return None
            case StateQuery():
                return StateAnswer(b"", status)
        raise JobExecutionError(f"{status}; it takes no more requests")
