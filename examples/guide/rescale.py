"""A job counts orders by customer. At noon it gets more subtasks, and in the evening fewer.

python rescale.py
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from typing import Any

from tidegate.common import Configuration, JobStatus, Types, WatermarkStrategy
from tidegate.datastream import (
    KeyedProcessFunction,
    RuntimeContext,
    Source,
    SourceReader,
    StreamExecutionEnvironment,
)
from tidegate.datastream.state import ValueStateDescriptor
from tidegate.protocol.elements import Batch

CUSTOMERS = 5
ORDERS = 20_000


class Orders(Source):
    """The numbers below `ORDERS`, the second half of them when a file says that it is closing time."""

    def __init__(self, closing_time: str) -> None:
        self.closing_time = closing_time

    def create_splits(self, parallelism: int) -> list[Any]:
        size = ORDERS // 4
        return [(start, start + size) for start in range(0, ORDERS, size)]

    def create_reader(self, splits: list[Any]) -> SourceReader:
        return OrderReader(splits, self.closing_time)


class OrderReader(SourceReader):
    """Reads its splits one after the other; what is left of them is its state."""

    def __init__(self, splits: list[Any], closing_time: str) -> None:
        self.splits = list(splits)
        self.closing_time = closing_time

    def poll(self, max_records: int) -> Batch | None:
        if not self.splits:
            return None
        start, end = self.splits[0]
        if start >= ORDERS // 2 and not os.path.exists(self.closing_time):
            return Batch([])
        stop = min(end, start + 100)
        self.splits[:1] = [(stop, end)] if stop < end else []
        return Batch(list(range(start, stop)))

    def snapshot_state(self) -> list[Any]:
        return list(self.splits)


class Count(KeyedProcessFunction):
    """Says when a customer has ordered for the last time of the day."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterator[str]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        if count == ORDERS // CUSTOMERS:
            yield f"customer {ctx.get_current_key()} ordered {count} times"


def main() -> None:
    """Run the job and change its parallelism twice."""
    with tempfile.TemporaryDirectory() as directory:
        closing_time = os.path.join(directory, "closing-time")
        configuration = Configuration()
        configuration.set_string("execution.target", "local")
        configuration.set_string("execution.checkpointing.interval", "100 ms")
        configuration.set_string("execution.checkpointing.dir", directory)
        env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(2)
        orders = env.from_source(Orders(closing_time), WatermarkStrategy.no_watermarks(), "orders").uid(
            "orders"
        )
        by_customer = orders.key_by(lambda order: order % CUSTOMERS, key_type=Types.LONG())
        by_customer.process(Count(), output_type=Types.STRING()).name("count").uid("count").print()
        job = env.execute_async("orders")
        while job.get_job_status().result() is not JobStatus.RUNNING:
            job.wait(timeout_s=0.05)

        job.rescale({"count": 4})
        print("at noon:", job.report().parallelism["count"])
        job.rescale(1)
        print("in the evening:", job.report().parallelism["count"])
        open(closing_time, "w").close()
        job.result()


if __name__ == "__main__":
    main()
