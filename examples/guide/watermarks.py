"""Event times from the records, watermarks behind them, and a generator of one's own.

python watermarks.py
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tidegate.common import Configuration, Duration, WatermarkStrategy
from tidegate.common.watermark_strategy import TimestampAssigner, WatermarkGenerator, WatermarkOutput
from tidegate.datastream import ProcessFunction, StreamExecutionEnvironment

READINGS = [("a", 1_000), ("b", 3_000), ("a", 2_000), ("flush", 3_000), ("b", 9_000)]


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[1])


class Flushes(WatermarkGenerator):
    """A record "flush" says that everything up to its time is there."""

    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        if event[0] == "flush":
            output.emit_watermark(event_timestamp)

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Nothing: the records say it all."""


class WithTime(ProcessFunction):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterable[Any]:
        yield value[0], ctx.timestamp()


def environment() -> StreamExecutionEnvironment:
    configuration = Configuration()
    configuration.set_string("execution.target", "local")
    configuration.set_string("pipeline.auto-watermark-interval", "50 ms")
    return StreamExecutionEnvironment.get_execution_environment(configuration)


def main() -> None:
    bounded = (
        WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(2))
        .with_timestamp_assigner(SecondField())
        .with_idleness(Duration.of_minutes(1))
    )
    punctuated = WatermarkStrategy.for_generator(Flushes()).with_timestamp_assigner(SecondField())
    for strategy in (bounded, punctuated):
        stream = environment().from_collection(READINGS).assign_timestamps_and_watermarks(strategy)
        with stream.process(WithTime()).execute_and_collect() as results:
            print(*results)


if __name__ == "__main__":
    main()
