"""The thread of a subtask on Ray."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from tidegate.actors.task_runner import TaskRunner
from tidegate.actors.transport import decode_event
from tidegate.protocol.elements import Batch, Message
from tidegate.protocol.ids import ChannelId, JobId
from tidegate.protocol.task_events import StartRunning, TaskEvent, TaskFailed
from tidegate.runtime.network.wire import encode_message
from tidegate.runtime.ports import TaskDeployment

from tests.runtime.diary import Diary
from tests.runtime.fakes import ATTEMPT, subtask_of, task_settings


class BrokenNetwork:
    """Cannot give credit back."""

    def add_task(self, *channels: Any) -> None:
        """A subtask can be reached."""

    def send(self, message: Message) -> None:
        """What the subtask emits is of no interest."""

    def give_credit(self, credits: Mapping[ChannelId, int]) -> None:
        raise RuntimeError("the network is broken")


class Coordinator:
    """Takes reports as a coordinator's actor does."""

    def __init__(self) -> None:
        self.task_event = self
        self.failed: list[TaskEvent] = []
        self.has_failed = threading.Event()

    def remote(self, subtask: Any, attempt: Any, number: int, event: bytes) -> None:
        decoded = decode_event(event)
        if isinstance(decoded, TaskFailed):
            self.failed.append(decoded)
            self.has_failed.set()


def test_an_error_between_two_steps_is_reported() -> None:
    subtask, coordinator = subtask_of([Diary()]), Coordinator()
    deployment = TaskDeployment(JobId("job"), ATTEMPT, 0, subtask, task_settings(), None)
    network: Any = BrokenNetwork()
    runner = TaskRunner(deployment, network, coordinator)
    runner.thread.start()
    payload = encode_message([Batch([1])])
    # So little credit is given back while the task rests.
    runner.task.put(StartRunning())
    runner.task.put(Message(ATTEMPT, subtask.inputs[0].channel, 0, payload, 10, None))
    assert coordinator.has_failed.wait(120)
    assert "the network is broken" in str(coordinator.failed)
    runner.thread.join(30)
    assert not runner.thread.is_alive()
