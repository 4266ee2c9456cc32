"""What a task's time went to, and what of it while a barrier waited for its turn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..protocol import task_events as events
from ..protocol.elements import CheckpointBarrier, Message
from ..protocol.ids import ChannelId, CheckpointId
from .ports import TaskPorts


class Activity:
    """How long a task was busy, backpressured and idle, in nanoseconds since it began.

    The loop says at the end of each step what it did. A step that had work counts from its beginning to its
    end as busy; a step that had none begins a wait, for credit or for input, that ends with the next step
    that has work. What is left is time in which the task had work and its thread was elsewhere: with other
    tasks in the local shell.

    Args:
        now_ns: The clock of the task.
    """

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._step_began_ns = 0
        self._has_credit = True
        self._wait_began_ns = 0
        self._waits_for_credit = False
        self._busy_ns = 0
        self._backpressured_ns = 0
        self._idle_ns = 0

    def step_begins(self) -> None:
        """The loop looks for work."""
        self._step_began_ns = self._now_ns()
        self._has_credit = True

    def lacks_credit(self) -> None:
        """The loop may not work: what it would produce cannot go anywhere."""
        self._has_credit = False

    def step_ended(self, was_busy: bool) -> None:
        """The loop found work, or none."""
        began_ns, self._step_began_ns = self._step_began_ns, 0
        if was_busy and self._has_credit:
            self._wait_ends(began_ns)
            self._busy_ns += self._now_ns() - began_ns
        elif self._wait_began_ns == 0 or self._waits_for_credit is self._has_credit:
            self._wait_ends(began_ns)
            self._wait_began_ns, self._waits_for_credit = began_ns, not self._has_credit

    def _wait_ends(self, now_ns: int) -> None:
        if self._wait_began_ns:
            waited_ns = now_ns - self._wait_began_ns
            if self._waits_for_credit:
                self._backpressured_ns += waited_ns
            else:
                self._idle_ns += waited_ns
            self._wait_began_ns = 0

    def times_ns(self) -> tuple[int, int, int]:
        """Busy, backpressured and idle until now; may be called from any thread.

        A thread that asks while the loop writes may get a figure that is off by one step.
        """
        now_ns = self._now_ns()
        busy_ns, backpressured_ns, idle_ns = self._busy_ns, self._backpressured_ns, self._idle_ns
        step_began_ns = self._step_began_ns or now_ns
        if self._wait_began_ns:
            waited_ns = max(0, step_began_ns - self._wait_began_ns)
            if self._waits_for_credit:
                backpressured_ns += waited_ns
            else:
                idle_ns += waited_ns
        busy_ns += max(0, now_ns - step_began_ns)
        return busy_ns, backpressured_ns, idle_ns


@dataclass(frozen=True, slots=True)
class BarrierArrival:
    """How a task came to take a snapshot.

    Attributes:
        first_ns: When the first barrier came, by the task's clock.
        taken_ns: When the last one had its turn, so that the snapshot began.
        channel: The last one's channel among those of the task, from 0; -1 from the coordinator.
        queued_ns: How long the last one waited for its turn.
        busy_ns: In how much of that the task was busy.
        backpressured_ns: In how much of that the task had no credit.
        worked_ns: How long the task was busy since its snapshot before.
    """

    first_ns: int
    taken_ns: int
    channel: int = -1
    queued_ns: int = 0
    busy_ns: int = 0
    backpressured_ns: int = 0
    worked_ns: int = 0


class BarrierArrivals:
    """When barriers arrived at a task, whose turn comes later.

    Bounded by the channels of the task times the checkpoints under way.
    """

    def __init__(self, ports: TaskPorts, activity: Activity) -> None:
        self._now_ns = ports.now_ns
        self._activity = activity
        self._arrived: dict[tuple[CheckpointId, ChannelId | None], tuple[int, int, int]] = {}
        self._busy_before_ns = 0

    def note(self, mail: object) -> None:
        """Something was put into the task's mailbox; from any thread."""
        if isinstance(mail, Message):
            if isinstance(mail.announces, CheckpointBarrier):
                self._note(mail.announces.checkpoint_id, mail.channel)
        elif isinstance(mail, events.Numbered):
            self.note(mail.mail)
        elif isinstance(mail, events.TriggerCheckpoint):
            self._note(mail.barrier.checkpoint_id, None)

    def _note(self, checkpoint_id: CheckpointId, channel: ChannelId | None) -> None:
        busy_ns, backpressured_ns, _ = self._activity.times_ns()
        self._arrived[checkpoint_id, channel] = (self._now_ns(), busy_ns, backpressured_ns)

    def taken(
        self, checkpoint_id: CheckpointId, first_ms: int, index: int, channel: ChannelId | None
    ) -> BarrierArrival:
        """The snapshot is taken. Forgets what arrived for that checkpoint and older ones."""
        now_ns = self._now_ns()
        first_ns = min(first_ms * 1_000_000, now_ns)
        arrived = self._arrived.get((checkpoint_id, channel))
        for key in list(self._arrived):
            if key[0] <= checkpoint_id:
                self._arrived.pop(key, None)
        busy_ns, backpressured_ns, _ = self._activity.times_ns()
        worked_ns, self._busy_before_ns = busy_ns - self._busy_before_ns, busy_ns
        if arrived is None:
            return BarrierArrival(first_ns, now_ns, index, worked_ns=worked_ns)
        arrived_ns, busy_before_ns, backpressured_before_ns = arrived
        queued_ns = max(0, now_ns - arrived_ns)
        busy_ns = min(queued_ns, busy_ns - busy_before_ns)
        backpressured_ns = min(queued_ns - busy_ns, backpressured_ns - backpressured_before_ns)
        return BarrierArrival(first_ns, now_ns, index, queued_ns, busy_ns, backpressured_ns, worked_ns)
