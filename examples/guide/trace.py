"""A job with one slow operator, and what made the slowest of its checkpoints slow.

python trace.py
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

from tidegate.common import Configuration, Types, WatermarkStrategy
from tidegate.coordinator.monitoring.critical_path import explain_lines
from tidegate.coordinator.monitoring.statistics import CheckpointStatistics
from tidegate.datastream import (
    KeyedProcessFunction,
    MapFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from tidegate.datastream.connectors.number_seq import NumberSequenceSource
from tidegate.datastream.state import ValueStateDescriptor


class LookUp(MapFunction):
    """Asks a service about every order; one customer's answers take long."""

    def map(self, value: Any) -> Any:
        customer, amount = value
        time.sleep(0.004 if customer == 5 else 0.0001)
        return customer, amount


class Total(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.total.update((self.total.value() or 0) + value[1])
        yield value[0], self.total.value()


def run(directory: Path) -> CheckpointStatistics:
    """Run the job, whose traces go to `traces.json`; its slowest checkpoint."""
    configuration = Configuration()
    configuration.set_string("execution.target", "local")
    configuration.set_string("execution.checkpointing.interval", "200 ms")
    configuration.set_string("execution.checkpointing.dir", str(directory / "checkpoints"))
    configuration.set_string("execution.checkpointing.data-inline-threshold", "0")
    configuration.set_string("tidegate.trace.file", str(directory / "traces.json"))
    configuration.set_string("tidegate.batch.size", "20")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    orders = (
        env.from_source(NumberSequenceSource(1, 3_000), WatermarkStrategy.no_watermarks(), "orders")
        .uid("orders")
        .set_parallelism(4)
    )
    customers = orders.map(lambda number: (number % 7, number)).name("parse").set_parallelism(4)
    enriched = customers.key_by(lambda order: order[0]).map(LookUp()).name("enrich").uid("enrich")
    totals = enriched.key_by(lambda order: order[0] % 3).process(Total()).name("totals").uid("totals")
    totals.add_sink(lambda total: None).name("sink")
    client = env.execute_async("orders")
    client.wait()
    checkpoints = client.report().statistics.checkpoints
    return max(checkpoints, key=lambda checkpoint: checkpoint.duration_ms)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        print("\n".join(explain_lines(run(Path(directory)))))
