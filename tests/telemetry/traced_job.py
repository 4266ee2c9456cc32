"""A real local job that has everything in its traces, run once for the tests that look at them."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from tidegate.common import Configuration, JobStatus, Types, WatermarkStrategy
from tidegate.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from tidegate.datastream.connectors.number_seq import NumberSequenceSource
from tidegate.datastream.state import ValueStateDescriptor

RECORDS = 2_000


class CountsAndFailsOnce(KeyedProcessFunction):
    """Fails on a late record of the first attempt."""

    def __init__(self, failed: Path | None) -> None:
        self._failed = failed

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        if self._failed is not None and value > RECORDS * 0.7 and not self._failed.exists():
            self._failed.touch()
            raise RuntimeError("on purpose")
        self.count.update((self.count.value() or 0) + 1)
        yield value, self.count.value()


def slowly(record: Any) -> Any:
    """What makes the job last."""
    time.sleep(0.0005)
    return record


def run_traced_job(
    directory: Path, environ: dict[str, str] | None = None, fails: bool = True, **options: str
) -> list[dict[str, Any]]:
    """Run it to its end; the traces of its Jaeger file."""
    configuration = Configuration()
    for key, value in {
        "execution.target": "local",
        "execution.checkpointing.interval": "60 ms",
        "execution.checkpointing.dir": str(directory / "checkpoints"),
        "execution.checkpointing.data-inline-threshold": "0",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.delay": "30 ms",
        "tidegate.trace.file": str(directory / "traces.json"),
        "tidegate.batch.size": "20",
        **options,
    }.items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    numbers = env.from_source(
        NumberSequenceSource(1, RECORDS), WatermarkStrategy.no_watermarks(), "numbers"
    ).uid("numbers")
    function = CountsAndFailsOnce(directory / "failed" if fails else None)
    counted = numbers.key_by(lambda n: n % 7).process(function).name("count").uid("count")
    counted.key_by(lambda pair: pair[0] % 5).map(slowly).name("slow").uid("slow").add_sink(
        lambda record: None
    )
    client = env.execute_async("traced")
    client.trigger_savepoint(str(directory / "savepoints"))
    assert client.wait() is JobStatus.FINISHED
    traces: list[dict[str, Any]] = json.loads((directory / "traces.json").read_text("utf-8"))["data"]
    return traces


def tags(owner: dict[str, Any]) -> dict[str, Any]:
    """Attributes of a span or process of Jaeger."""
    return {tag["key"]: tag["value"] for tag in owner["tags"]}
