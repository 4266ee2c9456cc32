"""What a task has from its creation on: its deployment, its mailbox, its phase and its clocks."""

from __future__ import annotations

import queue
from collections.abc import Callable
from dataclasses import dataclass

from ...protocol import task_events as events
from ...protocol.elements import Message
from ...protocol.task_life import TaskLife
from ..checkpoints.barrier_arrivals import BarrierArrivals
from ..checkpoints.snapshots import ChannelStateDone, SnapshotDone
from ..ports import TaskDeployment, TaskPorts
from .task_measures import TaskTimes
from .task_spans import TaskSpans


@dataclass(frozen=True, slots=True)
class RunAction:
    """Something that an operator wants done on the loop."""

    operator_uid: str
    action: Callable[[], None]


Mail = Message | events.TaskMail | SnapshotDone | ChannelStateDone | RunAction


@dataclass(frozen=True, slots=True)
class TaskEnvironment:
    """What the parts of a task share.

    Attributes:
        deployment: The subtask and its settings.
        ports: The shell.
        mailbox: Everything that is sent to the task, in the order in which it arrived.
        life: Its phase.
        times: How long it was busy and why it waited.
        spans: Its part of traces.
        arrivals: When barriers arrived.
    """

    deployment: TaskDeployment
    ports: TaskPorts
    mailbox: queue.SimpleQueue[Mail]
    life: TaskLife
    times: TaskTimes
    spans: TaskSpans
    arrivals: BarrierArrivals

    def put(self, mail: Mail) -> None:
        """Hand over a message or a control mail; may be called from any thread."""
        self.arrivals.note(mail)
        self.mailbox.put(mail)
