"""A real local job that has everything in its traces."""

from __future__ import annotations

import contextlib
import json
import time
from pathlib import Path
from typing import Any

from tidegate.common import Configuration, JobStatus, Types, WatermarkStrategy
from tidegate.common.errors import JobExecutionError
from tidegate.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from tidegate.datastream.connectors.number_seq import NumberSequenceSource
from tidegate.datastream.state import ValueStateDescriptor

RECORDS = 6_000
"""As long as nobody says that it is enough, each takes a while."""


class CountsAndFailsOnce(KeyedProcessFunction):
    """Fails when it is told to, in one attempt."""

    def __init__(self, orders: Path) -> None:
        self._fail, self._failed = orders / "fail", orders / "failed"

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        if self._fail.exists() and not self._failed.exists():
            self._failed.touch()
            raise RuntimeError("on purpose")
        self.count.update((self.count.value() or 0) + 1)
        yield value, self.count.value()


def run_traced_job(directory: Path, fails: bool = True) -> list[dict[str, Any]]:
    """Run it with some checkpoints and a savepoint; the traces of its Jaeger file.

    Args:
        directory: For all its files.
        fails: Whether it fails once on its way.
    """
    configuration = Configuration()
    for key, value in {
        "execution.target": "local",
        "execution.checkpointing.interval": "1 h",
        "execution.checkpointing.dir": str(directory / "checkpoints"),
        "execution.checkpointing.data-inline-threshold": "0",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.delay": "30 ms",
        "tidegate.trace.file": str(directory / "traces.json"),
        "tidegate.batch.size": "30",
    }.items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    numbers = env.from_source(
        NumberSequenceSource(1, RECORDS), WatermarkStrategy.no_watermarks(), "numbers"
    ).uid("numbers")
    counted = (
        numbers.key_by(lambda n: n % 7).process(CountsAndFailsOnce(directory)).name("count").uid("count")
    )
    enough = directory / "enough"

    def slowly(record: Any) -> Any:
        if not enough.exists():
            time.sleep(0.002)
        return record

    counted.key_by(lambda pair: pair[0] % 5).map(slowly).name("slow").uid("slow").add_sink(
        lambda record: None
    )
    client = env.execute_async("traced")
    client.trigger_savepoint(str(directory / "savepoints")).result()
    client.trigger_checkpoint()
    if fails:
        (directory / "fail").touch()
        while not client.report().statistics.recoveries:
            # The failure may abort it.
            with contextlib.suppress(JobExecutionError):
                client.trigger_checkpoint()
    client.trigger_checkpoint()
    enough.touch()
    assert client.wait() is JobStatus.FINISHED
    traces: list[dict[str, Any]] = json.loads((directory / "traces.json").read_text("utf-8"))["data"]
    return traces


def tags(owner: dict[str, Any]) -> dict[str, Any]:
    """Attributes of a span or process of Jaeger."""
    return {tag["key"]: tag["value"] for tag in owner["tags"]}
