"""Orders and payments: in one window, side by side, and within ten seconds of each other.

python joins.py
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tidegate.common import Configuration, WatermarkStrategy
from tidegate.common.time import Time
from tidegate.common.watermark_strategy import TimestampAssigner
from tidegate.datastream import (
    CoGroupFunction,
    DataStream,
    JoinFunction,
    ProcessJoinFunction,
    StreamExecutionEnvironment,
)
from tidegate.datastream.window import TumblingEventTimeWindows

# Customer, what, and the second.
ORDERS = [("ann", "book", 1), ("bob", "pen", 3), ("ann", "lamp", 28)]
PAYMENTS = [("ann", "12 EUR", 4), ("ann", "40 EUR", 31), ("cat", "7 EUR", 5)]


class Seconds(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[2]) * 1_000


class Pair(JoinFunction):
    def join(self, first: Any, second: Any) -> str:
        return f"{first[0]}: {first[1]} {second[1]}"


class SideBySide(CoGroupFunction):
    def co_group(self, first: list[Any], second: list[Any]) -> Iterable[str]:
        yield f"{[order[1] for order in first]} {[payment[1] for payment in second]}"


class Soon(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Iterable[str]:
        delay = ctx.get_right_timestamp() - ctx.get_left_timestamp()
        yield f"{left[0]}: {left[1]} paid after {delay // 1_000} s"


def streams() -> tuple[DataStream, DataStream]:
    configuration = Configuration()
    configuration.set_string("execution.target", "local")
    env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(1)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Seconds())
    orders, payments = env.from_collection(ORDERS), env.from_collection(PAYMENTS)
    return (
        orders.assign_timestamps_and_watermarks(strategy),
        payments.assign_timestamps_and_watermarks(strategy),
    )


def customer(record: Any) -> str:
    return str(record[0])


def show(title: str, stream: DataStream) -> None:
    with stream.execute_and_collect() as results:
        print(title, *sorted(results), sep="\n  ")


def main() -> None:
    ten_seconds = TumblingEventTimeWindows.of(Time.seconds(10))

    orders, payments = streams()
    show(
        "join:",
        orders.join(payments).where(customer).equal_to(customer).window(ten_seconds).apply(Pair()),
    )

    orders, payments = streams()
    show(
        "co-group:",
        orders.co_group(payments).where(customer).equal_to(customer).window(ten_seconds).apply(SideBySide()),
    )

    orders, payments = streams()
    near = orders.key_by(customer).interval_join(payments.key_by(customer))
    show("interval join:", near.between(Time.seconds(0), Time.seconds(10)).process(Soon()))


if __name__ == "__main__":
    main()
