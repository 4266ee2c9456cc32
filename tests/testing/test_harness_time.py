"""Harnesses of functions with timers and watermarks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tidegate.common import Duration, Time, Types, WatermarkStrategy
from tidegate.common.watermark_strategy import TimestampAssigner
from tidegate.datastream import KeyedProcessFunction, OutputTag
from tidegate.datastream.window import TumblingEventTimeWindows
from tidegate.testing import KeyedOneInputHarness, OneInputHarness


class Remind(KeyedProcessFunction):
    """Reminds of every record 10 ms of event time later, and after 100 ms of processing time."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        timers = ctx.timer_service()
        timers.register_event_time_timer(ctx.timestamp() + 10)
        timers.register_processing_time_timer(timers.current_processing_time() + 100)
        yield from ()

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        yield ctx.get_current_key(), timestamp, ctx.timer_service().current_processing_time()


def test_event_time_timers_fire_at_watermarks_and_processing_time_timers_as_time_passes() -> None:
    with KeyedOneInputHarness(Remind(), lambda value: value, Types.STRING()) as harness:
        harness.process_element("a", 5)
        harness.advance_processing_time(30)
        harness.process_element("b", 7)
        harness.process_watermark(15)
        assert harness.take_output() == [("a", 15, 30)]
        harness.advance_processing_time(500)
        assert harness.take_output() == [("a", 100, 100), ("b", 130, 130)]
        assert harness.processing_time == 530


def test_timers_are_part_of_a_snapshot() -> None:
    with KeyedOneInputHarness(Remind(), lambda value: value, Types.STRING(), parallelism=2) as harness:
        for number in range(10):
            harness.process_element(f"key {number}", number)
        stored = harness.snapshot()
    options: Any = {"restored": stored, "parallelism": 3}
    with KeyedOneInputHarness(Remind(), lambda value: value, Types.STRING(), **options) as harness:
        harness.process_watermark(15)
        assert sorted(harness.take_output()) == [(f"key {number}", number + 10, 0) for number in range(6)]


class Second(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[1])


def test_generated_watermarks_come_as_time_passes() -> None:
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(10))
    strategy = strategy.with_timestamp_assigner(Second())
    with OneInputHarness(lambda stream: stream.assign_timestamps_and_watermarks(strategy)) as harness:
        harness.process_elements([("a", 100), ("b", 90)])
        assert harness.records() == [(("a", 100), 100), (("b", 90), 90)]
        assert harness.watermarks() == []
        harness.advance_processing_time(1_000)
        assert harness.watermarks() == [100 - 10 - 1]


def test_windows_fire_at_watermarks_and_what_comes_too_late_goes_aside() -> None:
    late = OutputTag("late")

    def sums(keyed: Any) -> Any:
        windows = keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(10)))
        return windows.side_output_late_data(late).reduce(lambda one, other: (one[0], one[1] + other[1]))

    with KeyedOneInputHarness(sums, lambda value: value[0], Types.STRING(), side_outputs=[late]) as harness:
        harness.process_elements([("a", 1), ("b", 2), ("a", 4)], [1, 2, 12])
        harness.process_watermark(9)
        assert sorted(harness.take_output()) == [("a", 1), ("b", 2)]
        stored = harness.snapshot()
    options: Any = {"side_outputs": [late], "restored": stored, "parallelism": 2}
    with KeyedOneInputHarness(sums, lambda value: value[0], Types.STRING(), **options) as harness:
        harness.process_element(("a", 8), 13)
        harness.process_watermark(30)
        harness.process_element(("a", 16), 14)
        assert harness.output() == [("a", 12)]
        assert harness.side_output(late) == [("a", 16)]
