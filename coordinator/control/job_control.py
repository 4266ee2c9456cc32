"""Performs what clients ask of a running job."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any

from ..job_coordinator import JobCoordinator
from ..monitoring.job_details import JobDetails
from ..monitoring.job_report import JobReport
from .control_requests import (
    Cancel,
    ControlRequest,
    GetDetails,
    GetProcesses,
    GetReport,
    R,
    Rescale,
    SetBarrierMode,
    StateAnswer,
    StateQuery,
    TakeCheckpoint,
    TakeSavepoint,
)
from .job_requests import JobRequests


class JobControl:
    """The requests to one job; used on the coordinator's thread.

    Args:
        coordinator: Of the job.
        report: Makes the job's report.
        details: Makes the job's details.
        processes: The ids of its task processes by name.
    """

    def __init__(
        self,
        coordinator: JobCoordinator,
        report: Callable[[], JobReport],
        details: Callable[[], JobDetails],
        processes: Callable[[], dict[str, int]],
    ) -> None:
        self._coordinator = coordinator
        self._requests = JobRequests(coordinator)
        self._report = report
        self._details = details
        self._processes = processes

    def ask(self, request: ControlRequest[R], answer: Callable[[R], None]) -> None:
        """Perform a request.

        Args:
            answer: Called once with the answer: at once, or for a `StateQuery` when its task has answered.
        """
        if isinstance(request, StateQuery):
            self._requests.query_state(request, answer)  # type: ignore[arg-type]
        else:
            answer(self._answer(request))

    def _answer(self, request: ControlRequest[Any]) -> Any:
        requests = self._requests
        match request:
            case GetReport():
                return self._report()
            case GetDetails():
                return self._details()
            case GetProcesses():
                return self._processes()
            case Cancel():
                return self._coordinator.cancel()
            case TakeCheckpoint():
                return requests.trigger_checkpoint()
            case TakeSavepoint(kind, directory, format_type):
                return requests.trigger_savepoint(kind, directory, format_type)
            case SetBarrierMode(mode):
                return requests.set_barrier_mode(mode)
            case Rescale(parallelism):
                return requests.rescale(parallelism)
        raise NotImplementedError(f"{type(request).__name__} has no case in JobControl")


def waited_answer(
    request: ControlRequest[Any],
    ask: Callable[[Callable[[Any], None]], object],
    encode: Callable[[Any], Any] = lambda answer: answer,
) -> Any:
    """Block the calling thread until a request is answered, or until the timeout of a `StateQuery`.

    Args:
        request: The request.
        ask: Performs it on the coordinator's thread; its argument takes the answer.
        encode: Applied to the answer on the coordinator's thread.
    """
    future: Future[Any] = Future()
    ask(lambda answer: future.set_result(encode(answer)))
    timeout_s = request.timeout_s if isinstance(request, StateQuery) else None
    try:
        return future.result(timeout_s)
    except FutureTimeoutError:
        cause = f"its task did not answer within {timeout_s:.1f} s"
        return encode(StateAnswer(b"", cause, is_final=False))
