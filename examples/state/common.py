"""What both examples share: a source that counts, a failure on purpose, and the settings."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from tidegate.common import Configuration
from tidegate.datastream import (
    CheckpointListener,
    MapFunction,
    RuntimeContext,
    Source,
    SourceReader,
    StreamExecutionEnvironment,
)
from tidegate.protocol.elements import Batch


class CountingSource(Source):
    """Counts from 0 in every split.

    Args:
        count: How many numbers each split has.
        splits: How many splits there are; they are dealt out to the subtasks.
    """

    def __init__(self, count: int, splits: int = 1) -> None:
        self.count = count
        self.splits = splits

    def create_splits(self, parallelism: int) -> list[Any]:
        return [(split, 0) for split in range(self.splits)]

    def create_reader(self, splits: list[Any]) -> SourceReader:
        return CountingReader(splits, self.count)


class CountingReader(SourceReader, CheckpointListener):
    """Stops half way until a checkpoint is complete, so that there is one to go back to."""

    def __init__(self, splits: list[Any], count: int) -> None:
        self.positions = dict(splits)
        self.count = count
        self.has_checkpoint = False

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self.has_checkpoint = True

    def poll(self, max_records: int) -> Batch | None:
        if all(position >= self.count for position in self.positions.values()):
            return None
        limit = self.count if self.has_checkpoint else self.count // 2
        records: list[Any] = []
        for split, position in self.positions.items():
            end = max(position, min(limit, position + 100))
            records += [(split, number) for number in range(position, end)]
            self.positions[split] = end
        return Batch(records)

    def snapshot_state(self) -> list[Any]:
        """The splits with their positions. They are list state: on a rescale each split moves whole."""
        return list(self.positions.items())


class CrashOnce(MapFunction, CheckpointListener):
    """Fails on the first record after the first complete checkpoint, once, if it is told to."""

    def __init__(self, crashes: bool) -> None:
        self.crashes = crashes
        self.has_checkpoint = False

    def open(self, runtime_context: RuntimeContext) -> None:
        self.crashes = self.crashes and runtime_context.get_attempt_number() == 0

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self.has_checkpoint = True

    def map(self, value: Any) -> Any:
        if self.crashes and self.has_checkpoint:
            raise RuntimeError(f"a failure on purpose, at the record {value}")
        return value


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--directory", type=Path, required=True, help="for checkpoints and output")
    parser.add_argument("--count", type=int, default=2_000, help="numbers per split")
    parser.add_argument("--parallelism", type=int, default=1)
    parser.add_argument("--crash", action="store_true", help="fail once, after the first checkpoint")
    return parser.parse_args()


def environment(directory: Path) -> StreamExecutionEnvironment:
    """Runs in this process, with a checkpoint every 20 ms and up to three restarts."""
    configuration = Configuration()
    for key, value in {
        "execution.target": "local",
        "execution.checkpointing.interval": "20 ms",
        "execution.checkpointing.dir": str(directory / "checkpoints"),
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "3",
        "restart-strategy.fixed-delay.delay": "10 ms",
    }.items():
        configuration.set_string(key, value)
    return StreamExecutionEnvironment.get_execution_environment(configuration)
