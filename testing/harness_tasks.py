"""The tasks of a harness: real ones, driven by hand in one thread, with a clock that stands still."""

from __future__ import annotations

import pickle
import sys
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, TypeVar

from ..common.errors import CheckpointStorageError, StateError, TidegateError
from ..operators.async_io.async_loop import TaskEventLoop
from ..operators.keyed.key_hashing import key_groups_of
from ..protocol import task_events as events
from ..protocol.checkpoints.checkpoint_events import SubtaskAcknowledged, SubtaskDeclined
from ..protocol.checkpoints.handles import OperatorSnapshot
from ..protocol.elements import (
    Announced,
    Batch,
    CheckpointBarrier,
    Message,
    StreamElement,
    Watermark,
    WatermarkStatus,
)
from ..protocol.ids import Attempt, ChannelId, CheckpointId, JobId, SubtaskId
from ..protocol.scheduling.execution_graph import ExecutionGraph, Subtask
from ..protocol.watermarks import WatermarkValve
from ..runtime.partitioners import partitioner
from ..runtime.ports import TaskDeployment, TaskSettings
from ..runtime.tasks.task import StreamTask
from .virtual_event_loop import VirtualEventLoop

_ATTEMPT = Attempt(1)
_MILLISECOND = 1_000_000
_NEVER_MS = 1 << 40
_CREDIT_BYTES = 1 << 40
"""Nobody waits for credit in a harness: what goes in comes out within one call."""

E = TypeVar("E")


def harness_settings(**settings: Any) -> TaskSettings:
    """The settings of a harness's tasks: every record leaves at once."""
    return TaskSettings(
        is_checkpointing=True, buffer_timeout_ms=0, channel_credit_bytes=_CREDIT_BYTES, **settings
    )


@dataclass
class Captured:
    """What left the tasks through one stream."""

    records: list[tuple[Any, int | None]] = field(default_factory=list)
    """Values and timestamps."""
    elements: list[StreamElement] = field(default_factory=list)
    """Watermarks, changes of status and barriers, as the stream reached them as a whole."""


class HarnessTasks:
    """Every subtask between the inputs and the captured outputs of a graph.

    Args:
        graph: The whole graph, inputs and captures included; these do not run.
        inputs: Tasks whose part the harness plays, in the order of their numbers.
        captures: Tasks whose input is kept, by name.
        settings: Of the tasks.
        restored: What each subtask restores, or `None` to start afresh.
        checkpoint_id: Of the snapshot it comes from.
    """

    def __init__(
        self,
        graph: ExecutionGraph,
        inputs: Sequence[str],
        captures: Mapping[str, str],
        settings: TaskSettings,
        restored: Mapping[SubtaskId, Mapping[str, OperatorSnapshot]] | None,
        checkpoint_id: CheckpointId | None,
    ) -> None:
        self.graph = graph
        self.now_ns = 0
        self.captured = {name: Captured() for name in captures.values()}
        self.background: deque[Callable[[], None]] = deque()
        self.reports: list[events.TaskEvent] = []
        self._messages: deque[Message] = deque()
        self._failure: BaseException | None = None
        self._captures = {
            subtask_id: _Capture(subtask, self.captured[captures[subtask_id.task_id]])
            for subtask_id, subtask in graph.subtasks.items()
            if subtask_id.task_id in captures
        }
        self._feeds = [_Feed(graph.subtasks[SubtaskId(task_id, 0)], self) for task_id in inputs]
        self._runs: dict[SubtaskId, _Run] = {}
        for subtask_id, subtask in graph.subtasks.items():
            if subtask_id.task_id not in inputs and subtask_id.task_id not in captures:
                state = None if restored is None else restored.get(subtask_id)
                self._runs[subtask_id] = _Run(self, subtask, settings, state, checkpoint_id)

    def start(self) -> None:
        """Initialise all tasks and begin to process."""
        for run in self._runs.values():
            run.task.initialize()
            self._check()
        self.mail(events.StartRunning())

    # ------------------------------------------------------------ what goes in

    def feed(self, input_number: int, element: StreamElement) -> None:
        """Send an element into an input, and work until there is nothing left to do."""
        self._feeds[input_number].send(element)
        self.settle()

    def feed_all(self, element: StreamElement) -> None:
        """Send a control element into every input, and work until there is nothing left to do."""
        for each in self._feeds:
            each.send(element)
        self.settle()

    def mail(self, mail: Any) -> None:
        """Send a mail to every task, and work until there is nothing left to do."""
        for run in self._runs.values():
            run.task.put(mail)
        self.settle()

    def advance(self, milliseconds: int) -> None:
        """Let time pass, stopping whenever a task wants to do something at a certain time."""
        until_ns = self.now_ns + milliseconds * _MILLISECOND
        self.settle()
        while self.now_ns < until_ns:
            due_ns = min(run.due_ns for run in self._runs.values())
            self.now_ns = min(max(due_ns, self.now_ns + 1), until_ns)
            self.settle()

    # ------------------------------------------------------------ work

    def settle(self) -> None:
        """Work until every task waits for something."""
        is_busy = True
        while is_busy:
            is_busy = False
            while self._messages:
                self._deliver(self._messages.popleft())
            for run in self._runs.values():
                is_busy = run.work() or is_busy
                self._check()
            while self.background:
                self.background.popleft()()
                is_busy = True
            is_busy = is_busy or bool(self._messages)
            # LMDB is written behind a snapshot, in real time.
            is_busy = is_busy or any(run.task.wait_for_state() for run in self._runs.values())

    def _deliver(self, message: Message) -> None:
        receiver = self.graph.receiver_of(message.channel)
        capture = self._captures.get(receiver)
        if capture is None:
            self._runs[receiver].task.put(message)
        else:
            capture.take(message)
            self.return_credit(message.channel, message.size_bytes)

    def send(self, message: Message) -> None:
        """Carry a message."""
        self._messages.append(message)

    def return_credit(self, channel: ChannelId, size_bytes: int) -> None:
        """Tell the sender of a channel that a message of it was consumed."""
        run = self._runs.get(self.graph.sender_of(channel))
        if run is not None and size_bytes:
            run.task.put(events.CreditReturned(channel, size_bytes))

    def report(self, event: events.TaskEvent) -> None:
        """Keep what a task reports."""
        if isinstance(event, events.TaskFailed):
            # A task reports from where it handles the error, which says more than the report.
            self._failure = sys.exc_info()[1] or TidegateError(event.cause)
        self.reports.append(event)

    def _check(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    # ------------------------------------------------------------ questions

    def taken(self, kind: type[E]) -> list[E]:
        """The reports of one kind since the last call, which forgets all others too."""
        found: list[E] = [event for event in self.reports if isinstance(event, kind)]
        self.reports.clear()
        return found

    def snapshots(self, checkpoint_id: CheckpointId) -> dict[SubtaskId, Mapping[str, OperatorSnapshot]]:
        """What the tasks stored for a checkpoint, by subtask and operator uid.

        Raises:
            CheckpointStorageError: One of them could not.
        """
        reports, stored = list(self.reports), {}
        self.reports.clear()
        for event in reports:
            if isinstance(event, SubtaskDeclined) and event.checkpoint_id == checkpoint_id:
                raise CheckpointStorageError(f"checkpoint {checkpoint_id} failed: {event.cause}")
            if isinstance(event, SubtaskAcknowledged) and event.checkpoint_id == checkpoint_id:
                stored[event.subtask] = event.acknowledgement.snapshots
        missing = self._runs.keys() - stored.keys()
        if missing:
            names = ", ".join(sorted(map(str, missing)))
            raise StateError(f"checkpoint {checkpoint_id} is not complete: no snapshot of {names}")
        return stored

    def query(self, state_name: str, key: Any, namespace: Any) -> Any:
        """The keyed state of a key, from the first operator that has a state of this name."""
        problems = []
        for subtask_id, run in self._runs.items():
            for node in run.subtask.task.nodes:
                group = int(key_groups_of([key], node.max_parallelism)[0])
                if group * node.parallelism // node.max_parallelism != subtask_id.index:
                    continue
                run.task.put(events.QueryState(0, node.uid, state_name, key, namespace))
                self.settle()
                (answer,) = self.taken(events.StateQueried)
                if answer.error is None:
                    return pickle.loads(answer.value)
                problems.append(answer.error)
        raise StateError("; ".join(problems) or "there is no operator that could have state")

    def abandon(self) -> None:
        """Release everything."""
        for run in self._runs.values():
            run.abandon()


class _Run:
    """One task and its `TaskPorts`."""

    def __init__(
        self,
        tasks: HarnessTasks,
        subtask: Subtask,
        settings: TaskSettings,
        restored: Mapping[str, OperatorSnapshot] | None,
        checkpoint_id: CheckpointId | None,
    ) -> None:
        self.subtask = subtask
        self.due_ns = 0
        self._tasks = tasks
        self._event_loop: VirtualEventLoop | None = None
        self._is_loop_awake = False
        self._loop_due_ns = _NEVER_MS * _MILLISECOND
        self.send = tasks.send
        self.report = tasks.report
        self.run_in_background = tasks.background.append
        self.task = StreamTask(
            TaskDeployment(
                JobId("harness"),
                _ATTEMPT,
                0,
                subtask,
                settings,
                restored,
                restored_checkpoint_id=checkpoint_id,
            ),
            self,
        )

    def work(self) -> bool:
        """Do what there is to do now; whether there was anything."""
        was_busy = False
        outcome = self.task.step()
        while not outcome.is_over and outcome.wait_ns == 0:
            was_busy = True
            outcome = self.task.step()
        wait_ns = _NEVER_MS * _MILLISECOND if outcome.is_over else outcome.wait_ns
        self.due_ns = self._tasks.now_ns + wait_ns
        return self._pump() or was_busy

    def _pump(self) -> bool:
        """Let the event loop run if it wants to."""
        now_ns = self._tasks.now_ns
        was_busy = self._is_loop_awake or self._loop_due_ns <= now_ns
        if self._event_loop is not None and was_busy:
            self._is_loop_awake = False
            wait_ns = self._event_loop.pump()
            self._loop_due_ns = now_ns + (_NEVER_MS * _MILLISECOND if wait_ns is None else max(1, wait_ns))
        self.due_ns = min(self.due_ns, self._loop_due_ns)
        return was_busy

    def abandon(self) -> None:
        """End the task without a word."""
        self.task.abandon()
        self._loop_due_ns, self._is_loop_awake = _NEVER_MS * _MILLISECOND, False

    # ------------------------------------------------------------ TaskPorts

    def now_ns(self) -> int:
        return self._tasks.now_ns

    def encode(self, elements: list[StreamElement]) -> tuple[Any, int]:
        return elements, 1

    def decode(self, payload: Any, position: int) -> tuple[list[StreamElement], int | None]:
        return payload, None

    def send_markers(self, messages: Sequence[Message]) -> None:
        for message in messages:
            self._tasks.send(message)

    def return_credit(self, channel: ChannelId, sequence_number: int, size_bytes: int) -> None:
        self._tasks.return_credit(channel, size_bytes)

    def create_event_loop(self, name: str) -> TaskEventLoop:
        self._event_loop = VirtualEventLoop(self.now_ns, self._wake_loop)
        return self._event_loop

    def wake(self) -> None:
        """Whoever puts mail here lets the task work afterwards."""

    def _wake_loop(self) -> None:
        self._is_loop_awake = True


class _Feed:
    """The part of an upstream task that the harness plays."""

    def __init__(self, subtask: Subtask, tasks: HarnessTasks) -> None:
        self._channels = {
            channel: _FeedChannel(channel, tasks) for out in subtask.outputs for channel in out.channels
        }
        self._emit = [
            partitioner(out, [self._channels[channel] for channel in out.channels], "input")  # type: ignore[misc]
            for out in subtask.outputs
        ]

    def send(self, element: StreamElement) -> None:
        """Send a batch where its records belong, a control element everywhere."""
        if isinstance(element, Batch):
            for emit in self._emit:
                emit(element)
        else:
            for channel in self._channels.values():
                channel.add(element)


class _FeedChannel:
    """One channel into the tasks; what a partitioner adds leaves at once."""

    def __init__(self, channel: ChannelId, tasks: HarnessTasks) -> None:
        self._channel = channel
        self._tasks = tasks
        self._sent = 0

    def add_batch(self, batch: Batch) -> None:
        """Send a batch."""
        self.add(batch)

    def add(self, element: StreamElement) -> None:
        """Send an element."""
        announced = element if isinstance(element, Announced) else None
        self._tasks.send(Message(_ATTEMPT, self._channel, self._sent, [element], 0, announced))
        self._sent += 1


class _Capture:
    """Takes what arrives at a task that is not there."""

    def __init__(self, subtask: Subtask, captured: Captured) -> None:
        self._captured = captured
        self._indexes = {channel.channel: index for index, channel in enumerate(subtask.inputs)}
        self._event_time = WatermarkValve(len(subtask.inputs))
        self._barriers: Counter[int] = Counter()

    def take(self, message: Message) -> None:
        """Keep what a message holds."""
        for element in message.elements:
            if isinstance(element, Batch):
                values = element.rows()
                times = repeat(None) if element.timestamps is None else element.timestamps
                self._captured.records += zip(values, times)
            elif isinstance(element, Watermark):
                index = self._indexes[message.channel]
                self._captured.elements += self._event_time.on_watermark(index, element.timestamp_ms)
            elif isinstance(element, WatermarkStatus):
                index = self._indexes[message.channel]
                self._captured.elements += self._event_time.on_status(index, element.is_idle)
            elif isinstance(element, CheckpointBarrier):
                self._barriers[element.checkpoint_id] += 1
                if self._barriers[element.checkpoint_id] == len(self._indexes):
                    self._captured.elements.append(element)
