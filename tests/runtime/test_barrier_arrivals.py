"""How long a barrier waited for its turn, and what the task did meanwhile."""

from __future__ import annotations

from tidegate.protocol.elements import CheckpointBarrier, Message
from tidegate.protocol.ids import Attempt, ChannelId, CheckpointId
from tidegate.protocol.task_events import Numbered, TriggerCheckpoint
from tidegate.runtime.checkpoints.barrier_arrivals import BarrierArrivals
from tidegate.runtime.tasks.task_measures import Activity, TaskTimes

CHANNEL = ChannelId(0, 1, 0)
BARRIER = CheckpointBarrier(CheckpointId(3), 0)


class Clock:
    now = 1

    def now_ns(self) -> int:
        return self.now


def test_the_wait_of_a_barrier_is_split_by_what_the_task_did() -> None:
    clock = Clock()
    times = TaskTimes(clock.now_ns)
    arrivals = BarrierArrivals(clock, times)  # type: ignore[arg-type]
    times.enter(Activity.BUSY)
    clock.now += 500
    arrivals.note(Message(Attempt(1), CHANNEL, 0, [BARRIER], 1, BARRIER))
    clock.now += 70
    times.enter(Activity.BACKPRESSURED)
    clock.now += 20
    times.enter(Activity.IDLE)
    clock.now += 4
    times.enter(Activity.BUSY)
    clock.now += 6
    arrival = arrivals.taken(CheckpointId(3), 0, 2, CHANNEL)
    assert (arrival.channel, arrival.queued_ns) == (2, 100)
    assert (arrival.busy_ns, arrival.backpressured_ns, arrival.worked_ns) == (76, 20, 576)
    assert arrivals.taken(CheckpointId(3), 0, 2, CHANNEL).queued_ns == 0, "it is forgotten"


def test_the_trigger_of_a_source_is_a_barrier_too_and_may_be_numbered() -> None:
    clock = Clock()
    arrivals = BarrierArrivals(clock, TaskTimes(clock.now_ns))  # type: ignore[arg-type]
    arrivals.note(Numbered(0, TriggerCheckpoint(BARRIER)))
    clock.now += 9
    arrival = arrivals.taken(CheckpointId(3), 0, -1, None)
    assert (arrival.channel, arrival.queued_ns) == (-1, 9)
