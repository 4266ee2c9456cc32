"""The Ray actor of a coordinator: a thin shell, one thread around `JobCoordinator`."""

from __future__ import annotations

import pickle
import queue
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

import ray

from ..actors.ray_transport import decode_event
from ..protocol.ids import Attempt, SubtaskId
from ..telemetry import OtlpSettings
from .job_coordinator import JobCoordinator
from .local_job import coordinator_tracer, report_of
from .ray_deployment import RayTaskGateway
from .report_order import ReportOrder
from .spec import JobSpec

T = TypeVar("T")


class CoordinatorActor:
    """Coordinates one job. Ray restarts it after a crash; it then resumes from checkpoint storage."""

    def __init__(self, spec: bytes, otlp: OtlpSettings | None) -> None:
        self._spec: JobSpec = pickle.loads(spec)
        self._requests: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._done = threading.Event()
        self._order = ReportOrder()
        self._tracer = coordinator_tracer(self._spec, otlp)
        self._self = ray.get_runtime_context().current_actor
        self._gateway = RayTaskGateway(
            self._spec, self._self, self._requests.put, lambda event: self._coordinator.handle(event)
        )
        self._coordinator = JobCoordinator(self._spec, self._gateway, self._tracer)
        threading.Thread(target=self._run, name="tidegate-coordinator", daemon=True).start()

    # ------------------------------------------------------------ the loop

    def _run(self) -> None:
        self._coordinator.start()
        next_tick_s = 0.0
        while not self._coordinator.status.is_globally_terminal_state():
            self._take_request(next_tick_s)
            if self._coordinator.next_due_ms() <= self._gateway.now_ns() // 1_000_000:
                self._coordinator.tick()
            if time.monotonic() >= next_tick_s:
                next_tick_s = time.monotonic() + self._gateway.tick_interval_ms / 1_000
                self._gateway.tick()
        self._gateway.close()
        self._tracer.close()
        self._done.set()
        self._linger()

    def _take_request(self, next_tick_s: float) -> None:
        due_s = (self._coordinator.next_due_ms() - self._gateway.now_ns() // 1_000_000) / 1_000
        wait_s = max(0.0, min(due_s, next_tick_s - time.monotonic()))
        try:
            request = self._requests.get(timeout=wait_s)
        except queue.Empty:
            return
        request()

    def _linger(self) -> None:
        """Answer questions about the ended job for a while, then leave nothing behind."""
        end_s = time.monotonic() + self._spec.settings.linger_ms / 1_000
        while time.monotonic() < end_s:
            try:
                self._requests.get(timeout=max(0.0, end_s - time.monotonic()))()
            except queue.Empty:
                break
        ray.kill(self._self, no_restart=True)

    def _call(self, request: Callable[[], T]) -> T:
        """Run `request` on the coordinator's thread and return its result."""
        answer: queue.SimpleQueue[T] = queue.SimpleQueue()
        self._requests.put(lambda: answer.put(request()))
        return answer.get()

    # ------------------------------------------------------------ called by tasks

    @ray.method(concurrency_group="events")
    def task_event(self, subtask: SubtaskId, attempt: Attempt, number: int, event: bytes) -> None:
        """An event from a task; events of one task are handled in the order of their numbers."""

        def handle() -> None:
            for data in self._order.accept((attempt, subtask), number, event):
                self._coordinator.handle(decode_event(data))

        self._requests.put(handle)

    # ------------------------------------------------------------ called by the driver

    def started(self) -> None:
        """Answer once the actor runs."""

    def report(self) -> bytes:
        """A pickled `JobReport`."""
        return self._call(lambda: pickle.dumps(report_of(self._coordinator)))

    def cancel(self) -> None:
        """Stop the job."""
        self._call(self._coordinator.cancel)

    def trigger_checkpoint(self) -> None:
        """Take a checkpoint now."""
        self._call(self._coordinator.trigger_checkpoint)

    def wait(self, timeout_s: float) -> bool:
        """Wait for the end of the job; false when the time is over first."""
        return self._done.wait(timeout_s)

    def take_results(self) -> list[Any]:
        """Payloads of collected results that wait; the tasks get their credit back."""

        def take() -> list[Any]:
            taken = self._coordinator.results.take()
            for event in taken:
                if not self._done.is_set():
                    self._gateway.return_result_credit(event)
            return [event.values for event in taken]

        return self._call(take)

    def processes(self) -> dict[str, int]:
        """Process ids of the task actors by name, for tests and demonstrations of failure."""
        return self._call(self._gateway.process_ids)
