"""Runs a job in the local shell, in the caller's thread or in one of its own."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from ..common.errors import JobExecutionError
from ..runtime.local_dirs import JobDirectories
from ..telemetry import OtlpSettings
from ..telemetry.logs import LogContext, ProcessLog
from .control.control_requests import ControlRequest, GetReport, R
from .control.job_client import JobHandle
from .control.job_control import JobControl, waited_answer
from .control.terminated_job import TerminatedJob
from .local_executor import LocalExecutor
from .monitoring.coordinator_tracer import coordinator_tracer
from .monitoring.job_archive import archive_job
from .monitoring.job_details import JobDetails
from .monitoring.job_report import JobReport
from .monitoring.job_reporters import JobReporters
from .monitoring.job_view import JobView, report_of
from .spec import JobSpec


class LocalJob:
    """The `JobHandle` of a job in this process.

    Args:
        spec: The job.
        otlp: Where traces go as well.
        beside: Makes of the job and its id what is to run as long as it does, such as a console.
    """

    def __init__(
        self,
        spec: JobSpec,
        otlp: OtlpSettings | None = None,
        beside: Callable[[JobHandle, str], AbstractContextManager[Any]] | None = None,
    ) -> None:
        settings = self._settings = spec.settings
        self._job_id = spec.job_id
        self._roots = {settings.local_dir, settings.local_snapshots_dir or settings.local_dir}
        self._archive_dir = settings.archive_dir
        self._tracer = coordinator_tracer(spec, otlp)
        self._executor = LocalExecutor(spec, self._tracer, resources=self._resources())
        self._view = JobView(spec, self._executor.coordinator)
        self._control = JobControl(self._executor.coordinator, self._report, self._details, dict)
        self._beside = beside or (lambda job, job_id: contextlib.nullcontext())
        self._thread: threading.Thread | None = None

    def run(self) -> None:
        """Run in the calling thread to the end."""
        self._executor.run()

    @contextlib.contextmanager
    def _resources(self) -> Iterator[None]:
        """The job's directories; after its end the trace is whole and they are gone."""
        job, settings = self._executor.coordinator, self._settings
        try:
            with (
                self._log(),
                contextlib.closing(JobDirectories(self._roots, self._job_id)),
                contextlib.closing(JobReporters(job, settings.prometheus, settings.otlp_metrics)),
                self._beside(self, self._job_id),
            ):
                yield
        finally:
            self._archive()
            self._tracer.close()

    def _log(self) -> contextlib.AbstractContextManager[Any]:
        logs = self._settings.logs
        if logs.directory is None:
            return contextlib.nullcontext()
        context = LogContext(self._job_id, self._executor.coordinator.job_name)
        return contextlib.closing(ProcessLog(logs, logs.directory, "local", context))

    def _archive(self) -> None:
        if self._archive_dir is not None and self._executor.coordinator.status.is_globally_terminal_state():
            archive_job(self._archive_dir, self._details())

    def start(self) -> None:
        """Run in a thread of its own."""
        self._thread = threading.Thread(target=self._run_quietly, name="tidegate-job", daemon=True)
        self._thread.start()

    def _run_quietly(self) -> None:
        # What broke it is raised by `wait`, in the driver's thread.
        with contextlib.suppress(Exception):
            self.run()

    def ask(self, request: ControlRequest[R]) -> R:
        answer: R
        if not isinstance(request, GetReport) and not self.wait(0):
            # The job may end between the question and the request.
            with contextlib.suppress(JobExecutionError):
                answer = waited_answer(
                    request, lambda give: self._executor.call(lambda: self._control.ask(request, give))
                )
                return answer
        # A report can be had from any thread, also before the job runs.
        answer = TerminatedJob(self._report(), self._details).ask(request)
        return answer

    def _report(self) -> JobReport:
        return report_of(self._executor.coordinator)

    def _details(self) -> JobDetails:
        return self._view.details(self._report(), self._executor.now_ns() // 1_000_000)

    def take_results(self, timeout_s: float = 0.0) -> list[Any]:
        if timeout_s:
            self._executor.coordinator.results.arrived.wait(timeout_s)
        if self.wait(0):
            return self._executor.take_results()
        try:
            return self._executor.call(self._executor.take_results)  # type: ignore[no-any-return]
        except JobExecutionError:
            return self._executor.take_results()

    def wait(self, timeout_s: float | None) -> bool:
        return self._executor.wait(timeout_s)

    def release(self) -> None:
        if self._thread is not None:
            self._thread.join()
