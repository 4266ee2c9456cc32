"""Timers fire in order, once, with their key, and are forgotten when they are deleted."""

from __future__ import annotations

from typing import Any

import pytest
from tidegate.common.errors import StateError
from tidegate.operators.base import OperatorContext
from tidegate.operators.keyed.keyed import KeyedOperator
from tidegate.operators.output import Output
from tidegate.operators.timers.timers import (
    FIRED_AT_ONCE,
    InternalTimerService,
    Timer,
    TimerServices,
    TimerTarget,
)
from tidegate.protocol.elements import MAX_WATERMARK_MS, Batch

from tests.operators.harness import OperatorUnderTest


class Alarms(KeyedOperator, TimerTarget):
    """Emits what fires; tests register through `timers`."""

    timers: InternalTimerService

    def __init__(self, namespaced: bool = False) -> None:
        super().__init__(str, "map", str)
        self._namespaced = namespaced

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._fired: list[Any] = []

    def open(self) -> None:
        super().open()
        services = self.timer_services = TimerServices(self.context, self.keyed)
        self.timers = services.create("alarms", self, self._namespaced)

    def process_batch(self, batch: Batch, input_index: int) -> None:
        raise AssertionError("no records here")

    def on_event_time(self, timer: Timer) -> None:
        assert self.keyed.current_key == timer.key
        self._fired.append(("event", *timer))

    def on_processing_time(self, timer: Timer) -> None:
        assert self.keyed.current_key == timer.key
        self._fired.append(("processing", *timer))

    def timers_fired(self) -> None:
        fired, self._fired = self._fired, []
        self.emit(Batch(fired))


def opened(namespaced: bool = False, **harness: Any) -> OperatorUnderTest[Alarms]:
    return OperatorUnderTest(Alarms(namespaced), **harness).open()


def fired(test: OperatorUnderTest[Alarms]) -> list[Any]:
    values = [value for batch in test.emitted for value in batch.values]
    test.emitted.clear()
    return values


def register(test: OperatorUnderTest[Alarms], key: Any, *times: int, namespace: Any = None) -> None:
    test.operator.keyed.current_key = key
    for timestamp_ms in times:
        test.operator.timers.register_event_time_timer(namespace, timestamp_ms)
    test.operator.keyed.current_key = None


def test_event_time_timers_fire_in_the_order_of_their_times_before_the_watermark_goes_on() -> None:
    test = opened()
    register(test, "b", 30, 10)
    register(test, "a", 20)
    test.operator.process_watermark(20)
    assert fired(test) == [("event", 10, "b", None), ("event", 20, "a", None)]
    assert test.watermarks == [20]
    test.operator.process_watermark(MAX_WATERMARK_MS)
    assert fired(test) == [("event", 30, "b", None)]


def test_a_timer_that_is_registered_twice_fires_once_and_a_deleted_one_never() -> None:
    test = opened()
    register(test, "a", 10, 10, 20)
    test.operator.keyed.current_key = "a"
    test.operator.timers.delete_event_time_timer(None, 20)
    test.operator.timers.delete_event_time_timer(None, 99)
    test.operator.process_watermark(50)
    assert fired(test) == [("event", 10, "a", None)]


def test_processing_time_timers_fire_when_the_clock_reaches_them() -> None:
    test = opened()
    test.operator.keyed.current_key = "a"
    timers = test.operator.timers
    for timestamp_ms in (500, 100, 300):
        timers.register_processing_time_timer(None, timestamp_ms)
    assert test.processing_time.due_in_ms() == 100
    test.advance_to(300)
    assert fired(test) == [("processing", 100, "a", None), ("processing", 300, "a", None)]
    assert test.processing_time.due_in_ms() == 200
    test.operator.process_watermark(MAX_WATERMARK_MS)
    test.advance_to(1_000)
    assert fired(test) == [], "pending processing-time timers are dropped at the end of the input"


def test_namespaces_keep_timers_apart() -> None:
    test = opened(namespaced=True)
    for window in ("w1", "w2"):
        register(test, "a", 10, namespace=window)
    test.operator.process_watermark(10)
    assert fired(test) == [("event", 10, "a", "w1"), ("event", 10, "a", "w2")]


def test_what_was_stored_deleted_registered_and_deleted_again_is_gone() -> None:
    test = opened(parallelism=1)
    timers, keyed = test.operator.timers, test.operator.keyed
    register(test, "a", 10, 20)
    test.checkpoint(1)
    keyed.current_key = "a"
    timers.delete_event_time_timer(None, 10)
    timers.delete_event_time_timer(None, 20)
    timers.register_event_time_timer(None, 10)
    timers.register_event_time_timer(None, 20)
    timers.delete_event_time_timer(None, 10)
    restored = opened(restored=test.checkpoint(2), storage=test.storage, parallelism=1)
    restored.operator.process_watermark(50)
    assert fired(restored) == [("event", 20, "a", None)]


def test_a_timer_that_comes_and_goes_between_two_checkpoints_is_never_stored() -> None:
    test = opened()
    register(test, "a", 10)
    test.operator.process_watermark(10)
    snapshot = test.checkpoint(1)
    assert [s for s in snapshot.keyed.segments if s.state_name == "_timers_alarms_event"] == []


def test_overdue_processing_time_timers_fire_at_once_after_a_restore() -> None:
    test = opened(parallelism=1)
    test.operator.keyed.current_key = "a"
    test.operator.timers.register_processing_time_timer(None, 100)
    test.operator.timers.register_processing_time_timer(None, 900)
    restored = OperatorUnderTest(Alarms(), restored=test.checkpoint(1), storage=test.storage, parallelism=1)
    restored.now_ms = 500
    restored.open()
    assert restored.processing_time.due_in_ms() == 0
    restored.advance_to(500)
    assert fired(restored) == [("processing", 100, "a", None)]
    restored.advance_to(900)
    assert fired(restored) == [("processing", 900, "a", None)]


class Repeating(Alarms):
    """Each timer registers the next, up to 50, and deletes the one three behind itself."""

    def on_event_time(self, timer: Timer) -> None:
        super().on_event_time(timer)
        if timer.timestamp < 50:
            self.timers.register_event_time_timer(None, timer.timestamp + 10)
        self.timers.delete_event_time_timer(None, timer.timestamp + 3)


def test_a_timer_may_register_others_that_are_due_and_delete_some() -> None:
    test = OperatorUnderTest(Repeating()).open()
    register(test, "a", 10, 13, 35)
    test.operator.process_watermark(100)
    assert [timestamp for _, timestamp, *_ in fired(test)] == [10, 20, 30, 35, 40, 45, 50, 55]


def test_many_timers_of_one_time_fire_in_the_order_of_their_registration() -> None:
    test = opened()
    for key in range(10_000):
        register(test, key, 5)
    test.advance_watermark(5)
    assert [key for _, _, key, _ in fired(test)] == list(range(10_000))


def test_a_watermark_goes_on_only_behind_the_last_of_many_timers_that_fire_some_at_a_time() -> None:
    test = opened()
    for key in range(3 * FIRED_AT_ONCE):
        register(test, key, key % 97)
    test.operator.process_watermark(100)
    for _ in range(3):
        assert (test.operator.is_advancing, test.watermarks) == (True, [])
        test.operator.advance_further()
    assert (test.operator.is_advancing, test.watermarks) == (False, [100])
    assert [len(batch) for batch in test.emitted] == [FIRED_AT_ONCE] * 3
    assert [each[1:3] for each in fired(test)] == sorted(
        ((key % 97, key) for key in range(3 * FIRED_AT_ONCE)), key=lambda timer: timer[0]
    )


def test_what_came_behind_a_watermark_on_its_way_follows_it() -> None:
    test = opened()
    for key in range(FIRED_AT_ONCE + 1):
        register(test, key, 5)
    register(test, "later", 15)
    test.operator.process_watermark(10)
    test.operator.process_status(True)
    test.operator.process_status(False)
    test.operator.process_watermark(20)
    assert (test.watermarks, test.statuses) == ([], [])
    while test.operator.is_advancing:
        test.operator.advance_further()
    assert (test.watermarks, test.statuses) == ([10, 20], [True, False])
    assert fired(test)[-1] == ("event", 15, "later", None)


@pytest.mark.parametrize("time", ["soon", 1.5, 1 << 63, None])
def test_a_time_that_is_none_is_refused_by_name(time: Any) -> None:
    with pytest.raises(StateError, match=r"operator Totals \(1/2\): timer in event time: .* is no time"):
        register(opened(), "a", time)


def test_a_timer_without_a_key_is_refused() -> None:
    with pytest.raises(StateError, match=r"Totals \(1/2\): timer in processing time: used while no key"):
        opened().operator.timers.register_processing_time_timer(None, 5)
