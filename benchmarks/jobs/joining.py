"""W6: each record of one stream meets the one of the other that has the same id, once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tidegate.common import Types, WatermarkStrategy
from tidegate.datastream import (
    KeyedCoProcessFunction,
    RuntimeContext,
    SourceReader,
    StreamExecutionEnvironment,
)
from tidegate.datastream.state import ValueStateDescriptor
from tidegate.protocol.elements import Batch

from ..peers.measure import Orders, right_id
from .parts import TRIPLE, TallySink, TimedNumbers, configuration


class LeftIds(TimedNumbers):
    """The ids in order; half of all records."""

    def __init__(self, orders: Orders) -> None:
        super().__init__(orders, orders.records // 2)


class RightIds(LeftIds):
    """The same ids, shuffled in blocks."""

    def create_reader(self, splits: list[Any]) -> SourceReader:
        return _Shuffled(super().create_reader(splits))


class _Shuffled(SourceReader):
    def __init__(self, reader: SourceReader) -> None:
        self._reader = reader

    def open(self, context: Any) -> None:
        self._reader.open(context)

    def poll(self, max_records: int) -> Batch | None:
        batch = self._reader.poll(max_records)
        return None if batch is None else Batch([right_id(i) for i in batch.values])

    def snapshot_state(self) -> list[Any]:
        return self._reader.snapshot_state()

    def close(self) -> None:
        self._reader.close()


class Pairs(KeyedCoProcessFunction):
    """Keeps what came first until its partner is there; a pair leaves nothing behind."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.waiting = runtime_context.get_state(ValueStateDescriptor("waiting", Types.LONG()))

    def process_element1(
        self, value: int, ctx: KeyedCoProcessFunction.Context
    ) -> Iterator[tuple[int, int, int]]:
        right = self.waiting.value()
        if right is None:
            self.waiting.update(3 * value)
        else:
            self.waiting.clear()
            yield value, 3 * value, right

    def process_element2(
        self, value: int, ctx: KeyedCoProcessFunction.Context
    ) -> Iterator[tuple[int, int, int]]:
        left = self.waiting.value()
        if left is None:
            self.waiting.update(5 * value)
        else:
            self.waiting.clear()
            yield value, left, 5 * value


def itself(value: int) -> int:
    """The key: the id."""
    return value


def join(orders: Orders) -> StreamExecutionEnvironment:
    """W6, ready to be executed."""
    env = StreamExecutionEnvironment.get_execution_environment(configuration(orders))
    env.set_parallelism(orders.parallelism)
    left, right = (
        env.from_source(source, WatermarkStrategy.no_watermarks(), name, Types.LONG())
        .uid(name)
        .key_by(itself, key_type=Types.LONG())
        for source, name in ((LeftIds(orders), "left"), (RightIds(orders), "right"))
    )
    pairs = left.connect(right).process(Pairs(), output_type=TRIPLE).uid("pairs")
    pairs.sink_to(TallySink(orders)).uid("tally")
    return env
