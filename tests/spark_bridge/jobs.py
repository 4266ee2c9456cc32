"""Jobs with Spark that the tests here share, and how they look at Java processes."""

from __future__ import annotations

import queue
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
from tidegate.common import Configuration
from tidegate.datastream import Source, SourceReader, StreamExecutionEnvironment
from tidegate.datastream.settings.spark_settings import spark_settings
from tidegate.operators.base import OperatorContext, StreamOperator
from tidegate.protocol.checkpoints.handles import OperatorSnapshot
from tidegate.protocol.elements import Batch
from tidegate.spark_bridge.session import SparkSettings, session_host
from tidegate.spark_bridge.source import SparkSource
from tidegate.spark_bridge.stage import SparkStageOperator

from ..operators.harness import OperatorUnderTest

WAIT_S = 180
NO_LIMIT = sys.maxsize
NUMBERS = pa.schema([("id", pa.int64())])

LOCAL = Configuration()
"""What all jobs on the local target have in common; one session serves those with equal Spark settings."""
LOCAL.set_string("execution.target", "local")
SPARK = spark_settings(LOCAL)


def environment(
    directory: Path | None = None, options: Mapping[str, str] | None = None
) -> StreamExecutionEnvironment:
    """A local environment; with a directory it takes checkpoints and restarts a job that failed."""
    configuration = Configuration(LOCAL)
    if directory is not None:
        checkpoints = {
            "tidegate.local-dir": str(directory / "local"),
            "execution.checkpointing.dir": str(directory / "checkpoints"),
            "execution.checkpointing.interval": "10 ms",
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": "2",
            "restart-strategy.fixed-delay.delay": "1 ms",
        }
        for key, value in checkpoints.items():
            configuration.set_string(key, value)
    for key, value in (options or {}).items():
        configuration.set_string(key, value)
    return StreamExecutionEnvironment.get_execution_environment(configuration)


def is_started(operator: StreamOperator) -> bool:
    """Whether the session is there; waits for it."""
    session_host().session()
    return operator.is_ready()


class StageUnderTest(OperatorUnderTest[SparkStageOperator]):
    """A stage whose results arrive when the test takes its mail, as on a task's loop."""

    def __init__(self, operator: SparkStageOperator, restored: OperatorSnapshot | None = None) -> None:
        super().__init__(operator, restored, parallelism=1)
        self.mail: queue.Queue[Callable[[], None]] = queue.Queue()
        self.operator.context.mailbox = self.mail.put
        self.open()

    def take_mail(self) -> None:
        """Wait for one mail, and do what it says: the session has started, or an epoch has finished."""
        self.mail.get(timeout=WAIT_S)()
        # Results leave one batch after the other, when the loop runs what is due.
        self.advance_to(self.now_ms)


def emitted(stage: OperatorUnderTest[Any]) -> list[Any]:
    """The records that an operator has emitted."""
    return [record for batch in stage.emitted for record in batch.rows()]


def java_pid() -> int:
    """Process id of the Java behind this process's session."""
    return int(session_host().session().sparkContext._gateway.proc.pid)


def java_processes() -> list[psutil.Process]:
    """Java processes below this one: Ray's daemons, their workers and what those start are."""
    return [process for process in psutil.Process().children(recursive=True) if _name(process) == "java"]


def _name(process: psutil.Process) -> str:
    try:
        return str(process.name())
    except psutil.NoSuchProcess:
        return ""


class HeldSparkSource(Source):
    """A Spark source that is held back.

    Args:
        limit: Called with the number of snapshots that a reader has taken since it came to its limit, and
            with the position it started from; the position up to which it may read, `NO_LIMIT` for the end
            as well. What it raises fails the job.
    """

    def __init__(
        self, build: Callable[[Any], Any], settings: SparkSettings, limit: Callable[[int, int], int]
    ) -> None:
        self._source = SparkSource(build, ["id"], settings)
        self._limit = limit

    def create_splits(self, parallelism: int) -> list[Any]:
        return self._source.create_splits(parallelism)

    def create_reader(self, splits: list[Any]) -> SourceReader:
        return _HeldReader(self._source.create_reader(splits), splits[0].rows, self._limit)

    def max_source_parallelism(self) -> int | None:
        return self._source.max_source_parallelism()

    def colocation_group(self) -> str | None:
        return self._source.colocation_group()

    def validate(self) -> None:
        self._source.validate()


class _HeldReader(SourceReader):
    def __init__(self, reader: SourceReader, start: int, limit: Callable[[int, int], int]) -> None:
        self._reader = reader
        self._start = start
        self._position = start
        self._limit = limit
        self._snapshots = 0
        self._is_held = False

    def open(self, context: OperatorContext) -> None:
        self._reader.open(context)

    def poll(self, max_records: int) -> Batch | None:
        limit = min(max_records, self._limit(self._snapshots, self._start) - self._position)
        self._is_held = limit <= 0
        if self._is_held:
            return Batch([])
        batch = self._reader.poll(limit)
        self._position += 0 if batch is None else len(batch)
        return batch

    def snapshot_state(self) -> list[Any]:
        self._snapshots += self._is_held
        return self._reader.snapshot_state()

    def close(self) -> None:
        self._reader.close()
