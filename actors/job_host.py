"""What the Ray actor of a coordinator holds: one thread around `JobCoordinator`."""

from __future__ import annotations

import logging
import pickle
import queue
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from ..common.job_status import JobStatus
from ..coordinator.checkpoints.ownership import RETRY_MS
from ..coordinator.control.control_requests import ControlRequest
from ..coordinator.control.job_control import JobControl, waited_answer
from ..coordinator.coordinator_life import CoordinatorLife, LifePorts
from ..coordinator.coordinator_relocation import CoordinatorRelocation
from ..coordinator.deployment.report_order import ReportOrder
from ..coordinator.elasticity import Elasticity
from ..coordinator.job_coordinator import JobCoordinator
from ..coordinator.monitoring.coordinator_tracer import coordinator_tracer
from ..coordinator.monitoring.job_archive import archive_job
from ..coordinator.monitoring.job_details import JobDetails
from ..coordinator.monitoring.job_reporters import JobReporters
from ..coordinator.monitoring.job_view import JobView
from ..coordinator.spec import JobSpec
from ..protocol.ids import Attempt, SubtaskId
from ..protocol.task_events import TaskFailed
from ..protocol.task_metrics import Heartbeat
from ..telemetry import OtlpSettings
from ..telemetry.logs import LogContext
from .task_gateway import RayTaskGateway
from .transport import decode_event, open_ray_log

logger = logging.getLogger(__name__)

T = TypeVar("T")

_REFUSING_S = 1.0
"""How long a superseded coordinator stays to answer the calls that have reached it."""


class ActorProcess(LifePorts, Protocol):
    """The process of a coordinator's actor."""

    @property
    def node_id(self) -> str:
        """Id of its node in Ray."""

    def keep_failed(self, details: JobDetails) -> None:
        """Keep a job that has failed, for those who look for it when this process has left."""

    def forget_failed(self, job_id: str) -> None:
        """Remove what `keep_failed` kept."""


class JobHost:
    """Coordinates one job; what `CoordinatorActor` is asked, it asks here.

    Args:
        job: A pickled `JobSpec` and `OtlpSettings | None`.
        actor: Handle of the actor around it, for the tasks to report to.
        early: Task actors that were started already, by the keys of their processes.
        ports: The actor's process.
    """

    def __init__(self, job: bytes, actor: Any, early: Mapping[str, Any], ports: ActorProcess) -> None:
        otlp: OtlpSettings | None
        self._spec: JobSpec
        self._spec, otlp = pickle.loads(job)
        open_ray_log(
            self._spec.settings.logs, "coordinator", LogContext(self._spec.job_id, self._spec.job_name)
        )
        self._ports = ports
        self._requests: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._done = threading.Event()
        self._order: ReportOrder[bytes] = ReportOrder(self._spec.settings.gap_timeout_ms)
        self._tracer = coordinator_tracer(self._spec, otlp)
        self._gateway = RayTaskGateway(
            self._spec,
            actor,
            early,
            self._requests.put,
            lambda event: self._coordinator.handle(event),
            self._heard,
        )
        self._life = CoordinatorLife(
            self._spec,
            ports,
            lambda ended: JobCoordinator(
                self._spec,
                self._gateway,
                self._tracer,
                before_clean_up=ended,
                is_current=ports.is_current,
            ),
            lambda: self._gateway.now_ns() // 1_000_000,
        )
        self._coordinator = self._life.coordinator
        settings = self._spec.settings
        self._elasticity = Elasticity(
            self._coordinator,
            self._gateway,
            settings.reactive,
            settings.autoscaler,
            settings.metrics_interval_ms,
        )
        self._relocation = CoordinatorRelocation(
            self._coordinator, lambda: self._gateway.must_leave(ports.node_id), ports.restart
        )
        self._reporters = JobReporters(
            self._coordinator, self._spec.settings.prometheus, self._spec.settings.otlp_metrics
        )
        self._view = JobView(self._spec, self._coordinator)
        self._control = JobControl(
            self._coordinator, self._life.report, self._details, self._gateway.process_ids
        )
        self._needed_s = 0.0
        threading.Thread(target=self._run, name="tidegate-coordinator", daemon=True).start()

    # ------------------------------------------------------------ the loop

    def _run(self) -> None:
        crash = None
        try:
            self._life.start()
            self._drive()
        except Exception as error:
            # A bug here must end the job with an error, and not leave it hanging.
            logger.exception("The coordinator of job %s failed", self._spec.job_id)
            cause = f"the coordinator failed: {type(error).__name__}: {error}"
            crash = replace(
                self._life.report(), status=JobStatus.FAILED, cause=cause, details=traceback.format_exc()
            )
        self._life.ended(crash)
        if self._is_owner():
            self._close()
            self._linger()
        else:
            self._refuse()

    def _close(self) -> None:
        """The job has ended: end its processes, and make its end known."""
        # While it is known where the subtasks were.
        last = self._details()
        self._gateway.close()
        self._coordinator.ownership.sweep()
        self._reporters.close()
        if self._spec.settings.archive_dir is not None and self._is_owner():
            archive_job(self._spec.settings.archive_dir, last)
        if last.report.status is JobStatus.FAILED and self._is_owner():
            self._ports.keep_failed(last)
        self._tracer.close()
        self._done.set()
        self._coordinator.results.close()

    def _drive(self) -> None:
        next_tick_s = 0.0
        while not self._life.is_over:
            request = self._next_request(next_tick_s)
            is_owner = self._is_owner()
            if request is not None:
                request()
            if not is_owner:
                return
            if self._coordinator.next_due_ms() <= self._gateway.now_ns() // 1_000_000:
                self._coordinator.tick()
            if time.monotonic() >= next_tick_s:
                next_tick_s = time.monotonic() + self._gateway.tick_interval_ms / 1_000
                self._gateway.tick()
                self._look_for_lost_reports()
                if not self._relocation.tick():
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

    def _is_owner(self) -> bool:
        """Whether this coordinator owns the job, or its end. Waits while storage does not answer that."""
        while not (self._life.may_act() or self._life.is_superseded):
            time.sleep(RETRY_MS / 1_000)
        return not (self._life.is_superseded or self._life.is_forgotten)

    def _next_request(self, next_tick_s: float) -> Callable[[], None] | None:
        due_s = (self._coordinator.next_due_ms() - self._gateway.now_ns() // 1_000_000) / 1_000
        try:
            return self._requests.get(timeout=max(0.0, min(due_s, next_tick_s - time.monotonic())))
        except queue.Empty:
            return None

    def _linger(self) -> None:
        """Answer questions about the ended job for a while, then remove what is left of it.

        Taking results extends that time. Other questions do not: a console that asks each second would keep
        this actor forever.
        """
        self._needed_s = time.monotonic()
        linger_s = self._spec.settings.linger_ms / 1_000
        while (left_s := self._needed_s + linger_s - time.monotonic()) > 0:
            try:
                # Not for all that time: one that is superseded is to leave soon.
                request = self._requests.get(timeout=min(left_s, self._spec.settings.lease_ms / 1_000))
            except queue.Empty:
                request = None
            is_owner = self._is_owner()
            if request is not None:
                self._perform_after_end(request)
            if not is_owner and self._life.is_superseded:
                self._refuse()
                return
        while not self._life.lingered():
            time.sleep(RETRY_MS / 1_000)

    def _refuse(self) -> None:
        """Refer clients to the coordinator that owns the job, and leave. Nothing else is changed here."""
        until_s = time.monotonic() + _REFUSING_S
        while (left_s := until_s - time.monotonic()) > 0:
            try:
                self._perform_after_end(self._requests.get(timeout=left_s))
            except queue.Empty:
                break
        self._life.lingered()

    def _perform_after_end(self, request: Callable[[], None]) -> None:
        """Perform a request of which a bug must not end this thread: clients would wait for ever."""
        try:
            request()
        except Exception:
            logger.exception("A request to the coordinator of job %s failed", self._spec.job_id)

    def _call(self, request: Callable[[], T]) -> T:
        """Run `request` on the coordinator's thread and return its result.

        Raises:
            SupersededError: Another coordinator owns the job, also where that was found out meanwhile.
        """
        answer: Future[T] = Future()

        def perform() -> None:
            try:
                self._life.check_not_superseded()
                result = request()
                self._life.check_not_superseded()
                answer.set_result(result)
            except Exception as error:
                answer.set_exception(error)

        self._requests.put(perform)
        return answer.result()

    # ------------------------------------------------------------ called by tasks

    def task_event(self, subtask: SubtaskId, attempt: Attempt, number: int, event: bytes) -> None:
        """An event from a task; events of one task are handled in the order of their numbers."""

        def handle() -> None:
            if self._life.is_over:
                return
            for data in self._order.accept((attempt, subtask), number, event):
                happened = decode_event(data)
                self._coordinator.handle(happened)
                if isinstance(happened, TaskFailed) and happened.is_network_error:
                    self._gateway.end_process_of(happened)

        self._requests.put(handle)

    # ------------------------------------------------------------ called by the driver

    def ask(self, request: bytes) -> bytes:
        """The pickled answer to a pickled `ControlRequest`."""
        asked: ControlRequest[Any] = pickle.loads(request)
        answer: bytes = waited_answer(
            asked, lambda answer: self._call(lambda: self._control.ask(asked, answer)), pickle.dumps
        )
        return answer

    def _details(self) -> JobDetails:
        return self._view.details(self._life.report(), self._gateway.now_ns() // 1_000_000)

    def wait(self, timeout_s: float) -> bool:
        """Wait for the end of the job; false when the time is over first."""
        return self._done.wait(timeout_s) and self._call(lambda: True)

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
        self._call(self._life.forget)
        self._ports.forget_failed(self._spec.job_id)
