"""The job that is put through chaos: numbers, paced and held back, counted per key, into Parquet files."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from tidegate.common import Configuration, Types, WatermarkStrategy
from tidegate.coordinator.control.job_client import JobClient
from tidegate.datastream import (
    KeyedProcessFunction,
    RuntimeContext,
    Source,
    SourceReader,
    StreamExecutionEnvironment,
)
from tidegate.datastream.connectors.file_system import FileSink
from tidegate.datastream.state import ValueStateDescriptor
from tidegate.operators.base import OperatorContext
from tidegate.protocol.elements import Batch

KEYS = 100
RECORDS_PER_SECOND = 2_000
"""Of each subtask of the source; the job is to live for a while, not to be fast."""
TRICKLE_PER_SECOND = 2
"""Of the last tenth, until the gate is open: no epoch is empty, and nothing ends too early."""
MOST_AT_ONCE = 200
COUNTS = pa.schema([("key", pa.int64()), ("count", pa.int64())])
NUMBERS = pa.schema([("number", pa.int64())])
IN_SPARK = pa.schema([("number", pa.int64()), ("executor", pa.string())])


class Paced(Source):
    """The numbers below `count`; the last tenth trickles until a file appears.

    Args:
        gate: Path of the file.
    """

    def __init__(self, count: int, gate: Path) -> None:
        self._count = count
        self._gate = str(gate)

    def create_splits(self, parallelism: int) -> list[Any]:
        size = self._count // parallelism
        return [(index * size, index * size, (index + 1) * size) for index in range(parallelism)]

    def create_reader(self, splits: list[Any]) -> SourceReader:
        return _PacedReader(splits, self._gate)


class _PacedReader(SourceReader):
    def __init__(self, splits: list[tuple[int, int, int]], gate: str) -> None:
        self._splits = list(splits)
        self._gate = gate
        self._allowed = 0.0

    def open(self, context: OperatorContext) -> None:
        self._polled_s = time.monotonic()

    def poll(self, max_records: int) -> Batch | None:
        if not self._splits:
            return None
        start, position, end = self._splits[0]
        is_last_tenth = position >= end - (end - start) // 10
        stop = min(position + self._pace(is_last_tenth), end)
        if stop < end:
            self._splits[0] = (start, stop, end)
        else:
            self._splits.pop(0)
        return Batch(list(range(position, stop)))

    def _pace(self, is_last_tenth: bool) -> int:
        """How many records are due since the last poll."""
        if os.path.exists(self._gate):
            return MOST_AT_ONCE
        now_s, before_s = time.monotonic(), self._polled_s
        self._polled_s = now_s
        rate = TRICKLE_PER_SECOND if is_last_tenth else RECORDS_PER_SECOND
        due = min(MOST_AT_ONCE, self._allowed + (now_s - before_s) * rate)
        self._allowed = due % 1
        return int(due)

    def snapshot_state(self) -> list[Any]:
        return list(self._splits)


class CountPerKey(KeyedProcessFunction):
    """Emits (key, how many of its records came so far)."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterator[tuple[int, int]]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield ctx.get_current_key(), count


def where_it_runs(frame: Any) -> Any:
    """The Spark stage: numbers, and the process that had them in hand."""
    return frame.selectExpr("number", "java_method('java.lang.ProcessHandle', 'current') as executor")


class NoteExecutor:
    """Leaves the id of the Spark executor in a file, and gives the number."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._noted = ""

    def __call__(self, record: tuple[int, str]) -> int:
        number, executor = record
        if executor != self._noted:
            self._path.write_text(executor)
            self._noted = executor
        return number


class ChaosJob:
    """One run of the job below a directory.

    Args:
        count: How many numbers.
        with_spark: Whether they go through a Spark stage.
        checkpoints: Where checkpoints go.
        options: Further options.
    """

    def __init__(
        self,
        directory: Path,
        count: int,
        with_spark: bool = False,
        checkpoints: Path | None = None,
        options: dict[str, str] | None = None,
    ) -> None:
        self.output = directory / "output"
        self.checkpoints = checkpoints or directory / "checkpoints"
        self.executor_file = directory / "executor"
        self._gate = directory / "gate"
        self._directory = directory
        self._count = count
        self._with_spark = with_spark
        self._options = options or {}

    def start(self) -> JobClient:
        """Submit it to Ray."""
        env = StreamExecutionEnvironment.get_execution_environment(self._configuration())
        numbers = env.from_source(
            Paced(self._count, self._gate), WatermarkStrategy.no_watermarks(), "numbers"
        ).uid("numbers")
        if self._with_spark:
            tuples = numbers.map(lambda number: (number,)).uid("tuples")
            noted = tuples.spark_stage(where_it_runs, IN_SPARK, input_schema=NUMBERS).uid("stage")
            numbers = noted.map(NoteExecutor(self.executor_file)).uid("note")
        keyed = numbers.key_by(lambda number: number % KEYS, key_type=Types.LONG())
        counted = keyed.process(CountPerKey()).name("count").uid("count")
        counted.sink_to(FileSink(self.output, COUNTS)).name("sink").uid("sink")
        return env.execute_async("chaos")

    def _configuration(self) -> Configuration:
        configuration = Configuration()
        for key, value in {
            "parallelism.default": "2",
            "execution.target": "ray",
            "tidegate.slot.cpus": "1",
            "tidegate.local-dir": str(self._directory / "local"),
            "execution.checkpointing.dir": str(self.checkpoints),
            "execution.checkpointing.interval": "200 ms",
            "execution.checkpointing.timeout": "30 s",
            "execution.checkpointing.num-retained": "5",
            "execution.checkpointing.data-inline-threshold": "0",
            "execution.checkpointing.tolerable-failed-checkpoints": "1000",
            "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": "1000",
            "restart-strategy.fixed-delay.delay": "200 ms",
            "heartbeat.timeout": "4 s",
            "tidegate.spark.executor-memory": "512m",
            "tidegate.spark.log-dir": str(self._directory / "spark-logs"),
            **self._options,
        }.items():
            configuration.set_string(key, value)
        return configuration

    def open_gate(self) -> None:
        """Let the sources come to their end."""
        self._gate.touch()

    def missing_and_doubled(self) -> tuple[int, int]:
        """How many expected records are not in the output, and how many are there that should not be."""
        written: Counter[tuple[int, int]] = Counter()
        for file in self.output.glob("*.parquet"):
            table = pq.read_table(file)
            written.update(zip(table["key"].to_pylist(), table["count"].to_pylist(), strict=True))
        per_key = self._count // KEYS
        expected = Counter((key, count) for key in range(KEYS) for count in range(1, per_key + 1))
        return (expected - written).total(), (written - expected).total()
