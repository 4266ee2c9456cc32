"""Environments and parts of jobs that the tests here share. Everything runs in this process."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from tidegate.common import Configuration, Types, WatermarkStrategy
from tidegate.datastream import (
    DataStream,
    KeyedProcessFunction,
    MapFunction,
    RuntimeContext,
    Source,
    SourceReader,
    StreamExecutionEnvironment,
)
from tidegate.datastream.state import ValueStateDescriptor
from tidegate.protocol.elements import Batch

COUNT = 200
"""How many numbers `held` gives."""
WAIT_S = 120
"""Nothing here takes so long; a test that waits longer hangs."""


def environment(
    directory: Path | None = None, parallelism: int = 1, options: Mapping[str, str] | None = None
) -> StreamExecutionEnvironment:
    """A local environment with further options; with a directory it takes a checkpoint every 10 ms."""
    configuration = Configuration()
    configuration.set_string("execution.target", "local")
    if directory is not None:
        configuration.set_string("tidegate.local-dir", str(directory / "local"))
        configuration.set_string("execution.checkpointing.dir", str(directory / "checkpoints"))
        configuration.set_string("execution.checkpointing.interval", "10 ms")
        configuration.set_string("restart-strategy.type", "fixed-delay")
        configuration.set_string("restart-strategy.fixed-delay.attempts", "3")
        configuration.set_string("restart-strategy.fixed-delay.delay", "1 ms")
    for key, value in (options or {}).items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    return env.set_parallelism(parallelism)


class HeldSource(Source):
    """The numbers from 0 to `count`, in `splits` splits; each reader stops half way for a while.

    Args:
        count: How many numbers.
        snapshots: How many snapshots a reader must have taken before it reads on. When the second one
            is taken the first is complete, since there is one at a time. `None` holds it for ever.
        splits: Into how many splits the numbers are cut.
        batch_size: How many numbers a reader gives at once.
    """

    def __init__(self, count: int, snapshots: int | None = 2, splits: int = 4, batch_size: int = 5) -> None:
        self.count = count
        self.snapshots = snapshots
        self.splits = splits
        self.batch_size = batch_size

    def create_splits(self, parallelism: int) -> list[Any]:
        bounds = [self.count * index // self.splits for index in range(self.splits + 1)]
        return [(low, high, (low + high) // 2) for low, high in itertools.pairwise(bounds)]

    def create_reader(self, splits: list[Any]) -> SourceReader:
        return HeldReader(splits, self.snapshots, self.batch_size)


class HeldReader(SourceReader):
    def __init__(self, splits: list[Any], snapshots: int | None, batch_size: int) -> None:
        self.waiting = list(splits)
        self.snapshots = snapshots
        self.batch_size = batch_size
        self.taken = 0

    def poll(self, max_records: int) -> Batch | None:
        if not self.waiting:
            return None
        position, end, hold_at = self.waiting[0]
        if position >= end:
            self.waiting.pop(0)
        elif position == hold_at and (self.snapshots is None or self.taken < self.snapshots):
            # The next split gets its turn up to its own half.
            self.waiting.append(self.waiting.pop(0))
        else:
            stop = min(position + min(max_records, self.batch_size), end if position >= hold_at else hold_at)
            self.waiting[0] = (stop, end, hold_at)
            return Batch(list(range(position, stop)))
        return Batch([])

    def snapshot_state(self) -> list[Any]:
        self.taken += 1
        return list(self.waiting)


class RunningSum(KeyedProcessFunction):
    """Emits (key, count, sum) for every record."""

    def open(self, runtime_context: RuntimeContext) -> None:
        type_info = Types.TUPLE([Types.LONG(), Types.LONG()])
        self.total = runtime_context.get_state(ValueStateDescriptor("total", type_info))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        count, total = self.total.value() or (0, 0)
        self.total.update((count + 1, total + value))
        yield ctx.get_current_key(), count + 1, total + value


class CountDown(MapFunction):
    """Sets an event when so many records have passed, over all subtasks."""

    reached = threading.Event()
    passed = 0

    def __init__(self, count: int) -> None:
        self.count = count

    def map(self, value: Any) -> Any:
        CountDown.passed += 1
        if CountDown.passed == self.count:
            CountDown.reached.set()
        return value

    @staticmethod
    def restart() -> None:
        CountDown.reached.clear()
        CountDown.passed = 0


def expected_sums(count: int, keys: int) -> set[tuple[int, int, int]]:
    """The last result of each key of `RunningSum` over the numbers below `count`, keyed modulo `keys`."""
    parts = [range(key, count, keys) for key in range(keys)]
    return {(key, len(part), sum(part)) for key, part in enumerate(parts)}


class Kept(MapFunction):
    """Keeps what passes, by name, for a test in the same process."""

    results: ClassVar[dict[str, list[Any]]] = {}

    def __init__(self, name: str) -> None:
        self.name = name
        Kept.results[name] = []

    def map(self, value: Any) -> Any:
        Kept.results[self.name].append(value)
        return value


def held(env: StreamExecutionEnvironment, **settings: Any) -> DataStream:
    """The numbers below `COUNT`; half of them wait for a checkpoint."""
    source = HeldSource(COUNT, **settings)
    return env.from_source(source, WatermarkStrategy.no_watermarks(), "Held").uid("held")
