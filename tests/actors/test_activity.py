"""What a task's time went to, and how long a barrier waited for its turn."""

from __future__ import annotations

from tidegate.actors.activity import Activity, BarrierArrivals
from tidegate.protocol.elements import CheckpointBarrier, Message
from tidegate.protocol.ids import Attempt, ChannelId, CheckpointId
from tidegate.protocol.task_events import Numbered, TriggerCheckpoint

CHANNEL = ChannelId(0, 1, 0)
BARRIER = CheckpointBarrier(CheckpointId(3), 0)


class Clock:
    now = 1

    def now_ns(self) -> int:
        return self.now


def step(
    activity: Activity, clock: Clock, took_ns: int, has_credit: bool = True, has_work: bool = True
) -> None:
    activity.step_begins()
    clock.now += took_ns
    if not has_credit:
        activity.lacks_credit()
    activity.step_ended(has_work)


def test_time_is_busy_in_steps_with_work_and_idle_or_backpressured_between_them() -> None:
    clock = Clock()
    activity = Activity(clock.now_ns)
    step(activity, clock, 100)
    step(activity, clock, 1, has_work=False)
    clock.now += 50
    step(activity, clock, 200)
    step(activity, clock, 1, has_credit=False, has_work=False)
    clock.now += 30
    step(activity, clock, 1, has_credit=False, has_work=False)
    clock.now += 30
    assert activity.times_ns() == (300, 62, 51)
    step(activity, clock, 10)
    assert activity.times_ns() == (310, 62, 51)


def test_a_step_under_way_counts_and_waiting_for_the_thread_does_not() -> None:
    clock = Clock()
    activity = Activity(clock.now_ns)
    step(activity, clock, 100)
    clock.now += 1_000
    activity.step_begins()
    clock.now += 40
    assert activity.times_ns() == (140, 0, 0)


def test_the_wait_of_a_barrier_is_split_by_what_the_task_did() -> None:
    clock = Clock()
    activity = Activity(clock.now_ns)
    arrivals = BarrierArrivals(clock, activity)  # type: ignore[arg-type]
    step(activity, clock, 500)
    arrivals.note(Message(Attempt(1), CHANNEL, 0, [BARRIER], 1, BARRIER))
    step(activity, clock, 70)
    step(activity, clock, 1, has_credit=False, has_work=False)
    clock.now += 20
    step(activity, clock, 5)
    clock.now += 4
    arrival = arrivals.taken(CheckpointId(3), 0, 2, CHANNEL)
    assert (arrival.channel, arrival.queued_ns) == (2, 100)
    assert (arrival.busy_ns, arrival.backpressured_ns) == (75, 21)
    assert arrival.worked_ns == 575
    assert arrivals.taken(CheckpointId(3), 0, 2, CHANNEL).queued_ns == 0, "it is forgotten"


def test_the_trigger_of_a_source_is_a_barrier_too_and_may_be_numbered() -> None:
    clock = Clock()
    arrivals = BarrierArrivals(clock, Activity(clock.now_ns))  # type: ignore[arg-type]
    arrivals.note(Numbered(0, TriggerCheckpoint(BARRIER)))
    clock.now += 9
    arrival = arrivals.taken(CheckpointId(3), 0, -1, None)
    assert (arrival.channel, arrival.queued_ns) == (-1, 9)
