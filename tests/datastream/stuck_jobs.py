"""Jobs whose sinks stand still until a checkpoint is complete, and the world that they write to.

Everything runs in this process and in one thread, so nothing here waits for time to pass: an aligned
checkpoint can never complete, because the sink never takes the records before its barrier.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tidegate.common import Types, WatermarkStrategy
from tidegate.datastream import (
    KeyedProcessFunction,
    RuntimeContext,
    Source,
    SourceReader,
    StreamExecutionEnvironment,
)
from tidegate.datastream.state import ValueStateDescriptor
from tidegate.operators.checkpointed import CheckpointListener
from tidegate.operators.sinks import Committer, Sink, SinkWriter
from tidegate.protocol.elements import Batch

from .jobs import environment

COUNT = 1_200
KEYS = 13
OPTIONS = {
    "pipeline.max-parallelism": "12",
    "execution.checkpointing.unaligned.enabled": "true",
    "tidegate.batch.size": "7",
    "tidegate.channel.credit": "1000",
}
"""Little credit and small batches: the stop of the sink reaches the sources soon."""
STANDSTILL = 200
"""After so many refusals of sinks every channel is full, since the tasks take turns."""


class World:
    """Outside of every job: what is visible, and whether the sinks go on."""

    def __init__(self, fails: bool) -> None:
        self.is_open = False
        self.fails = fails
        self.refusals = 0
        self.batches = 0
        self.committed: dict[str, list[Any]] = {}

    def visible(self) -> Counter[Any]:
        """How often each record was committed."""
        return Counter(record for records in self.committed.values() for record in records)


world = World(fails=False)


def new_world(fails: bool = False) -> World:
    """A fresh world for a test; with `fails` the first sink that goes on dies."""
    global world
    world = World(fails)
    return world


class Numbers(Source):
    """The numbers below `COUNT`; a complete checkpoint that began in the standstill opens the sinks."""

    def create_splits(self, parallelism: int) -> list[Any]:
        bounds = [COUNT * index // 4 for index in range(5)]
        return list(itertools.pairwise(bounds))

    def create_reader(self, splits: list[Any]) -> SourceReader:
        return NumbersReader(splits)


class NumbersReader(SourceReader, CheckpointListener):
    def __init__(self, splits: list[Any]) -> None:
        self.splits = list(splits)
        self.is_late = False

    def poll(self, max_records: int) -> Batch | None:
        if not self.splits:
            return None
        low, high = self.splits.pop(0)
        stop = min(low + max_records, high)
        if stop < high:
            self.splits.append((stop, high))
        return Batch(list(range(low, stop)))

    def snapshot_state(self) -> list[Any]:
        self.is_late = world.refusals >= STANDSTILL
        return list(self.splits)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        world.is_open |= self.is_late


class CountPerKey(KeyedProcessFunction):
    """Emits (key, how many of its records came so far)."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield ctx.get_current_key(), count


class StuckSink(Sink):
    """Takes a batch per subtask, then nothing until the world is open."""

    def create_writer(self) -> SinkWriter:
        return StuckWriter()

    def create_committer(self) -> Committer:
        return WorldCommitter()


class StuckWriter(SinkWriter):
    def open(self, context: Any) -> None:
        self.name = f"{context.job_id}-{context.subtask_index}-{context.attempt}"
        self.values: list[Any] = []
        self.batches = 0

    def is_ready(self) -> bool:
        is_ready = world.is_open or self.batches == 0
        world.refusals += not is_ready
        return is_ready

    def write_batch(self, values: list[Any]) -> None:
        self.batches += 1
        self.values += values
        if world.is_open and world.fails:
            world.fails = False
            raise OSError("the sink dies")

    def prepare_commit(self) -> list[Any]:
        world.batches += 1
        values, self.values = self.values, []
        return [(f"{self.name}-{world.batches}", values)] if values else []


class WorldCommitter(Committer):
    def commit(self, committables: list[Any]) -> None:
        world.committed.update(committables)


def stuck_job(
    directory: Path | None,
    parallelism: int = 2,
    sources: int = 2,
    sinks: int = 3,
    options: Mapping[str, str] | None = None,
) -> StreamExecutionEnvironment:
    """Numbers, counted per key: a keyed and a rebalanced exchange in front of a sink that stands still."""
    env = environment(directory, parallelism, {**OPTIONS, **(options or {})})
    counted = (
        env.from_source(Numbers(), WatermarkStrategy.no_watermarks(), "numbers")
        .uid("numbers")
        .set_parallelism(sources)
        .key_by(lambda number: number % KEYS, key_type=Types.LONG())
        .process(CountPerKey())
        .uid("count")
        .rebalance()
    )
    counted.sink_to(StuckSink()).uid("sink").set_parallelism(sinks)
    return env


def expected() -> Counter[Any]:
    """Every (key, n) once."""
    return Counter((number % KEYS, number // KEYS + 1) for number in range(COUNT))
