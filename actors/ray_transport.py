"""Carries a task's messages, credit and reports between Ray actors.

A message is one call of the receiving actor, answered when the receiver's loop has consumed it: the
answer is the credit. User objects are pickled here by the C pickler; Ray only sees bytes.
"""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import ray

from ..common.clock import SteadyClock
from ..common.errors import first_line
from ..operators.async_loop import EventLoopThread, TaskEventLoop
from ..protocol.elements import Message, StreamElement
from ..protocol.ids import Attempt, ChannelId, SubtaskId
from ..protocol.task_events import CreditReturned, SendFailed, TaskEvent
from ..telemetry.logs import LogContext, LogSettings, ProcessLog
from .wire import decode_elements, decode_part, encode_elements


class RayTaskPorts:
    """The `TaskPorts` of one subtask in a Ray actor.

    Args:
        subtask: The subtask these ports belong to.
        attempt: Its attempt.
        receivers: The actor at the end of each output channel, and the subtask there.
        coordinator: The coordinator's actor.
        mail: Puts a mail into the task's mailbox, from any thread.
    """

    def __init__(
        self,
        subtask: SubtaskId,
        attempt: Attempt,
        receivers: Mapping[ChannelId, tuple[Any, SubtaskId]],
        coordinator: Any,
        mail: Callable[[CreditReturned | SendFailed], None],
    ) -> None:
        self._subtask = subtask
        self._attempt = attempt
        self._receivers = receivers
        self._coordinator = coordinator
        self._mail = mail
        self.reports = 0
        """How many reports were sent."""
        self._background = ThreadPoolExecutor(1, thread_name_prefix="tidegate-snapshot")
        self._waiting: dict[
            tuple[ChannelId, int], tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]
        ] = {}
        self.now_ns = SteadyClock().now_ns

    # ------------------------------------------------------------ outgoing

    def encode(self, elements: list[StreamElement]) -> tuple[Any, int]:
        payload = encode_elements(elements)
        return payload, len(payload)

    def decode(self, payload: Any, position: int) -> tuple[list[StreamElement], int | None]:
        return decode_part(payload, position)

    def send(self, message: Message) -> None:
        actor, subtask = self._receivers[message.channel]
        # One argument of bytes: Ray's own pickler takes 80 µs longer for the two objects.
        reference = actor.push.remote(pickle.dumps((subtask, message), protocol=5))
        channel, number, size_bytes = message.channel, message.sequence_number, message.size_bytes

        def answered(future: Future[Any]) -> None:
            error = future.exception()
            if error is None:
                self._mail(CreditReturned(channel, size_bytes))
            else:
                self._mail(SendFailed(channel, number, first_line(error)))

        reference.future().add_done_callback(answered)

    def report(self, event: TaskEvent) -> None:
        number, self.reports = self.reports, self.reports + 1
        self._coordinator.task_event.remote(self._subtask, self._attempt, number, encode_event(event))

    def run_in_background(self, work: Callable[[], None]) -> None:
        self._background.submit(work)

    def create_event_loop(self, name: str) -> TaskEventLoop:
        return EventLoopThread(name)

    def wake(self) -> None:
        """The task's thread waits for mail, and nothing else."""

    # ------------------------------------------------------------ incoming

    def expect(self, message: Message) -> asyncio.Future[None]:
        """A future of the running event loop, resolved when the task's loop has consumed a message.

        To be called before the message is put into the mailbox, so that no credit is lost.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self._waiting[message.channel, message.sequence_number] = (loop, future)
        return future

    def return_credit(self, channel: ChannelId, sequence_number: int, size_bytes: int) -> None:
        waiting = self._waiting.pop((channel, sequence_number), None)
        if waiting is not None:
            loop, future = waiting
            loop.call_soon_threadsafe(_resolve, future)

    def close(self) -> None:
        """Answer every sender that still waits, and end the background thread when it is idle."""
        while self._waiting:
            _, (loop, future) = self._waiting.popitem()
            loop.call_soon_threadsafe(_resolve, future)
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


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
