"""Jobs for `verify_exactly_once`: right ones, and ones with the bugs it is there to find."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tidegate.common import Types
from tidegate.datastream import (
    DataStream,
    KeyedProcessFunction,
    RuntimeContext,
    SinkFunction,
    StreamExecutionEnvironment,
)
from tidegate.datastream.state import ValueStateDescriptor

Job = Callable[[StreamExecutionEnvironment], Any]


class CountInState(KeyedProcessFunction):
    """Counts in managed state."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        count = (self._count.value() or 0) + 1
        self._count.update(count)
        yield value[0], count


class CountInAttribute(KeyedProcessFunction):
    """Counts in an attribute, which no checkpoint knows: a crash loses it."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._counts: dict[Any, int] = {}

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        count = self._counts[value[0]] = self._counts.get(value[0], 0) + 1
        yield value[0], count


class AppendToFile(SinkFunction):
    """Writes at once, without a transaction: what comes again is there twice."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def invoke(self, value: Any) -> None:
        with self._path.open("a") as file:
            file.write(f"{value}\n")


def counting(function: KeyedProcessFunction, records: int = 60) -> Job:
    """Counts records by key, in two subtasks."""

    def build(env: StreamExecutionEnvironment) -> DataStream:
        stream = env.from_collection([(number % 3, number) for number in range(records)])
        return stream.key_by(lambda record: record[0]).process(function).uid("count").set_parallelism(2)

    return build


def appending(path: Path) -> Job:
    """Ends in a sink of its own."""

    def build(env: StreamExecutionEnvironment) -> None:
        env.from_collection(range(40)).add_sink(AppendToFile(path))

    return build
