"""What the coordinator asks of a task: checkpoints, the end of its source, events for its operators."""

from __future__ import annotations

from collections import deque
from typing import Protocol

from ...common import failpoints
from ...operators.chain import OperatorChain
from ...protocol import task_events as events
from ...protocol.checkpoints.alignment import CheckpointGivenUp, CheckpointTriggered
from ...protocol.elements import SnapshotKind
from ...protocol.task_life import TaskPhase
from ...telemetry import logs
from ..checkpoints.snapshots import Snapshotter
from ..checkpoints.task_alignment import TaskAlignment
from .task_environment import TaskEnvironment

ControlMail = (
    events.TriggerCheckpoint
    | events.EndSource
    | events.CheckpointCompleted
    | events.CheckpointAborted
    | events.ToOperator
)


class LoopPort(Protocol):
    """What controls do to the task's loop."""

    def resumed(self) -> None:
        """The task runs, or runs again."""

    def end_source(self) -> None:
        """End the task's source as if it had no more records."""

    def finish(self) -> None:
        """End the task."""


class TaskControls:
    """The controls of one task, performed in the order in which they came.

    Args:
        environment: What the parts of the task share.
        chain: Its operators.
        alignment: Its barriers.
        snapshots: Its snapshots.
        loop: Its loop.
    """

    def __init__(
        self,
        environment: TaskEnvironment,
        chain: OperatorChain,
        alignment: TaskAlignment,
        snapshots: Snapshotter,
        loop: LoopPort,
    ) -> None:
        self._environment = environment
        self._life = environment.life
        self._chain = chain
        self._alignment = alignment
        self._snapshots = snapshots
        self._loop = loop
        self._waiting: deque[ControlMail] = deque()
        # Only what overtook the start is kept before it.
        self._early: list[events.TriggerCheckpoint | events.EndSource] = []

    @property
    def is_waiting(self) -> bool:
        """Whether some are not performed yet."""
        return bool(self._waiting)

    def put(self, mail: ControlMail) -> None:
        """Take one; `StartRunning` may come after it, since Ray promises no order between two calls."""
        phase = self._life.state
        if phase is TaskPhase.INITIALIZED and isinstance(mail, events.TriggerCheckpoint | events.EndSource):
            self._early.append(mail)
        elif phase in (TaskPhase.RUNNING, TaskPhase.COMMITTING, TaskPhase.STOPPING):
            self._waiting.append(mail)
            self.perform()

    def started(self) -> None:
        """The task runs."""
        early, self._early = self._early, []
        self._waiting.extend(early)
        self.perform()

    def perform(self) -> None:
        """In order, and only while the source stands still: a thread of its own may have to stop first.

        No barrier comes between the timers that a watermark made due.
        """
        source = self._chain.source
        while (
            self._waiting
            and not self._life.is_over
            and not self._chain.is_advancing
            and (source is None or source.try_pause())
        ):
            try:
                self._perform(self._waiting.popleft())
            finally:
                # While the task stops it takes nothing from the source, which must not begin what it
                # could then not end.
                if source is not None and self._life.state is not TaskPhase.STOPPING:
                    source.resume()

    def _perform(self, mail: ControlMail) -> None:
        if isinstance(mail, events.TriggerCheckpoint):
            self._trigger(mail)
        elif isinstance(mail, events.EndSource):
            if self._life.source_ends():
                self._loop.resumed()
            self._loop.end_source()
        elif isinstance(mail, events.ToOperator):
            self._chain.handle_coordinator_event(mail.operator_uid, mail.event)
        elif isinstance(mail, events.CheckpointCompleted):
            self._complete(mail)
        else:
            if self._life.checkpoint_given_up(mail.checkpoint_id):
                self._loop.resumed()
            self._alignment.handle(CheckpointGivenUp(mail.checkpoint_id))
            self._chain.notify_checkpoint_aborted(mail.checkpoint_id)

    def _trigger(self, mail: events.TriggerCheckpoint) -> None:
        barrier = mail.barrier
        if barrier.kind is not SnapshotKind.FINAL and self._life.job_continues(barrier.checkpoint_id):
            self._loop.resumed()
        self._alignment.handle(CheckpointTriggered(barrier))

    def _complete(self, mail: events.CheckpointCompleted) -> None:
        failpoints.reach("notify")
        environment = self._environment
        started_ns = environment.ports.now_ns()
        with logs.entered(environment.deployment.log_context.within(mail.trace_context)):
            self._snapshots.confirmed(mail.checkpoint_id)
            self._chain.notify_checkpoint_complete(mail.checkpoint_id)
        environment.spans.notified(mail.checkpoint_id, mail.trace_context, started_ns)
        if self._life.ends_with(mail.checkpoint_id):
            self._loop.finish()
