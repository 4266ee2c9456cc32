"""Clicks per page: in windows of ten seconds, in sessions, and by number; late clicks come out aside.

python windows.py
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tidegate.common import Configuration, WatermarkStrategy
from tidegate.common.time import Time
from tidegate.common.watermark_strategy import TimestampAssigner, WatermarkGenerator, WatermarkOutput
from tidegate.datastream import (
    AggregateFunction,
    DataStream,
    OutputTag,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
    TimeWindow,
)
from tidegate.datastream.window import EventTimeSessionWindows, TumblingEventTimeWindows

# Page, and the second of the click. The click of second 2 comes when everything up to second 12 is there.
CLICKS = [("home", 1), ("home", 4), ("news", 5), ("home", 13), ("home", 2), ("news", 31)]
LATE = OutputTag("late")


class Seconds(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[1]) * 1_000


class NothingEarlier(WatermarkGenerator):
    """Clicks come in order but for those that are late."""

    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        output.emit_watermark(event_timestamp - 1)

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Nothing: every click says how far the time is."""


class Count(AggregateFunction):
    """Called for every click; the window keeps one number."""

    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + 1

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


class Report(ProcessWindowFunction[int, str, str, TimeWindow]):
    """Called once for a window, with the one result of `Count`."""

    def process(
        self, key: str, context: ProcessWindowFunction.Context[TimeWindow], elements: Iterable[int]
    ) -> Iterable[str]:
        window = context.window()
        for count in elements:
            yield f"{key} from {window.start // 1_000} s to {window.end // 1_000} s: {count}"


def clicks() -> DataStream:
    configuration = Configuration()
    configuration.set_string("execution.target", "local")
    env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(1)
    strategy = WatermarkStrategy.for_generator(NothingEarlier()).with_timestamp_assigner(Seconds())
    return env.from_collection(CLICKS).assign_timestamps_and_watermarks(strategy)


def show(title: str, stream: DataStream) -> None:
    with stream.execute_and_collect() as results:
        print(title, *sorted(map(str, results)), sep="\n  ")


def main() -> None:
    ten_seconds = TumblingEventTimeWindows.of(Time.seconds(10))
    windows = clicks().key_by(lambda click: click[0]).window(ten_seconds)
    show("ten seconds:", windows.aggregate(Count(), Report()))

    windows = clicks().key_by(lambda click: click[0]).window(ten_seconds)
    on_time = windows.side_output_late_data(LATE).aggregate(Count(), Report())
    show("too late:", on_time.get_side_output(LATE))

    windows = clicks().key_by(lambda click: click[0]).window(ten_seconds)
    show("with five seconds for late ones:", windows.allowed_lateness(5_000).aggregate(Count(), Report()))

    sessions = EventTimeSessionWindows.with_gap(Time.seconds(10))
    windows = clicks().key_by(lambda click: click[0]).window(sessions)
    show("sessions:", windows.aggregate(Count(), Report()))

    show("every two clicks:", clicks().key_by(lambda click: click[0]).count_window(2).reduce(max))


if __name__ == "__main__":
    main()
