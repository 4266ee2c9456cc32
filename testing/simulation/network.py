"""What lies between the processes: connections that keep the order, and actor messages that do not."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from ...protocol.elements import Marker, Message, Probe
from ...protocol.ids import Attempt, ChannelId
from ...protocol.task_events import CreditReturned, TaskEvent
from .external_system import external_system
from .plan import MILLISECOND, Faults, Settings
from .simulated_operators import HELD_BACK
from .simulated_process import RECORD_BYTES, Payload, Process
from .simulated_scheduler import SimulatedScheduler

if TYPE_CHECKING:
    from .simulated_coordinator import SimulatedCoordinator

DELAY_NS = 3 * MILLISECOND
_SLOW_DELAY_NS = 30 * MILLISECOND
_OUTAGE_NS = 60 * MILLISECOND
_LONG_OUTAGE_NS = 500 * MILLISECOND
"""How long a direct connection is lost at most, more often for a short time than for a long one. Longer ones
fail the attempt, as the death of a task does."""
_LONG = 0.1
_STRAY = 0.3
"""How much of what a replaced coordinator's tasks still send reaches its successor's."""
_LOST = 0.02
"""How likely a message or a report is lost, as long as there are losses to come."""
_BATCHES = 6
_CONTROL_BYTES = 64
_MARKERS = 60
"""Two for each checkpoint that is not over, of which there are three at most, or that was triggered while a
message was on its way (30 ms) and its receiver busy (15 ms): nine at the shortest interval, and what people
asked for. What is over leaves nothing behind in a gate.
"""


class Network:
    """Carries messages, credit and reports.

    Args:
        settings: How much may be under way on a channel before its sender has to wait.
        delayed: How many records an operator may hold until it emits all of them in one step.
    """

    def __init__(
        self, scheduler: SimulatedScheduler, faults: Faults, settings: Settings, delayed: int
    ) -> None:
        self._scheduler = scheduler
        self._faults = faults
        # A step may overshoot by its results: what one batch before it had, and what waited for a full one.
        records = _BATCHES * settings.batch_size + 3 * HELD_BACK + delayed
        overshoot = records * RECORD_BYTES + _CONTROL_BYTES
        self._limit_bytes = settings.channel_credit_bytes + overshoot
        self._arrivals: dict[tuple[int, Attempt, ChannelId], int] = {}
        self._delays: dict[tuple[int, ChannelId], int] = {}
        self._under_way: dict[tuple[Attempt, ChannelId], int] = defaultdict(int)
        self._markers: dict[tuple[Attempt, ChannelId], int] = defaultdict(int)
        self._sent: dict[tuple[Attempt, ChannelId, int], Payload] = {}
        self._losses = faults.losses
        self.lost: set[Attempt] = set()
        """Attempts in which something never arrived."""
        self.current: SimulatedCoordinator | None = None
        """The newest life of the coordinator, whose processes bear the names of those before."""

    def send(self, sender: Process, message: Message) -> None:
        """Carry a message by the direct connection: in order, however often that is lost and opened again."""
        self._count(message)
        if sender.owner.stays_in_process(sender, message):
            sender.owner.deliver(message)
            return
        scheduler, key = self._scheduler, (sender.owner.number, message.attempt, message.channel)
        delay_ns = int(scheduler.random.random() * self._delay_ns(sender, message.channel))
        if scheduler.chance(self._faults.lost_connection):
            longest_ns = _LONG_OUTAGE_NS if scheduler.chance(_LONG) else _OUTAGE_NS
            delay_ns += int(scheduler.random.random() * longest_ns)
        arrives_ns = max(scheduler.now_ns + delay_ns, self._arrivals.get(key, 0) + 1)
        self._arrivals[key] = arrives_ns
        scheduler.after(arrives_ns - scheduler.now_ns, lambda: self._deliver(sender.owner, message))

    def send_marker(self, sender: Process, message: Message) -> None:
        """Carry a marker by an actor message: in any order, perhaps twice, perhaps never."""
        self._count(message)
        if sender.owner.stays_in_process(sender, message):
            sender.owner.deliver(message)
            return
        if self.loses(message.attempt, f"marker {message.sequence_number} of {message.channel}"):
            return
        delay_ns = self._delay_ns(sender, message.channel)
        for _ in range(2 if self._scheduler.chance(self._faults.duplicate) else 1):
            self._scheduler.soon(delay_ns, lambda: self._deliver(sender.owner, message))

    def loses(self, attempt: Attempt, what: str) -> bool:
        """Whether this is one of the few things that never arrive."""
        if not self._losses or not self._scheduler.chance(_LOST):
            return False
        self._losses -= 1
        self.lost.add(attempt)
        self._scheduler.note(f"the network loses {what}")
        return True

    def _count(self, message: Message) -> None:
        """Keep account of what is held in memory; not raised, since that would only fail the task."""
        if isinstance(message.announces, Probe):
            return
        key = (message.attempt, message.channel)
        payload: Payload = message.elements  # type: ignore[assignment]
        self._sent[message.attempt, message.channel, message.sequence_number] = payload
        if isinstance(message.announces, Marker):
            payload.is_marker = payload.is_taken = True
            self._markers[key] += 1
            if self._markers[key] > _MARKERS:
                external_system().problems.append(
                    f"{message.channel} has {self._markers[key]} markers under way"
                )
            return
        self._under_way[key] += payload.size_bytes
        if self._under_way[key] > self._limit_bytes:
            external_system().problems.append(f"{message.channel} has {self._under_way[key]} bytes under way")

    def _delay_ns(self, sender: Process, channel: ChannelId) -> int:
        if not self._faults.slow_channel:
            return DELAY_NS
        key = (sender.owner.number, channel)
        if key not in self._delays:
            is_slow = self._scheduler.chance(self._faults.slow_channel)
            self._delays[key] = _SLOW_DELAY_NS if is_slow else DELAY_NS
        return self._delays[key]

    def _deliver(self, owner: SimulatedCoordinator, message: Message) -> None:
        owner.deliver(message)
        successor = self._stray_for(owner)
        if successor is not None:
            successor.deliver(message)

    def _stray_for(self, owner: SimulatedCoordinator) -> SimulatedCoordinator | None:
        """The successor whose processes have the same names, if this one goes astray to it."""
        current = self.current
        if current is None or owner is current or owner.spec.job_id != current.spec.job_id:
            return None
        return current if self._scheduler.chance(_STRAY) else None

    def used_up(self, message: tuple[Attempt, ChannelId, int]) -> None:
        """A receiver has consumed a message.

        If it never looked at the records in it, it still holds them: credit is what is to be checked.
        """
        payload = self._sent.get(message)
        if payload is None or not payload.is_taken:
            return
        del self._sent[message]
        attempt, channel, _ = message
        if payload.is_marker:
            self._markers[attempt, channel] -= 1
        else:
            self._under_way[attempt, channel] -= payload.size_bytes

    def return_credit(self, receiver: Process, channel: ChannelId, size_bytes: int) -> None:
        """Give credit back to the sender."""
        owner, attempt = receiver.owner, receiver.attempt
        sender = owner.sender_of(channel)

        def arrive() -> None:
            if sender is not None and sender.is_alive and sender.attempt == attempt:
                sender.task.put(CreditReturned(channel, size_bytes))
                owner.steps.step_soon(sender)

        self._scheduler.soon(DELAY_NS, arrive)

    def report(self, process: Process, event: TaskEvent) -> None:
        """Carry a report to the coordinator; it is put in order there, as in the Ray shell."""
        number, process.reports = process.reports, process.reports + 1
        owner = process.owner
        if self.loses(process.attempt, f"report {number} of {process.subtask}: {type(event).__name__}"):
            return

        def arrive() -> None:
            owner.reported(process, number, event)
            successor = self._stray_for(owner)
            if successor is not None:
                successor.reported(process, number, event)

        self._scheduler.soon(DELAY_NS, arrive)
