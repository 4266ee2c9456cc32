"""When barriers arrived at a task, and what it did while they waited for their turn."""

from __future__ import annotations

from dataclasses import dataclass

from ...protocol import task_events as events
from ...protocol.elements import CheckpointBarrier, Message
from ...protocol.ids import ChannelId, CheckpointId
from ..ports import TaskPorts
from ..tasks.task_measures import TaskTimes


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

    What it keeps is bounded by the channels of the task times the checkpoints under way.
    """

    def __init__(self, ports: TaskPorts, times: TaskTimes) -> None:
        self._now_ns = ports.now_ns
        self._times = times
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
        now_ns = self._now_ns()
        busy_ns, backpressured_ns, _ = self._times.times_ns()
        self._arrived[checkpoint_id, channel] = (now_ns, busy_ns, backpressured_ns)

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
        busy_ns, backpressured_ns, _ = self._times.times_ns()
        worked_ns, self._busy_before_ns = busy_ns - self._busy_before_ns, busy_ns
        if arrived is None:
            return BarrierArrival(first_ns, now_ns, index, worked_ns=worked_ns)
        arrived_ns, busy_before_ns, backpressured_before_ns = arrived
        queued_ns = max(0, now_ns - arrived_ns)
        busy_ns = min(queued_ns, busy_ns - busy_before_ns)
        backpressured_ns = min(queued_ns - busy_ns, backpressured_ns - backpressured_before_ns)
        return BarrierArrival(first_ns, now_ns, index, queued_ns, busy_ns, backpressured_ns, worked_ns)
