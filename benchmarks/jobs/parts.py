"""The pieces the benchmark jobs share: source and sink with a stopwatch, functions, settings.

Functions and sinks travel to the tasks by reference, so they live in a module of their own and
not in the program that is run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tidegate.common import Configuration, Types
from tidegate.datastream import (
    DataStream,
    KeyedProcessFunction,
    KeyedStream,
    RuntimeContext,
    Sink,
    SinkWriter,
    SourceReader,
)
from tidegate.datastream.connectors.number_seq import NumberSequenceSource
from tidegate.datastream.state import ValueStateDescriptor
from tidegate.protocol.elements import Batch

from ..peers.latency import LatencyTally
from ..peers.measure import MULTIPLIER, Orders, Tally, leave_mark

TRIPLE = Types.TUPLE([Types.LONG(), Types.LONG(), Types.LONG()])


class TimedNumbers(NumberSequenceSource):
    """`NumberSequenceSource` with a stopwatch.

    Args:
        orders: where its marks go.
        records: how many numbers; those of the orders if omitted.
    """

    def __init__(self, orders: Orders, records: int | None = None) -> None:
        super().__init__(0, (orders.records if records is None else records) - 1)
        self._marks_dir = orders.marks_dir

    def create_reader(self, splits: list[Any]) -> SourceReader:
        return TimedReader(super().create_reader(splits), self._marks_dir)


class TimedReader(SourceReader):
    """Leaves marks as another reader is asked for its first batch, and as it is closed.

    Args:
        reader: the other one.
        marks_dir: where the marks go.
    """

    def __init__(self, reader: SourceReader, marks_dir: str) -> None:
        self._reader = reader
        self._marks_dir = marks_dir
        self._started = False

    def open(self, context: Any) -> None:
        self._name = f"{context.operator_uid}-{context.subtask_index}"
        self._reader.open(context)

    def poll(self, max_records: int) -> Any:
        if not self._started:
            self._started = True
            leave_mark(self._marks_dir, f"start-{self._name}")
        return self._reader.poll(max_records)

    def snapshot_state(self) -> list[Any]:
        return self._reader.snapshot_state()

    def close(self) -> None:
        self._reader.close()
        if self._started:
            leave_mark(self._marks_dir, f"read-{self._name}")


class PacedNumbers(TimedNumbers):
    """`TimedNumbers` that gives each subtask a thousand records a second, in batches of ten."""

    def create_reader(self, splits: list[Any]) -> SourceReader:
        return _PacedReader(NumberSequenceSource.create_reader(self, splits), self._marks_dir)


class _PacedReader(TimedReader):
    _next_s = 0.0

    def poll(self, max_records: int) -> Any:
        now_s = time.monotonic()
        if now_s < self._next_s:
            return Batch([])
        self._next_s = now_s + 0.01
        return super().poll(10)


class CountSum(KeyedProcessFunction):
    """W2's running count and sum."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.state = runtime_context.get_state(
            ValueStateDescriptor("count_sum", Types.TUPLE([Types.LONG(), Types.LONG()]))
        )

    def process_element(
        self, value: int, ctx: KeyedProcessFunction.Context
    ) -> Iterator[tuple[int, int, int]]:
        count, total = self.state.value() or (0, 0)
        count += 1
        total += value
        self.state.update((count, total))
        yield ctx.get_current_key(), count, total


class KeyOf:
    """The key selector: i · 2654435761 mod K."""

    def __init__(self, keys: int) -> None:
        self._keys = keys

    def __call__(self, value: int) -> int:
        return value * MULTIPLIER % self._keys


def add_one(x: int) -> int:
    """W1's map function."""
    return x + 1


def is_odd(x: int) -> bool:
    """W1's filter function."""
    return x % 2 == 1


def keyed_totals(by_key: KeyedStream) -> DataStream:
    """W2's process function behind a keyed stream."""
    return by_key.process(CountSum(), output_type=TRIPLE).uid("count-sum")


class TallySink(Sink):
    """Counts and sums, and keeps nothing."""

    def __init__(self, orders: Orders) -> None:
        self._orders = orders

    def create_writer(self) -> SinkWriter:
        return _TallyWriter(self._orders)


class _TallyWriter(SinkWriter):
    def __init__(self, orders: Orders) -> None:
        self._orders = orders

    def open(self, context: Any) -> None:
        leave_mark(self._orders.marks_dir, f"ready-{context.subtask_index}")
        tally = Tally(self._orders, context.subtask_index)
        latencies = LatencyTally(self._orders, context.subtask_index)
        # Bound once: the tally's method takes a whole batch, as the writer does.
        takers: dict[str, tuple[Callable[[Any], None], Callable[[], None]]] = {
            "W1": (tally.add_numbers, tally.close),
            "W4": (tally.add_windows, tally.close),
            "W7": (latencies.add, latencies.close),
        }
        self._add, self._close = takers.get(self._orders.workload, (tally.add_triples, tally.close))

    def write_batch(self, values: list[Any]) -> None:
        self._add(values)

    def close(self) -> None:
        self._close()


def configuration(orders: Orders) -> Configuration:
    """The settings of one run."""
    result = Configuration()
    result.set_string("execution.target", orders.shell)
    result.set_string("state.backend.type", orders.backend)
    # Ten million keys in LMDB are a gigabyte, which the folder for temporary files need not have.
    result.set_string("tidegate.local-dir", str(Path(orders.state_dir).parent / "local"))
    if orders.mode == "slot":
        result.set_string("tidegate.slot.share-process", "true")
    if orders.interval_ms:
        result.set_string("execution.checkpointing.interval", f"{orders.interval_ms} ms")
        result.set_string("execution.checkpointing.dir", orders.state_dir)
    if orders.restore_path:
        result.set_string("execution.state-recovery.path", orders.restore_path)
    return result
