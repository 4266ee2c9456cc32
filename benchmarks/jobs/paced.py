"""W7, the latency of a paced source's records, and W9's checkpoints of a state of which a part changes."""

from __future__ import annotations

import time
from collections.abc import Iterator
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
from tidegate.protocol.elements import Batch

from ..peers.latency import SECOND_NS, Schedule
from ..peers.measure import MULTIPLIER, Orders, leave_mark
from .parts import TRIPLE, KeyOf, TallySink, TimedReader, configuration, keyed_totals


class DueTimes(Source):
    """Emits the times in ns at which its records are due, as they become due.

    It is not asked again after a failure, so its position is not kept.
    """

    def __init__(self, orders: Orders) -> None:
        self._orders = orders

    def create_splits(self, parallelism: int) -> list[Any]:
        return [(first, parallelism) for first in range(parallelism)]

    def create_reader(self, splits: list[Any]) -> SourceReader:
        return TimedReader(_DueTimesReader(self._orders, *splits[0]), self._orders.marks_dir)


class _DueTimesReader(SourceReader):
    def __init__(self, orders: Orders, first: int, step: int) -> None:
        self._schedule = Schedule(orders, first, step)

    def poll(self, max_records: int) -> Batch | None:
        times = self._schedule.due(max_records)
        return None if times is None else Batch(times)

    def snapshot_state(self) -> list[Any]:
        return []


class CountedDueTimes(KeyedProcessFunction):
    """Counts a key's records, and hands each one's time on."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.state = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(
        self, value: int, ctx: KeyedProcessFunction.Context
    ) -> Iterator[tuple[int, int, int]]:
        count = (self.state.value() or 0) + 1
        self.state.update(count)
        yield ctx.get_current_key(), count, value


class KeyOfDueTime:
    """The key of the record that is due at a time: neighbours have different ones.

    Args:
        orders: the number of keys, and the rate, which is how long a record's time lasts.
    """

    def __init__(self, orders: Orders) -> None:
        self._keys = orders.keys
        self._step_ns = SECOND_NS // orders.rate

    def __call__(self, due_ns: int) -> int:
        return due_ns // self._step_ns * MULTIPLIER % self._keys


def latency(orders: Orders) -> StreamExecutionEnvironment:
    """W7, ready to be executed."""
    env = StreamExecutionEnvironment.get_execution_environment(configuration(orders))
    env.set_parallelism(orders.parallelism)
    # Ours and the peers' alike: a batch waits no longer than this.
    env.set_buffer_timeout(1)
    times = env.from_source(
        DueTimes(orders), WatermarkStrategy.no_watermarks(), "due times", Types.LONG()
    ).uid("due-times")
    by_key = times.key_by(KeyOfDueTime(orders), key_type=Types.LONG())
    counted = by_key.process(CountedDueTimes(), output_type=TRIPLE).uid("count")
    counted.sink_to(TallySink(orders)).uid("latency")
    return env


class FilledThenPaced(Source):
    """All keys once as fast as it goes, then the first keys again and again at a rate.

    Args:
        orders: keys, records of the second part and their rate; `mode` is the percentage of keys in it.
    """

    def __init__(self, orders: Orders) -> None:
        self._orders = orders

    def create_splits(self, parallelism: int) -> list[Any]:
        return [0]

    def create_reader(self, splits: list[Any]) -> SourceReader:
        return TimedReader(_FilledThenPacedReader(self._orders), self._orders.marks_dir)


class _FilledThenPacedReader(SourceReader):
    def __init__(self, orders: Orders) -> None:
        self._orders = orders
        self._hot = orders.keys * int(orders.mode) // 100
        self._filled = 0
        self._updates = 0
        self._start_ns = 0

    def poll(self, max_records: int) -> Batch | None:
        if self._filled < self._orders.keys:
            return self._fill(max_records)
        if self._updates >= self._orders.records:
            return None
        due = (time.monotonic_ns() - self._start_ns) * self._orders.rate // SECOND_NS
        stop = min(due, self._updates + max_records, self._orders.records)
        numbers = [i % self._hot for i in range(self._updates, stop)]
        self._updates += len(numbers)
        return Batch(numbers)

    def snapshot_state(self) -> list[Any]:
        return []

    def _fill(self, max_records: int) -> Batch:
        numbers = list(range(self._filled, min(self._filled + max_records, self._orders.keys)))
        self._filled += len(numbers)
        if self._filled == self._orders.keys:
            leave_mark(self._orders.marks_dir, "filled", wall_ms=time.time() * 1e3)
            self._start_ns = time.monotonic_ns()
        return Batch(numbers)


def changing(orders: Orders) -> StreamExecutionEnvironment:
    """W9's checkpoints, ready to be executed."""
    env = StreamExecutionEnvironment.get_execution_environment(configuration(orders))
    numbers = env.set_parallelism(1).from_source(
        FilledThenPaced(orders), WatermarkStrategy.no_watermarks(), "numbers", Types.LONG()
    )
    by_key = numbers.uid("numbers").key_by(KeyOf(orders.keys), key_type=Types.LONG())
    keyed_totals(by_key).sink_to(TallySink(orders)).uid("tally")
    return env
