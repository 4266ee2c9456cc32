"""What the Ray actor of a coordinator holds: one thread around `JobCoordinator`."""

from __future__ import annotations

import contextlib
import logging
import pickle
import queue
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, TypeVar

from ..actors.ray_transport import decode_event, open_ray_log
from ..common.job_status import JobStatus
from ..protocol.checkpoint_events import RequestId
from ..protocol.elements import SavepointFormatType, SnapshotKind
from ..protocol.ids import Attempt, SubtaskId
from ..protocol.task_metrics import Heartbeat
from ..telemetry import OtlpSettings
from ..telemetry.logs import LogContext
from .barrier_mode import BarrierMode
from .coordinator_tracer import coordinator_tracer
from .elasticity import Elasticity
from .job_archive import archive_job
from .job_coordinator import JobCoordinator
from .job_details import JobDetails
from .job_report import JobReport
from .job_reporters import JobReporters
from .job_view import JobView, report_of
from .ray_gateway import RayTaskGateway
from .report_order import ReportOrder
from .spec import JobSpec
from .state_queries import Answer, StateAnswer, StateQuery, waited_answer
from .stored_end import StoredEnd

logger = logging.getLogger(__name__)

T = TypeVar("T")


class JobHost:
    """Coordinates one job; what `CoordinatorActor` is asked, it asks here.

    Args:
        job: A pickled `JobSpec` and `OtlpSettings | None`.
        actor: Handle of the actor around it, for the tasks to report to.
        early: Task actors that were started already, by the keys of their processes.
        end: Ends the actor.
    """

    def __init__(self, job: bytes, actor: Any, early: Mapping[str, Any], end: Callable[[], None]) -> None:
        otlp: OtlpSettings | None
        self._spec: JobSpec
        self._spec, otlp = pickle.loads(job)
        open_ray_log(
            self._spec.settings.logs, "coordinator", LogContext(self._spec.job_id, self._spec.job_name)
        )
        self._requests: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._done = threading.Event()
        self._order = ReportOrder(self._spec.settings.gap_timeout_ms)
        self._tracer = coordinator_tracer(self._spec, otlp)
        self._end_actor = end
        self._gateway = RayTaskGateway(
            self._spec,
            actor,
            early,
            self._requests.put,
            lambda event: self._coordinator.handle(event),
            self._heard,
        )
        self._coordinator = JobCoordinator(
            self._spec, self._gateway, self._tracer, before_clean_up=self._record_end
        )
        settings = self._spec.settings
        self._elasticity = Elasticity(
            self._coordinator,
            self._gateway,
            settings.reactive,
            settings.autoscaler,
            settings.metrics_interval_ms,
        )
        self._reporters = JobReporters(
            self._coordinator, self._spec.settings.prometheus, self._spec.settings.otlp_metrics
        )
        self._view = JobView(self._spec, self._coordinator)
        self._end: JobReport | None = None
        self._needed_s = 0.0
        self._stored_end = StoredEnd(self._spec)
        threading.Thread(target=self._run, name="tidegate-coordinator", daemon=True).start()

    # ------------------------------------------------------------ the loop

    def _run(self) -> None:
        try:
            if not self._resume_end():
                self._drive()
        except Exception as error:
            # A bug here must end the job with an error, and not leave it hanging.
            logger.exception("The coordinator of job %s failed", self._spec.job_id)
            cause = f"the coordinator failed: {type(error).__name__}: {error}"
            report = report_of(self._coordinator)
            details = traceback.format_exc()
            self._end = replace(report, status=JobStatus.FAILED, cause=cause, details=details)
        # While it is known where the subtasks were.
        last = self._details()
        self._gateway.close()
        self._coordinator.sweep()
        self._reporters.close()
        if self._spec.settings.archive_dir is not None:
            archive_job(self._spec.settings.archive_dir, last)
        self._tracer.close()
        self._done.set()
        self._coordinator.results.close()
        self._linger()

    def _resume_end(self) -> bool:
        """Whether the job had ended before Ray restarted this actor; then only its end is told."""
        # Ids of jobs are random, so a record can only come from this actor before it was restarted.
        ended = self._stored_end.read()
        if ended is None:
            return False
        self._end, waiting = ended
        for event in waiting:
            self._coordinator.results.add(event)
        self._coordinator.finish_clean_up(keep_checkpoints=self._end.newest_checkpoint is not None)
        return True

    def _record_end(self, keep_checkpoints: bool) -> None:
        """Before the checkpoints are removed: without them a restarted coordinator would start afresh."""
        report = report_of(self._coordinator)
        if not keep_checkpoints:
            report = replace(report, newest_checkpoint=None)
        self._stored_end.write(report, self._coordinator.results.waiting)

    def _drive(self) -> None:
        self._coordinator.start()
        next_tick_s = 0.0
        while not self._coordinator.status.is_globally_terminal_state():
            self._take_request(next_tick_s)
            if self._coordinator.next_due_ms() <= self._gateway.now_ns() // 1_000_000:
                self._coordinator.tick()
            if time.monotonic() >= next_tick_s:
                next_tick_s = time.monotonic() + self._gateway.tick_interval_ms / 1_000
                self._gateway.tick()
                self._look_for_lost_reports()
                self._elasticity.tick()

    def _heard(self, heartbeat: Heartbeat, heard_ms: int) -> None:
        """A process is alive."""
        self._order.counted(heartbeat.attempt, heartbeat.reports)
        if heartbeat.metrics is not None:
            self._coordinator.measured(heartbeat.metrics, heard_ms)

    def _look_for_lost_reports(self) -> None:
        job = self._coordinator
        for lost in self._order.look(job.attempt, job.subtasks, job.now_ms):
            self._gateway.end_process_of(lost)

    def _take_request(self, next_tick_s: float) -> None:
        due_s = (self._coordinator.next_due_ms() - self._gateway.now_ns() // 1_000_000) / 1_000
        wait_s = max(0.0, min(due_s, next_tick_s - time.monotonic()))
        try:
            request = self._requests.get(timeout=wait_s)
        except queue.Empty:
            return
        request()

    def _linger(self) -> None:
        """Answer questions about the ended job for a while, then leave nothing behind.

        Whoever takes results gets that time again. Others do not: a console that looks each second would keep
        this actor for ever.
        """
        self._needed_s = time.monotonic()
        linger_s = self._spec.settings.linger_ms / 1_000
        while (left_s := self._needed_s + linger_s - time.monotonic()) > 0:
            with contextlib.suppress(queue.Empty):
                self._requests.get(timeout=left_s)()
        self._stored_end.remove()
        self._end_actor()

    def _call(self, request: Callable[[], T]) -> T:
        """Run `request` on the coordinator's thread and return its result."""
        answer: Future[T] = Future()

        def perform() -> None:
            try:
                answer.set_result(request())
            except Exception as error:
                answer.set_exception(error)

        self._requests.put(perform)
        return answer.result()

    # ------------------------------------------------------------ called by tasks

    def task_event(self, subtask: SubtaskId, attempt: Attempt, number: int, event: bytes) -> None:
        """An event from a task; events of one task are handled in the order of their numbers."""

        def handle() -> None:
            for data in self._order.accept((attempt, subtask), number, event):
                self._coordinator.handle(decode_event(data))

        self._requests.put(handle)

    # ------------------------------------------------------------ called by the driver

    def report(self) -> bytes:
        """A pickled `JobReport`."""
        return self._call(lambda: pickle.dumps(self._end or report_of(self._coordinator)))

    def details(self) -> bytes:
        """A pickled `JobDetails`."""
        return self._call(lambda: pickle.dumps(self._details()))

    def _details(self) -> JobDetails:
        report = self._end or report_of(self._coordinator)
        return self._view.details(report, self._gateway.now_ns() // 1_000_000)

    def cancel(self) -> None:
        """Stop the job."""
        self._call(self._coordinator.cancel)

    def trigger_checkpoint(self) -> RequestId | None:
        """Ask for a checkpoint now; the id of the request, or `None` if checkpointing is off."""
        return self._call(self._coordinator.trigger_checkpoint)

    def trigger_savepoint(
        self, kind: SnapshotKind, directory: str | None, format_type: SavepointFormatType
    ) -> RequestId | None:
        """Ask for a savepoint or a stop; the id of the request, or `None` if checkpointing is off."""
        return self._call(lambda: self._coordinator.trigger_savepoint(kind, directory, format_type))

    def set_barrier_mode(self, mode: BarrierMode) -> str:
        """Change how barriers are handled; why that is not possible, or an empty text."""
        return self._call(lambda: self._coordinator.set_barrier_mode(mode))

    def rescale(self, parallelism: Mapping[str, int]) -> str:
        """Give operators another parallelism; why that cannot be, or an empty text."""
        return self._call(lambda: self._coordinator.rescale(parallelism))

    def query_state(self, query: bytes, timeout_s: float) -> StateAnswer:
        """The answer to a pickled `StateQuery` about live state."""
        asked: StateQuery = pickle.loads(query)

        def ask(answer: Answer) -> None:
            self._call(lambda: self._coordinator.query_state(asked, answer))

        return waited_answer(ask, timeout_s)

    def wait(self, timeout_s: float) -> bool:
        """Wait for the end of the job; false when the time is over first."""
        return self._done.wait(timeout_s)

    def take_results(self, confirmed: list[str], timeout_s: float) -> list[tuple[str, Any]]:
        """Collected results as (key, payload); waits for the first while the job runs.

        Those with a key are handed out until they are confirmed: only then are they safe from a loss of
        this process, and only then does their task get its credit back.
        """

        def take() -> list[tuple[str, Any]]:
            self._needed_s = time.monotonic()
            sent, received = self._coordinator.results.hand_out(confirmed)
            for event in received:
                if not self._done.is_set():
                    self._gateway.return_result_credit(event)
            return [(event.key, event.values) for event in sent]

        results = self._call(take)
        if results or not timeout_s or not self._coordinator.results.arrived.wait(timeout_s):
            return results
        return self._call(take)

    def forget(self) -> None:
        """The driver knows how the job ended: this actor is about to be killed."""
        self._call(self._stored_end.remove)

    def processes(self) -> dict[str, int]:
        """Process ids of the task actors by name, for tests and demonstrations of failure."""
        return self._call(self._gateway.process_ids)
