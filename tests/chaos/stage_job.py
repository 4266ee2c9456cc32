"""A job whose Spark stage can be held in any phase of an epoch: numbers, Spark, counts per key, files."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tidegate.common import Configuration, Duration, Types, WatermarkStrategy
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
from tidegate.operators.base import FrozenOperator, StreamOperator
from tidegate.protocol.elements import Batch, CheckpointBarrier

SUBTASKS = 2
SHARE = 9_000
"""A subtask's records of a full epoch. Half of its results, which is all where the other subtask gave none,
is more than a stage emits at once. So each emission of a full epoch has two parts, and can be held between
them."""
KEYS = 100
IN_SPARK, TAKE, SNAPSHOT, OPEN = "in-spark", "take", "snapshot", "open"
"""Where the job can be held: in Spark's Python worker, and in `Gate`: before it takes records, at a barrier,
and when it opens."""
_POLL_S = 0.02
_NUMBERS = pa.schema([("number", pa.int64())])
_COUNTS = pa.schema([("key", pa.int64()), ("number", pa.int64()), ("count", pa.int64())])


class Holds:
    """The places at which the job is held, as files that all of its processes see."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._number = 0
        directory.mkdir(parents=True)

    def set(self, name: str) -> None:
        """Hold whatever comes to this place from now on."""
        self._number += 1
        _replace(self._directory / name, str(self._number))

    def release(self, *names: str) -> None:
        """Let everything go on, or only what is held at these places."""
        for name in names or (IN_SPARK, TAKE, SNAPSHOT, OPEN):
            (self._directory / name).unlink(missing_ok=True)

    def is_set(self, name: str) -> bool:
        """Whether something that came here would be held. Called in the job."""
        return bool(self._token(name))

    def pass_through(self, name: str) -> None:
        """Leave a mark and wait if this place is held. Called in the job."""
        token = self._token(name)
        if token:
            (self._directory / f"{name}.{token}.mark").touch()
            while self._token(name) == token:
                threading.Event().wait(_POLL_S)

    def has_held(self, name: str) -> bool:
        """Whether something is being held here."""
        return (self._directory / f"{name}.{self._token(name)}.mark").exists()

    def _token(self, name: str) -> str:
        try:
            return (self._directory / name).read_text()
        except FileNotFoundError:
            return ""


class Fed(Source):
    """Subtask i of n gives i, n + i, 2n + i, …, as many as a file says: `900`, or `900 end` for no more.

    Args:
        limit: Path of the file.
    """

    def __init__(self, limit: Path) -> None:
        self._limit = limit

    def create_splits(self, parallelism: int) -> list[Any]:
        return [(index, 0) for index in range(parallelism)]

    def create_reader(self, splits: list[Any]) -> SourceReader:
        return _FedReader(splits, self._limit)


class _FedReader(SourceReader):
    def __init__(self, splits: list[tuple[int, int]], limit: Path) -> None:
        self._splits = list(splits)
        self._limit = limit

    def poll(self, max_records: int) -> Batch | None:
        limit, _, is_last = self._limit.read_text().partition(" ")
        if not self._splits:
            return None
        index, position = self._splits[0]
        stop = min(position + max_records, int(limit))
        self._splits[0] = (index, stop)
        if is_last and stop == position:
            self._splits.pop(0)
        return Batch([(SUBTASKS * each + index,) for each in range(position, stop)])

    def snapshot_state(self) -> list[Any]:
        return list(self._splits)


class Gate(StreamOperator):
    """Passes records on, and can be held."""

    def __init__(self, holds: Holds) -> None:
        self._holds = holds

    def open(self) -> None:
        self._holds.pass_through(OPEN)

    def is_ready(self) -> bool:
        return not self._holds.is_set(TAKE)

    def process_batch(self, batch: Batch, input_index: int) -> None:
        self.emit(batch)

    def snapshot_state(self, barrier: CheckpointBarrier) -> FrozenOperator:
        self._holds.pass_through(SNAPSHOT)
        return super().snapshot_state(barrier)


class CountPerKey(KeyedProcessFunction):
    """Emits (key, number, how many of its records came so far)."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(
        self, value: tuple[int], ctx: KeyedProcessFunction.Context
    ) -> Iterator[tuple[int, int, int]]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield ctx.get_current_key(), value[0], count


def in_spark(holds: Holds) -> Callable[[Any], Any]:
    """The function of the stage: two Spark tasks, which can be held in the executor."""

    def pass_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            holds.pass_through(IN_SPARK)
            yield batch

    return lambda frame: frame.mapInArrow(pass_on, "number long")


class StageJob:
    """One run of the job below a directory.

    Args:
        is_unaligned: Whether barriers may overtake records.
    """

    def __init__(self, directory: Path, is_unaligned: bool) -> None:
        self.is_unaligned = is_unaligned
        self.holds = Holds(directory / "holds")
        self._directory = directory
        self._limit = directory / "limit"
        self._fed = 0
        _replace(self._limit, "0")
        self.output = Output(directory / "output")

    @property
    def numbers(self) -> int:
        """All numbers below this are given to the job."""
        return SUBTASKS * self._fed

    def feed(self, records: int) -> None:
        """Give more numbers to each subtask of the source."""
        self._fed += records
        _replace(self._limit, str(self._fed))

    def end(self) -> None:
        """Let the sources come to their end."""
        _replace(self._limit, f"{self._fed} end")

    def start(self) -> JobClient:
        """Submit it to Ray."""
        env = StreamExecutionEnvironment.get_execution_environment(self._configuration())
        numbers = env.from_source(Fed(self._limit), WatermarkStrategy.no_watermarks(), "numbers").uid(
            "numbers"
        )
        # No epoch ends by the clock, so that each phase lasts until something ends it.
        stage = numbers.spark_stage(
            in_spark(self.holds), _NUMBERS, _NUMBERS, SUBTASKS * SHARE, interval=Duration.of_minutes(600)
        )
        stage = stage.set_parallelism(SUBTASKS).name("stage").uid("stage")
        keyed = stage.key_by(lambda row: row[0] % KEYS, key_type=Types.LONG())
        counted = keyed.process(CountPerKey()).name("count").uid("count")
        held = counted.transform("gate", Gate(self.holds)).uid("gate")
        held.sink_to(FileSink(self.output.directory, _COUNTS)).name("sink").uid("sink")
        return env.execute_async("stage-chaos")

    def _configuration(self) -> Configuration:
        configuration = Configuration()
        for key, value in {
            "parallelism.default": str(SUBTASKS),
            "execution.target": "ray",
            "state.backend.type": "lmdb",
            "tidegate.slot.cpus": "1",
            "tidegate.batch.size": "500",
            # Less than a part of an emission: the next part waits until the first was taken.
            "tidegate.channel.credit": "4 kb",
            "tidegate.local-dir": str(self._directory / "local"),
            "metrics.fetcher.update-interval": "100 ms",
            "execution.checkpointing.dir": str(self._directory / "checkpoints"),
            "execution.checkpointing.interval": "300 ms",
            "execution.checkpointing.unaligned.enabled": str(self.is_unaligned).lower(),
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": "1000",
            "restart-strategy.fixed-delay.delay": "100 ms",
            "tidegate.spark.executor-memory": "512m",
            "tidegate.spark.executor-cores": "2",
            "tidegate.spark.log-dir": str(self._directory / "spark-logs"),
            "tidegate.spark.conf": "spark.executor.extraJavaOptions:'-XX:TieredStopAtLevel=1'",
        }.items():
            configuration.set_string(key, value)
        return configuration


class Output:
    """What the sink has committed. Its files do not change."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._read: set[Path] = set()
        self._rows = np.empty((0, 3), dtype=np.int64)

    def has_all_below(self, end: int) -> bool:
        """Whether there are as many numbers below `end` as there should be, or more."""
        self._look()
        return int((self._rows[:, 1] < end).sum()) >= end

    def faults(self, end: int) -> str:
        """What is wrong, an empty text if nothing is.

        Args:
            end: Numbers below this must be there. Others may.
        """
        self._look()
        copies = np.bincount(self._rows[:, 1], minlength=end)
        counts = np.bincount(self._rows[:, 0] + KEYS * self._rows[:, 2])
        found = {
            "numbers missing": int((copies[:end] == 0).sum()),
            "numbers doubled": int((copies > 1).sum()),
            "counts doubled": int((counts > 1).sum()),
            "counts missing": int(self._highest_counts().sum() - (counts > 0).sum()),
        }
        return ", ".join(f"{count} {what}" for what, count in found.items() if count)

    def _highest_counts(self) -> Any:
        highest = np.zeros(KEYS, dtype=np.int64)
        np.maximum.at(highest, self._rows[:, 0], self._rows[:, 2])
        return highest

    def _look(self) -> None:
        for path in set(self.directory.glob("*.parquet")) - self._read:
            table = pq.read_table(path)
            rows = np.column_stack([table[name].to_numpy() for name in _COUNTS.names])
            self._rows = np.concatenate([self._rows, rows])
            self._read.add(path)


def _replace(path: Path, text: str) -> None:
    """The job reads such files all the time, and must never find one half written."""
    written = path.with_name(f"{path.name}.new")
    written.write_text(text)
    written.replace(path)
