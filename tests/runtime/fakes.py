"""A task's surroundings in memory: its ports record what it says, and time stands still until told."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import cloudpickle
from tidegate.operators.async_io.async_loop import EventLoopThread, TaskEventLoop
from tidegate.operators.base import StreamOperator
from tidegate.protocol import task_events as events
from tidegate.protocol.checkpoints.channel_state import RecoveredChannel
from tidegate.protocol.checkpoints.handles import OperatorSnapshot
from tidegate.protocol.elements import (
    Batch,
    CancelCheckpointMarker,
    CheckpointBarrier,
    EndOfInput,
    Message,
    SnapshotKind,
    StreamElement,
)
from tidegate.protocol.ids import Attempt, ChannelId, CheckpointId, JobId, SubtaskId
from tidegate.protocol.scheduling.execution_graph import Subtask, build_execution_graph
from tidegate.protocol.scheduling.partitioning import Partitioning
from tidegate.protocol.scheduling.plan import StreamEdge, StreamGraph, StreamNode, build_job_graph
from tidegate.runtime.ports import TaskDeployment, TaskSettings
from tidegate.runtime.tasks.task import StreamTask
from tidegate.state.live_backends import HashMapStateBackend
from tidegate.state.storage.inline_storage import InlineStorage
from tidegate.state.storage.memory_storage import MemoryCheckpointStorage

ATTEMPT = Attempt(3)
RECORD_BYTES = 10
"""What a record counts for credit here; a control element counts 1."""

ANNOUNCED = (CheckpointBarrier, CancelCheckpointMarker, EndOfInput)

E = TypeVar("E")


class FakePorts:
    """The `TaskPorts` of one task."""

    def __init__(self) -> None:
        self.time_ns = 0
        self.sent: list[Message] = []
        self.credits: list[tuple[ChannelId, int, int]] = []
        self.decoded: list[StreamElement] = []
        self.reports: list[events.TaskEvent] = []
        self.background: list[Callable[[], None]] = []

    def now_ns(self) -> int:
        return self.time_ns

    def encode(self, elements: list[StreamElement]) -> tuple[Any, int]:
        sizes = (len(e) * RECORD_BYTES if isinstance(e, Batch) else 1 for e in elements)
        return tuple(elements), sum(sizes)

    def decode(self, payload: Any, position: int) -> tuple[list[StreamElement], int | None]:
        self.decoded.extend(payload[position : position + 1])
        return [payload[position]], position + 1 if position + 1 < len(payload) else None

    def send(self, message: Message) -> None:
        self.sent.append(message)

    def send_markers(self, messages: Sequence[Message]) -> None:
        self.sent.extend(messages)

    def return_credit(self, channel: ChannelId, sequence_number: int, size_bytes: int) -> None:
        self.credits.append((channel, sequence_number, size_bytes))

    def report(self, event: events.TaskEvent) -> None:
        self.reports.append(event)

    def run_in_background(self, work: Callable[[], None]) -> None:
        self.background.append(work)

    def create_event_loop(self, name: str) -> TaskEventLoop:
        return EventLoopThread(name)

    def wake(self) -> None:
        """Tests step the task themselves."""

    # ------------------------------------------------------------ for the tests

    def pass_ms(self, milliseconds: int) -> None:
        """Let time pass."""
        self.time_ns += milliseconds * 1_000_000

    def run_background(self) -> None:
        """Perform what waits for the background thread."""
        waiting, self.background = self.background, []
        for work in waiting:
            work()

    def elements(self, downstream_index: int = 0) -> list[StreamElement]:
        """Everything sent to one downstream subtask, in order."""
        messages = [m for m in self.sent if m.channel.downstream_index == downstream_index]
        assert [m.sequence_number for m in messages] == list(range(len(messages)))
        return [element for message in messages for element in message.elements]

    def records(self, downstream_index: int = 0) -> list[Any]:
        """The records among them."""
        batches = (e for e in self.elements(downstream_index) if isinstance(e, Batch))
        return [record for batch in batches for record in batch.values]

    def reported(self, kind: type[E]) -> list[E]:
        """The reports of one kind."""
        return [event for event in self.reports if isinstance(event, kind)]


def task_settings(**changed: Any) -> TaskSettings:
    settings = TaskSettings(
        state_backend=HashMapStateBackend(),
        storage=InlineStorage(MemoryCheckpointStorage(), 20 << 10),
        local_dir="/nonexistent/tidegate",
        is_checkpointing=True,
        batch_size=100,
        buffer_timeout_ms=50,
        channel_credit_bytes=1_000,
    )
    return replace(settings, **changed)


def subtask_of(
    operators: list[StreamOperator],
    channels: int = 1,
    downstream: int = 1,
    partitioning: Partitioning = Partitioning.REBALANCE,
    key_selector: Callable[[Any], Any] | None = None,
    upstream: Partitioning = Partitioning.REBALANCE,
) -> Subtask:
    """A subtask with a chain of operators, so many input channels and so many downstream subtasks.

    Without channels the first operator is a source; without downstream the last is a sink.
    """
    graph = StreamGraph("job")
    first, last = 10, 10 + len(operators) - 1
    for number, operator in enumerate(operators, start=first):
        name = type(operator).__name__
        is_source = channels == 0 and number == first
        pickled = cloudpickle.dumps(operator)
        graph.nodes[number] = StreamNode(number, name, f"uid-{number}", pickled, 1, 128, is_source=is_source)
        if number > first:
            graph.edges.append(StreamEdge(number, number - 1, number, Partitioning.FORWARD))
    if channels:
        graph.nodes[1] = StreamNode(1, "upstream", "upstream", b"", channels, 128, is_source=True)
        graph.edges.append(StreamEdge(1, 1, first, upstream))
    if downstream:
        graph.nodes[99] = StreamNode(99, "downstream", "downstream", b"", downstream, 128)
        selector = cloudpickle.dumps(key_selector) if key_selector is not None else None
        graph.edges.append(StreamEdge(99, last, 99, partitioning, key_selector=selector))
    execution = build_execution_graph(build_job_graph(graph))
    return execution.subtasks[SubtaskId(f"task-{first}", 0)]


class TaskUnderTest:
    """A `StreamTask`, its fake ports, and short words for what happens to it."""

    def __init__(
        self,
        subtask: Subtask,
        restored: Mapping[str, OperatorSnapshot] | None = None,
        attempt_number: int = 0,
        recovered: tuple[RecoveredChannel, ...] = (),
        **settings: Any,
    ) -> None:
        self.ports = FakePorts()
        self.subtask = subtask
        deployment = TaskDeployment(
            JobId("job"),
            ATTEMPT,
            attempt_number,
            subtask,
            task_settings(**settings),
            restored,
            recovered=recovered,
        )
        self.task = StreamTask(deployment, self.ports)
        self._numbers: dict[int, int] = {}

    def start(self) -> TaskUnderTest:
        """Initialise and begin to process."""
        self.task.initialize()
        self.put(events.StartRunning())
        return self

    def put(self, *mails: Any) -> None:
        """Mail, then work until there is nothing left to do."""
        for mail in mails:
            self.task.put(mail)
        self.run()

    def run(self) -> None:
        """Step until the task has to wait or is over."""
        for _ in range(1_000):
            outcome = self.task.step()
            if outcome.is_over or outcome.wait_ns:
                return
        raise AssertionError("the task never comes to rest")

    def receive(self, *elements: StreamElement, channel: int = 0) -> None:
        """These elements arrive on a channel and are worked off; what is announced has its own message."""
        groups: list[list[StreamElement]] = [[]]
        for element in elements:
            if isinstance(element, ANNOUNCED):
                groups += [[element], []]
            else:
                groups[-1].append(element)
        self.put(*(self.message(*group, channel=channel) for group in groups if group))

    def message(self, *elements: StreamElement, channel: int = 0) -> Message:
        """The next message of a channel."""
        number = self._numbers.get(channel, 0)
        self._numbers[channel] = number + 1
        payload, size_bytes = self.ports.encode(list(elements))
        announces = elements[0] if isinstance(elements[0], ANNOUNCED) else None
        return Message(ATTEMPT, self.subtask.inputs[channel].channel, number, payload, size_bytes, announces)


def barrier(checkpoint_id: int, kind: SnapshotKind = SnapshotKind.CHECKPOINT) -> CheckpointBarrier:
    return CheckpointBarrier(CheckpointId(checkpoint_id), 0, kind)
