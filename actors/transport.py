"""Carries what a task sends between Ray actors: markers and reports as actor messages, all else directly.

User objects are pickled here by the C pickler; Ray and the connections only see bytes.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import ray

from ..common.clock import SteadyClock
from ..common.errors import first_line
from ..operators.async_io.async_loop import EventLoopThread, TaskEventLoop
from ..protocol.channels.credit_returns import CreditReturns
from ..protocol.elements import Message, StreamElement
from ..protocol.ids import Attempt, ChannelId, SubtaskId
from ..protocol.task_events import SendFailed, TaskEvent
from ..runtime.network.records_network import AttemptNetwork
from ..runtime.network.wire import decode_elements, decode_part, encode_elements, encode_message
from ..telemetry.logs import LogContext, LogSettings, ProcessLog


class RayTaskPorts:
    """The `TaskPorts` of one subtask in a Ray actor.

    Args:
        subtask: The subtask these ports belong to.
        attempt: Its attempt.
        network: Carries messages to the other subtasks of the attempt.
        coordinator: The coordinator's actor.
        credit_bytes: The credit of each channel.
        mail: Puts a mail into the task's mailbox, from any thread.
    """

    def __init__(
        self,
        subtask: SubtaskId,
        attempt: Attempt,
        network: AttemptNetwork,
        coordinator: Any,
        credit_bytes: int,
        mail: Callable[[SendFailed], None],
    ) -> None:
        self._subtask = subtask
        self._attempt = attempt
        self._network = network
        self._coordinator = coordinator
        self._returns = CreditReturns(credit_bytes)
        self._mail = mail
        self.reports = 0
        """How many reports were sent."""
        self._background = ThreadPoolExecutor(1, thread_name_prefix="tidegate-snapshot")
        self.now_ns = SteadyClock().now_ns

    # ------------------------------------------------------------ messages

    def encode(self, elements: list[StreamElement]) -> tuple[Any, int]:
        payload = encode_message(elements)
        return payload, len(payload)

    def decode(self, payload: Any, position: int) -> tuple[list[StreamElement], int | None]:
        return decode_part(payload, position)

    def send(self, message: Message) -> None:
        self._network.send(message)

    def send_markers(self, messages: Sequence[Message]) -> None:
        for actor, mine in self._network.by_process(messages):
            first = mine[0][1]
            # One argument of bytes: Ray's own pickler takes 80 µs longer for the objects.
            reference = actor.markers.remote(pickle.dumps(mine, protocol=5))
            reference.future().add_done_callback(self._reports_failure(first.channel, first.sequence_number))

    def _reports_failure(self, channel: ChannelId, number: int) -> Callable[[Future[Any]], None]:
        def answered(future: Future[Any]) -> None:
            error = future.exception()
            if error is not None:
                self._mail(SendFailed(channel, number, first_line(error)))

        return answered

    def return_credit(self, channel: ChannelId, sequence_number: int, size_bytes: int) -> None:
        if not size_bytes:
            return
        now_bytes = self._returns.consumed(channel, size_bytes, self.now_ns())
        if now_bytes:
            self._network.give_credit({channel: now_bytes})

    def rest_ns(self, wait_ns: int) -> int:
        """The task has nothing to do: give back the credit that is due.

        Args:
            wait_ns: How long the task would wait.

        Returns:
            How long it may wait until credit is due, at most `wait_ns`.
        """
        due, wait_ns = self._returns.rest(wait_ns, self.now_ns())
        if due:
            self._network.give_credit(due)
        return wait_ns

    # ------------------------------------------------------------ everything else

    def report(self, event: TaskEvent) -> None:
        number, self.reports = self.reports, self.reports + 1
        self._coordinator.task_event.remote(self._subtask, self._attempt, number, encode_event(event))

    def run_in_background(self, work: Callable[[], None]) -> None:
        self._background.submit(work)

    def create_event_loop(self, name: str) -> TaskEventLoop:
        return EventLoopThread(name)

    def wake(self) -> None:
        """The task's thread waits for mail, and nothing else."""

    def close(self) -> None:
        """Give all credit back, and end the background thread when it is idle."""
        held = self._returns.take_all()
        if held:
            self._network.give_credit(held)
        self._background.shutdown(wait=False)

    def wait_for_uploads(self) -> None:
        """Block until the background thread has ended, after the task."""
        self._background.shutdown(wait=True)


def open_ray_log(settings: LogSettings, role: str, context: LogContext) -> None:
    """Let this process, an actor's, log into its own file for as long as it lives; see `telemetry.logs`."""
    node = ray._private.worker.global_worker.node
    assert node is not None, "an actor runs on a node"
    directory = settings.directory or str(node.get_logs_dir_path())
    ProcessLog(settings, directory, role, context)


def encode_event(event: TaskEvent) -> bytes:
    """An event as bytes, by the same rules as records."""
    return encode_elements([event])  # type: ignore[list-item]


def decode_event(data: bytes) -> TaskEvent:
    """The event in `data`."""
    return decode_elements(data)[0]  # type: ignore[return-value]
