"""The task: one subtask in one attempt, as its shell drives it. No threads, no clock of its own, no Ray.

A shell calls `step` again and again; each call does a bounded amount of work and never blocks. So a
thread, the local executor or the simulator can drive it.
"""

from __future__ import annotations

import logging
import os
import queue
from collections.abc import Callable
from typing import TypeVar

from ...common import failpoints
from ...protocol import task_events as events
from ...protocol.task_life import TaskLife, TaskLifeEvent, TaskPhase
from ...protocol.task_metrics import TaskMetrics
from ...telemetry import logs
from ..assembly import assemble, local_dirs
from ..checkpoints.barrier_arrivals import BarrierArrivals
from ..local_dirs import remove_if_empty
from ..ports import TaskDeployment, TaskPorts
from ..storage_probe import check_storage_is_shared
from .task_environment import Mail, RunAction, TaskEnvironment
from .task_failures import failure_of
from .task_loop import IDLE_NS, POLL_NS, StepOutcome, TaskLoop
from .task_measures import Activity, TaskTimes
from .task_spans import InitializeTimes, TaskSpans

logger = logging.getLogger(__name__)

__all__ = ["StepOutcome", "StreamTask", "TaskPhase"]

T = TypeVar("T")

_IDLE = StepOutcome(IDLE_NS)
_OVER = StepOutcome(0, is_over=True)


class StreamTask:
    """One subtask in one attempt."""

    def __init__(self, deployment: TaskDeployment, ports: TaskPorts) -> None:
        self._deployment = deployment
        self._ports = ports
        self._life = TaskLife()
        self._times = TaskTimes(ports.now_ns)
        self._environment = TaskEnvironment(
            deployment,
            ports,
            queue.SimpleQueue(),
            self._life,
            self._times,
            TaskSpans(deployment, ports),
            BarrierArrivals(ports, self._times),
        )
        self._uids = [node.uid for node in deployment.subtask.task.nodes]
        self._index = deployment.subtask_id.index
        self._log_context = deployment.log_context
        # There is none before `initialize` has built the operators.
        self._loop: TaskLoop | None = None

    @property
    def phase(self) -> TaskPhase:
        """What the task is doing."""
        return self._life.state

    def put(self, mail: Mail) -> None:
        """Hand over a message or a control mail; may be called from any thread."""
        self._environment.put(mail)

    def initialize(self) -> None:
        """Build the operators, restore their state and open them; reports the outcome."""
        self._guarded(self._initialize)

    def wait(self, timeout_ns: int) -> None:
        """Block the calling thread until an initialised task has mail (threaded shells only)."""
        loop = self._loop
        assert loop is not None, "a shell initialises the task first"
        try:
            mail = self._environment.mailbox.get(timeout=timeout_ns / 1e9)
        except queue.Empty:
            return
        self._times.enter(Activity.BUSY)
        self._guarded(lambda: loop.take_mail(mail))

    def step(self) -> StepOutcome:
        """Take all mail, then do one piece of work."""
        loop = self._loop
        if loop is None:
            # Mail waits for the gate; a late message of an older attempt may be among it.
            return _OVER if self._life.is_over else _IDLE
        self._times.enter(Activity.BUSY)
        outcome = self._guarded(loop.step)
        self._times.enter(loop.waiting_as)
        if outcome is None or self._life.is_over:
            return _OVER
        if outcome.wait_ns:
            loop.rest()
        return outcome

    def metrics(self, with_gauges: bool = True) -> TaskMetrics:
        """What the task has measured up to now; may be called from any thread.

        Args:
            with_gauges: Whether to call the functions' gauges, which may take long.
        """
        return TaskMetrics() if self._loop is None else self._loop.metrics(with_gauges)

    def cancel(self) -> None:
        """Stop now, on the loop's thread; reports `TaskStopped`."""
        if self._life.is_over:
            return
        self._life.handle(TaskLifeEvent.CANCEL_REQUESTED)
        self._close()
        logger.info("%s is cancelled", self._deployment.subtask.name)
        self._ports.report(events.TaskStopped(self._deployment.attempt, self._deployment.subtask_id))

    def abandon(self) -> None:
        """Release everything without a report: the shell itself ends."""
        if not self._life.is_over:
            self._life.handle(TaskLifeEvent.CANCEL_REQUESTED)
            self._close()

    def fail(self, error: BaseException) -> None:
        """End with an error, on the loop's thread; reports `TaskFailed`."""
        is_starting = self.phase is TaskPhase.CREATED
        self._life.handle(TaskLifeEvent.FAILED)
        self._close()
        # The coordinator logs it for people.
        logger.info("%s failed", self._deployment.subtask.name, exc_info=error)
        self._ports.report(failure_of(self._deployment, error, is_starting))

    def wait_for_state(self) -> bool:
        """Wait a moment for a thread that stores state before the next records; whether there was one.

        For shells whose time stands still.
        """
        loop = self._loop
        is_waiting = loop is not None and self._life.is_running and loop.is_storing()
        if is_waiting:
            self.wait(POLL_NS)
        return is_waiting

    def validate(self) -> None:
        """Raise `AssertionError` if an invariant of the task's state machines does not hold."""
        if self._loop is not None:
            self._loop.validate()

    def _initialize(self) -> None:
        deployment, now_ns = self._deployment, self._ports.now_ns
        started_ns = now_ns()
        check_storage_is_shared(deployment)
        spans = self._environment.spans
        parts = assemble(deployment, self._ports, self._take_action, spans.work)
        self._loop = loop = TaskLoop(self._environment, parts, self._finish, self.cancel)
        assembled_ns = now_ns()
        loop.restore()
        restored_ns = now_ns()
        loop.open()
        spans.initialized(InitializeTimes(started_ns, assembled_ns, restored_ns, now_ns()))
        self._life.handle(TaskLifeEvent.OPENED)
        logger.info("%s is initialised in process %d", deployment.subtask.name, os.getpid())
        self._ports.report(events.TaskInitialized(deployment.attempt, deployment.subtask_id))

    def _take_action(self, operator_uid: str, action: Callable[[], None]) -> None:
        """Put an action into the mailbox, from any thread."""
        self.put(RunAction(operator_uid, action))
        self._ports.wake()

    def _guarded(self, work: Callable[[], T]) -> T | None:
        failpoints.enter(self._uids, self._index)
        logs.enter(self._log_context)
        try:
            return work()
        except (Exception, SystemExit) as error:
            # A user function that calls sys.exit() would end the loop's thread without a word.
            self.fail(error)
            return None

    def _finish(self) -> None:
        # With the operators their functions' metrics go. A gauge that hangs must not hold up the end.
        metrics = self.metrics(with_gauges=False)
        errors = self._close()
        if errors:
            raise errors[0]
        self._life.handle(TaskLifeEvent.ENDED)
        deployment = self._deployment
        logger.info("%s has finished", deployment.subtask.name)
        self._ports.report(events.TaskFinished(deployment.attempt, deployment.subtask_id, metrics))

    def _close(self) -> list[Exception]:
        errors = [] if self._loop is None else self._loop.close()
        for path in local_dirs(self._deployment):
            remove_if_empty(path)
        return errors
