"""A keyed process function: state, a timer for each key, and a side output.

python process_function.py
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tidegate.common import Configuration, Types, WatermarkStrategy
from tidegate.common.watermark_strategy import TimestampAssigner
from tidegate.datastream import (
    KeyedProcessFunction,
    OutputTag,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from tidegate.datastream.state import ValueStateDescriptor

LOGINS = [("ada", 1_000), ("bob", 2_000), ("ada", 9_000), ("eve", 30_000)]
RETURNED = OutputTag("returned", Types.STRING())


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[1])


class Sessions(KeyedProcessFunction):
    """A visit ends ten seconds after its last login; who comes back is told apart."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.visit = runtime_context.get_state(
            ValueStateDescriptor("visit", Types.TUPLE([Types.INT(), Types.LONG()]))
        )
        self.visits = runtime_context.get_metrics_group().counter("visits")

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        timers = ctx.timer_service()
        logins, ends_at = self.visit.value() or (0, None)
        if ends_at is not None:
            timers.delete_event_time_timer(ends_at)
            yield RETURNED, ctx.get_current_key()
        else:
            self.visits.inc()
        ends_at = ctx.timestamp() + 10_000
        timers.register_event_time_timer(ends_at)
        self.visit.update((logins + 1, ends_at))

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
        yield f"{ctx.get_current_key()}: {self.visit.value()[0]} logins until {timestamp - 10_000}"
        self.visit.clear()


def main() -> None:
    configuration = Configuration()
    configuration.set_string("execution.target", "local")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())
    logins = env.from_collection(LOGINS).assign_timestamps_and_watermarks(strategy)
    visits = logins.key_by(lambda login: login[0]).process(Sessions()).uid("visits")
    returned = visits.get_side_output(RETURNED).map(lambda name: f"{name} came back")
    with visits.union(returned).execute_and_collect() as results:
        for result in sorted(results):
            print(result)


if __name__ == "__main__":
    main()
