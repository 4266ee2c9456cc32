"""A task process of the simulation, and the ports its task sees."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...coordinator.deployment.slots import process_key
from ...operators.async_io.async_loop import TaskEventLoop
from ...protocol.checkpoints.checkpoint_events import SubtaskDeclined
from ...protocol.elements import (
    Batch,
    CancelCheckpointMarker,
    CheckpointBarrier,
    Message,
    SnapshotKind,
    StreamElement,
)
from ...protocol.ids import Attempt, ChannelId, SubtaskId
from ...protocol.task_events import TaskEvent
from ...runtime.ports import TaskDeployment
from ...runtime.tasks.task import StepOutcome, StreamTask, TaskPhase
from .external_system import external_system
from .simulated_credit import SimulatedCredit
from .simulated_event_loop import simulated_event_loop

if TYPE_CHECKING:
    from .simulated_coordinator import SimulatedCoordinator

RECORD_BYTES = 64
ELEMENT_BYTES = 2
NEVER_NS = 1 << 62


@dataclass(eq=False)
class Payload:
    """The content of one message. `is_taken`: its receiver has looked at what is in it."""

    elements: list[StreamElement]
    size_bytes: int
    is_marker: bool = False
    is_taken: bool = False


class ProcessDied(BaseException):
    """Raised in the middle of what a process does: nothing after it happens."""


@dataclass(eq=False)
class Process:
    """One subtask in one attempt, and what it is to the process that it runs in.

    Those with one `key` run in one process and die together. A dead one may have messages and background work
    left behind.

    `slowness` stretches the time of its steps. It wants to step again at `wakes_ns`, and somebody looks
    after that at `alarm_ns`.
    """

    owner: SimulatedCoordinator
    subtask: SubtaskId
    key: str
    attempt: Attempt
    slowness: int
    task: StreamTask = field(init=False)
    credit: SimulatedCredit = field(init=False)
    is_alive: bool = True
    is_stepping: bool = False
    is_storing: bool = False
    wakes_ns: int = NEVER_NS
    alarm_ns: int = NEVER_NS
    background: deque[Callable[[], None]] = field(default_factory=deque)
    reports: int = 0
    numbered: int = 0
    """How many `Numbered` the coordinator has sent to it."""
    refused: int = -1
    given_up: int = -1
    """The newest checkpoint whose end the coordinator told the task."""
    decided: int = -1
    """Barriers have come that end the alignment of this checkpoint and of older ones."""
    stopped: dict[ChannelId, int] = field(default_factory=dict)
    """By channel the stop whose barrier was sent: nothing may follow, unless that is given up."""
    cancelled: list[int] = field(default_factory=list)
    """Checkpoints whose cancel marker the current step takes up."""

    @staticmethod
    def of(owner: SimulatedCoordinator, deployment: TaskDeployment, slowness: int) -> Process:
        """A process with the task to be deployed in it."""
        key = process_key(deployment.subtask)
        process = Process(owner, deployment.subtask_id, key, deployment.attempt, slowness)
        process.task = StreamTask(deployment, _TaskPorts(process))
        process.credit = SimulatedCredit(process, deployment.settings.channel_credit_bytes)
        return process

    def after(self, outcome: StepOutcome) -> int | None:
        """The task has taken a step; nanoseconds until it wants to take another one, `None` for never."""
        if outcome.is_over:
            self.credit.give_all()
            return None
        return self.credit.rest_ns(outcome.wait_ns) if outcome.wait_ns else 0

    def gets(self, message: Message) -> None:
        """A message arrives: a barrier that may overtake ends older alignments before its turn comes."""
        barrier = message.announces
        if isinstance(barrier, CheckpointBarrier) and barrier.aligned_timeout_ms is not None:
            self.decided = max(self.decided, barrier.checkpoint_id - 1)

    def takes_up(self, element: StreamElement) -> None:
        """The task starts on an element of a message."""
        if isinstance(element, CheckpointBarrier):
            # Who lets barriers overtake may pass one on and refuse its checkpoint afterwards.
            is_decided = element.aligned_timeout_ms is not None
            self.decided = max(self.decided, element.checkpoint_id - (0 if is_decided else 1))
        elif isinstance(element, CancelCheckpointMarker):
            self.cancelled.append(element.checkpoint_id)

    def check(self) -> None:
        """After a step: who took a cancel marker up has refused its checkpoint, or knew of its end."""
        self.task.validate()
        for checkpoint_id in self.cancelled:
            is_over = checkpoint_id <= max(self.refused, self.given_up, self.decided)
            assert is_over or not self.is_running, f"{self.subtask} ignores the end of {checkpoint_id}"
        self.cancelled.clear()

    def sends(self, message: Message) -> None:
        """The task sends a message."""
        announced, channel = message.announces, message.channel
        if isinstance(announced, CheckpointBarrier) and announced.kind is SnapshotKind.STOP:
            self.stopped[channel] = announced.checkpoint_id
        elif announced is None and channel in self.stopped:
            stop = self.stopped[channel]
            external_system().goes_on_behind(self.owner.spec.job_id, stop, f"{self.subtask} sends something")

    @property
    def is_running(self) -> bool:
        """Whether the task processes what it takes up."""
        return self.task.phase is TaskPhase.RUNNING

    def die(self) -> None:
        """The process ends without a word."""
        self.owner.process_died(self)


class _TaskPorts:
    """The `TaskPorts` of one simulated process; each call that is heard outside may be its last."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._shell = process.owner.shell

    def now_ns(self) -> int:
        return self._shell.scheduler.now_ns

    def encode(self, elements: list[StreamElement]) -> tuple[Any, int]:
        records = sum(len(element) for element in elements if isinstance(element, Batch))
        payload = Payload(elements, records * RECORD_BYTES + len(elements) * ELEMENT_BYTES)
        return payload, payload.size_bytes

    def decode(self, payload: Any, position: int) -> tuple[list[StreamElement], int | None]:
        payload.is_taken = True
        element, end = payload.elements[position], position + 1
        self._process.takes_up(element)
        return [element], end if end < len(payload.elements) else None

    def send(self, message: Message) -> None:
        self._shell.point()
        self._process.sends(message)
        self._shell.network.send(self._process, message)

    def send_markers(self, messages: Sequence[Message]) -> None:
        for message in messages:
            self._shell.point()
            self._process.sends(message)
            self._shell.network.send_marker(self._process, message)

    def return_credit(self, channel: ChannelId, sequence_number: int, size_bytes: int) -> None:
        self._shell.point()
        self._shell.network.used_up((self._process.attempt, channel, sequence_number))
        if size_bytes:
            self._process.credit.consumed(channel, size_bytes)

    def report(self, event: TaskEvent) -> None:
        self._shell.point()
        if isinstance(event, SubtaskDeclined):
            self._process.refused = max(self._process.refused, event.checkpoint_id)
        self._shell.network.report(self._process, event)

    def run_in_background(self, work: Callable[[], None]) -> None:
        self._shell.point()
        self._process.owner.steps.run_in_background(self._process, work)

    def create_event_loop(self, name: str) -> TaskEventLoop:
        return simulated_event_loop(self._process)

    def wake(self) -> None:
        self._process.owner.steps.step_soon(self._process)
