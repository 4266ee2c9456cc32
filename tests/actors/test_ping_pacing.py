"""A process that has nothing to report is pinged less often, unless it was sent mail that may be lost."""

from __future__ import annotations

from tidegate.actors.ping_pacing import MOST_QUIET_MS, PingPacing
from tidegate.actors.task_processes import TaskProcess
from tidegate.coordinator.deployment.slots import ProcessResources
from tidegate.protocol.ids import Attempt, SubtaskId
from tidegate.protocol.task_metrics import Heartbeat, ProcessMetrics, TaskMetrics

SUBTASK = SubtaskId("task-1", 0)
TICK_MS = 1_000
MINUTE = range(0, 60_000, TICK_MS)


class Pinged:
    """A process that answers each ping at once."""

    def __init__(self, heartbeat_timeout_ms: int = 15_000) -> None:
        self.pacing = PingPacing(heartbeat_timeout_ms, metrics_interval_ms=TICK_MS)
        self.process = TaskProcess("task-1-0", None, ProcessResources(0.0), [SUBTASK], 0)
        self.times_ms: list[int] = []
        self.records = 0

    def tick(self, now_ms: int) -> None:
        if not self.pacing.is_due(self.process, now_ms):
            return
        assert self.pacing.pinged(self.process, now_ms)
        self.times_ms.append(now_ms)
        metrics = TaskMetrics(records_in=self.records, busy_ms=0.1 * now_ms, idle_ms=0.9 * now_ms)
        process = ProcessMetrics(Attempt(1), "host", 1, {SUBTASK: metrics})
        self.pacing.answered(self.process, Heartbeat(Attempt(1), {}, process))


def test_an_idle_process_is_pinged_every_third_second() -> None:
    idle = Pinged()
    for now_ms in MINUTE:
        idle.tick(now_ms + TICK_MS)
    assert len(idle.times_ms) <= 60_000 / MOST_QUIET_MS + 2
    pauses = [after - before for before, after in zip(idle.times_ms, idle.times_ms[1:], strict=False)]
    assert max(pauses) == MOST_QUIET_MS


def test_a_process_that_works_is_pinged_at_each_tick_and_soon_after_it_begins_to() -> None:
    process = Pinged()
    for now_ms in MINUTE:
        process.tick(now_ms + TICK_MS)
    begins_ms = 60_000 + TICK_MS
    process.times_ms.clear()
    for now_ms in range(begins_ms, begins_ms + 60_000, TICK_MS):
        process.records += 1
        process.tick(now_ms)
    assert process.times_ms[0] <= begins_ms + MOST_QUIET_MS
    assert len(process.times_ms) >= 58


def test_mail_that_may_be_lost_is_counted_at_the_next_tick() -> None:
    idle = Pinged()
    for now_ms in MINUTE:
        idle.tick(now_ms + TICK_MS)
    idle.times_ms.clear()
    for number, now_ms in enumerate(range(61_000, 71_000, TICK_MS), 1):
        idle.process.numbered = {SUBTASK: number}
        idle.tick(now_ms)
    assert len(idle.times_ms) == 10


def test_a_short_heartbeat_timeout_is_kept() -> None:
    idle = Pinged(heartbeat_timeout_ms=1_000)
    for now_ms in range(200, 10_000, 200):
        if idle.pacing.is_due(idle.process, now_ms):
            idle.pacing.pinged(idle.process, now_ms)
            idle.times_ms.append(now_ms)
            idle.pacing.answered(idle.process, Heartbeat(Attempt(1), {}))
    assert len(idle.times_ms) == 49


def test_a_ping_that_was_not_answered_is_not_repeated() -> None:
    hung = Pinged()
    assert hung.pacing.is_due(hung.process, TICK_MS)
    hung.pacing.pinged(hung.process, TICK_MS)
    assert not hung.pacing.is_due(hung.process, 60_000)
