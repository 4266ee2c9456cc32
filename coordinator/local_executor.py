"""The local shell: coordinator and all tasks in one thread of one process.

Messages are handed over as objects, snapshots are persisted by one background thread. It is what
`execution.target: local` runs, and the easiest place to debug a job.
"""

from __future__ import annotations

import random
import socket
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from ..common.clock import SteadyClock
from ..common.errors import JobExecutionError
from ..operators.async_io.async_loop import EventLoopThread
from ..protocol.elements import Batch, Message, StreamElement
from ..protocol.ids import Attempt, ChannelId, SubtaskId
from ..protocol.scheduling.execution_graph import ExecutionGraph, build_execution_graph
from ..protocol.task_events import CreditReturned, ResultsTaken, TaskEvent, TaskMail
from ..protocol.task_metrics import ProcessMetrics
from ..runtime.deferred_pandas import defer_pandas
from ..runtime.malloc_options import keep_freed_memory
from ..runtime.network.wire import compacted
from ..runtime.ports import TaskDeployment
from ..runtime.tasks.task import StreamTask
from ..state.storage.checkpoint_storage import CheckpointStorage
from ..telemetry import Tracer, logs
from .job_coordinator import JobCoordinator
from .spec import JobSpec

_LONGEST_PAUSE_NS = 2_000_000
ESTIMATED_RECORD_BYTES = 64
"""What a record counts for credit here, where nothing is serialised."""


class LocalExecutor:
    """Runs one job in the thread that calls `run`.

    Args:
        spec: The job.
        tracer: Where checkpoint traces go.
        storage: Checkpoint storage instead of the one in the settings.
        resources: What the job needs as long as it runs: entered by `run`, left before `wait` returns.
    """

    def __init__(
        self,
        spec: JobSpec,
        tracer: Tracer,
        storage: CheckpointStorage | None = None,
        resources: AbstractContextManager[Any] | None = None,
    ) -> None:
        self._resources = resources or nullcontext()
        self._crash: BaseException | None = None
        self._tasks: dict[SubtaskId, StreamTask] = {}
        self._attempt = Attempt(0)
        self.clock = SteadyClock()
        self._events: deque[TaskEvent] = deque()
        self._requests: deque[Callable[[], None]] = deque()
        self._wake = threading.Event()
        self._background = ThreadPoolExecutor(1, thread_name_prefix="tidegate-snapshot")
        self._new_tasks: list[StreamTask] = []
        self._ready: Callable[[str], None] | None = None
        self._graph = build_execution_graph(spec.graph)
        self._metrics_interval_ms = spec.settings.metrics_interval_ms
        self._metrics_due_ms = 0
        self.coordinator = JobCoordinator(spec, self, tracer, storage)
        self._done = threading.Event()
        self._loop_over = threading.Event()

    # ------------------------------------------------------------ driving

    def run(self) -> None:
        """Run the job until it is over; its outcome is in `coordinator.status`."""
        try:
            with self._resources:
                try:
                    self._run()
                finally:
                    # Before what runs beside the job is left: that may wait for an answer of this thread.
                    self._loop_over.set()
        except BaseException as error:
            self._crash = error
            raise
        finally:
            self._loop_over.set()
            self._done.set()
            self.coordinator.results.close()

    def _run(self) -> None:
        keep_freed_memory()
        defer_pandas()
        try:
            self.coordinator.start()
            while not self.coordinator.status.is_globally_terminal_state():
                if not self._round():
                    self._pause()
        finally:
            for task in self._tasks.values():
                task.abandon()
            # The thread may be the driver's, which works for others from now on.
            logs.enter(None)
            self._background.shutdown(wait=True)
            self.coordinator.ownership.sweep()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait in another thread for the end of `run`; false when the time is over first.

        Raises:
            BaseException: What broke `run` itself, as opposed to the job.
        """
        is_over = self._done.wait(timeout_s)
        if is_over and self._crash is not None:
            raise self._crash
        return is_over

    def call(self, request: Callable[[], Any]) -> Any:
        """Run `request` on the executor's thread, from any other thread; returns its result."""
        answer: Future[Any] = Future()

        def perform() -> None:
            try:
                answer.set_result(request())
            except Exception as error:
                answer.set_exception(error)

        self._requests.append(perform)
        self._wake.set()
        while not answer.done():
            wait([answer], timeout=0.05)
            if self._loop_over.is_set() and not answer.done():
                raise JobExecutionError("the job is over; it takes no more requests")
        return answer.result()

    def take_results(self) -> list[Any]:
        """Collected records that wait for the driver; on the executor's thread or after the end."""
        records: list[Any] = []
        for event in self.coordinator.results.take():
            records.extend(record for batch in event.values for record in batch.rows())
            task = self._tasks.get(event.subtask)
            if task is not None and event.attempt == self._attempt:
                task.put(ResultsTaken(event.size_bytes))
        return records

    def _round(self) -> bool:
        progressed = self._take_requests()
        self._wait_ns = _LONGEST_PAUSE_NS
        new, self._new_tasks = self._new_tasks, []
        for task in new:
            task.initialize()
        for task in list(self._tasks.values()):
            outcome = task.step()
            if not outcome.is_over:
                progressed |= outcome.wait_ns == 0
                self._wait_ns = min(self._wait_ns, outcome.wait_ns)
        # The coordinator's lines are none of the task's whose turn was the last.
        logs.enter(None)
        while self._events:
            progressed = True
            self.coordinator.handle(self._events.popleft())
        now_ms = self.now_ns() // 1_000_000
        if self._metrics_interval_ms and self._metrics_due_ms <= now_ms:
            self._metrics_due_ms = now_ms + self._metrics_interval_ms
            self._take_metrics(now_ms)
        if self.coordinator.next_due_ms() <= now_ms:
            self.coordinator.tick()
            progressed = True
        return progressed or bool(new)

    def _take_metrics(self, now_ms: int) -> None:
        live = {subtask: task for subtask, task in self._tasks.items() if not task.phase.is_terminal}
        metrics = {subtask: task.metrics() for subtask, task in live.items()}
        taken = ProcessMetrics(self._attempt, socket.gethostname(), 0, metrics)
        self.coordinator.measured(taken, now_ms)

    def _take_requests(self) -> bool:
        progressed = bool(self._requests)
        while self._requests:
            self._requests.popleft()()
        return progressed

    def _pause(self) -> None:
        due_ms = self.coordinator.next_due_ms() - self.now_ns() // 1_000_000
        self._wake.wait(max(0, min(due_ms * 1_000_000, self._wait_ns)) / 1e9)
        self._wake.clear()

    # ------------------------------------------------------------ CoordinatorPorts

    def now_ns(self) -> int:
        return self.clock.now_ns()

    def random_ms(self, bound_ms: int) -> int:
        return random.randrange(max(1, bound_ms))

    def post(self, action: Callable[[], None]) -> None:
        self._requests.append(action)
        self._wake.set()

    def prepare(self, graph: ExecutionGraph, ready: Callable[[str], None]) -> str:
        # One process has room for any number of subtasks.
        self._ready = ready
        self.post(self._tell_ready)
        return ""

    def _tell_ready(self) -> None:
        ready, self._ready = self._ready, None
        if ready is not None:
            ready("")

    def release(self) -> None:
        self._ready = None

    def deploy(self, graph: ExecutionGraph, deployments: Sequence[TaskDeployment]) -> None:
        self._attempt, self._graph = deployments[0].attempt, graph
        self._tasks = {
            deployment.subtask_id: StreamTask(deployment, _LocalTaskPorts(self)) for deployment in deployments
        }
        self._new_tasks = list(self._tasks.values())

    def send(self, attempt: Attempt, subtask: SubtaskId, mail: TaskMail) -> None:
        if attempt == self._attempt:
            self._tasks[subtask].put(mail)

    def stop(self, attempt: Attempt, subtasks: Sequence[SubtaskId]) -> None:
        for subtask in subtasks:
            if attempt == self._attempt:
                self._tasks[subtask].cancel()

    # ------------------------------------------------------------ for the tasks

    def report(self, event: TaskEvent) -> None:
        """Queue an event for the coordinator."""
        self._events.append(event)

    def route(self, message: Message) -> None:
        """Hand a message to the subtask at the end of its channel."""
        self._tasks[self._graph.receiver_of(message.channel)].put(message)

    def route_all(self, messages: Sequence[Message]) -> None:
        """Hand over several."""
        for message in messages:
            self.route(message)

    def return_credit(self, channel: ChannelId, size_bytes: int) -> None:
        """Give credit back to the sender of a channel."""
        if size_bytes:
            self._tasks[self._graph.sender_of(channel)].put(CreditReturned(channel, size_bytes))

    def wake(self) -> None:
        """A task has mail from another thread."""
        self._wake.set()

    def run_in_background(self, work: Callable[[], None]) -> None:
        """Run `work` on the background thread."""
        self._background.submit(work).add_done_callback(lambda _: self._wake.set())


class _LocalTaskPorts:
    """The ports of one task."""

    def __init__(self, executor: LocalExecutor) -> None:
        self._executor = executor
        self.now_ns = executor.clock.now_ns
        self.report = executor.report
        self.send = executor.route
        self.send_markers = executor.route_all
        self.run_in_background = executor.run_in_background
        self.create_event_loop = EventLoopThread
        self.wake = executor.wake

    def encode(self, elements: list[StreamElement]) -> tuple[Any, int]:
        records = sum(len(element) for element in elements if isinstance(element, Batch))
        return [compacted(each) for each in elements], max(1, records) * ESTIMATED_RECORD_BYTES

    def decode(self, payload: Any, position: int) -> tuple[list[StreamElement], int | None]:
        return payload, None

    def return_credit(self, channel: ChannelId, sequence_number: int, size_bytes: int) -> None:
        self._executor.return_credit(channel, size_bytes)
