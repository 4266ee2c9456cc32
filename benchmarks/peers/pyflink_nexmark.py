"""A Nexmark query on PyFlink: the same file that Tidegate runs, with `tidegate` replaced in its imports.

PyFlink has no sources in Python. The cheapest way to give its functions Python objects is a Java source of
numbers and a first function that looks the events up in memory; no event is ever serialised for Java.
"""

from __future__ import annotations

import importlib
import pickle
import time
from pathlib import Path
from typing import Any

from measure import Orders, leave_mark
from pyflink.common import Types, WatermarkStrategy
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.number_seq import NumberSequenceSource
from pyflink.datastream.functions import FilterFunction, MapFunction, RuntimeContext
from pyflink_job import configuration


class RecordedEvent(MapFunction):
    """The event of a number; the first one starts the clock."""

    def __init__(self, orders: Orders) -> None:
        self._orders = orders

    def open(self, runtime_context: RuntimeContext) -> None:
        self._events = pickle.loads(Path(self._orders.events).read_bytes())

    def map(self, value: int) -> tuple[Any, ...]:
        if value == 0:
            leave_mark(self._orders.marks_dir, "start")
        return self._events[value]


class KeptRecords(FilterFunction):
    """Keeps what is left for the check, and lets nothing through; its end stops the clock."""

    def __init__(self, orders: Orders) -> None:
        self._orders = orders

    def open(self, runtime_context: RuntimeContext) -> None:
        self._taken: list[Any] = []

    def filter(self, value: Any) -> bool:
        self._taken.append(value)
        return False

    def close(self) -> None:
        leave_mark(self._orders.marks_dir, "end", last_ns=time.monotonic_ns())
        rows = [tuple(row) for row in self._taken]
        (Path(self._orders.state_dir) / "results.pickle").write_bytes(pickle.dumps(rows, 5))


def main() -> None:
    """Runs one query to its end."""
    orders = Orders.from_argv()
    env = StreamExecutionEnvironment.get_execution_environment(configuration(orders))
    env.set_parallelism(1)
    numbers = env.from_source(
        NumberSequenceSource(0, orders.records - 1),
        WatermarkStrategy.no_watermarks(),
        "numbers",
        Types.LONG(),
    )
    module = importlib.import_module(f"nexmark_queries.{orders.workload}")
    getattr(module, orders.workload)(numbers.map(RecordedEvent(orders))).filter(KeptRecords(orders))
    env.execute("nexmark")


if __name__ == "__main__":
    main()
