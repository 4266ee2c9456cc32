"""Operators on two connected streams."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tidegate.common.errors import StateError, UserCodeError
from tidegate.common.output_tag import OutputTag
from tidegate.common.typeinfo import Types
from tidegate.operators.connected import (
    CoFlatMapOperator,
    CoMapOperator,
    CoProcessOperator,
    KeyedCoProcessOperator,
)
from tidegate.operators.functions import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedCoProcessFunction,
)
from tidegate.operators.runtime_context import RuntimeContext
from tidegate.operators.timers.timer_service import TimeDomain
from tidegate.protocol.elements import Batch
from tidegate.state.descriptors import ValueStateDescriptor

from tests.operators.harness import OperatorUnderTest


class Signs(CoMapFunction):
    def map1(self, value: Any) -> Any:
        return value

    def map2(self, value: Any) -> Any:
        return -value


class Repeats(CoFlatMapFunction):
    def flat_map1(self, value: Any) -> Iterator[Any]:
        yield from [value] * value

    def flat_map2(self, value: Any) -> None:
        return None


def first(value: Any) -> Any:
    return value[0]


def batches(test: OperatorUnderTest[Any], *inputs: tuple[int, Batch]) -> list[tuple[Any, int | None]]:
    for input_index, batch in inputs:
        test.operator.process_batch(batch, input_index)
    return test.records()


def test_co_map_and_co_flat_map_keep_the_inputs_apart_and_the_timestamps() -> None:
    inputs = (0, Batch([1, 2], [10, 20])), (1, Batch([3], [30])), (0, Batch([2]))
    assert batches(OperatorUnderTest(CoMapOperator(Signs())).open(), *inputs) == [
        (1, 10), (2, 20), (-3, 30), (2, None),
    ]  # fmt: skip
    assert batches(OperatorUnderTest(CoFlatMapOperator(Repeats())).open(), *inputs) == [
        (1, 10), (2, 20), (2, 20), (2, None), (2, None),
    ]  # fmt: skip


def test_an_error_names_the_method_of_its_input() -> None:
    test = OperatorUnderTest(CoMapOperator(Signs())).open()
    with pytest.raises(UserCodeError, match=r"map2\(\) raised TypeError.*'x'"):
        test.operator.process_batch(Batch(["x"]), 1)


class Clocks(CoProcessFunction):
    def process_element1(self, value: Any, ctx: CoProcessFunction.Context) -> Iterator[Any]:
        yield value, ctx.timestamp(), ctx.timer_service().current_watermark()
        yield OutputTag("side"), value

    def process_element2(self, value: Any, ctx: CoProcessFunction.Context) -> None:
        ctx.timer_service().register_event_time_timer(value)


def test_a_co_process_function_knows_the_time_has_side_outputs_and_no_timers() -> None:
    test = OperatorUnderTest(CoProcessOperator(Clocks()), side_outputs=("side",)).open()
    test.operator.process_watermark(7, 0)
    assert test.watermarks == []
    test.operator.process_watermark(5, 1)
    assert batches(test, (0, Batch(["a"], [1]))) == [(("a", 1, 5), 1)]
    assert test.sides == {"side": [Batch(["a"], [1])]}
    with pytest.raises(StateError, match=r"Totals \(1/2\): a timer was registered .* call key_by\(\)"):
        test.operator.process_batch(Batch([3]), 1)


class Pairs(KeyedCoProcessFunction):
    """Waits for both halves of a key for ten milliseconds of event time."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._half = runtime_context.get_state(ValueStateDescriptor("half", Types.STRING()))

    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterator[Any]:
        return self._meet(value[1], ctx)

    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterator[Any]:
        return self._meet(value[2], ctx)

    def _meet(self, half: str, ctx: KeyedCoProcessFunction.Context) -> Iterator[Any]:
        other, due = self._half.value(), (ctx.timestamp() or 0) + 10
        if other is None:
            self._half.update(half)
            ctx.timer_service().register_event_time_timer(due)
        else:
            yield ctx.get_current_key(), other + half
            self._half.clear()

    def on_timer(self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext) -> Iterator[Any]:
        assert ctx.timestamp() == timestamp
        assert ctx.time_domain() is TimeDomain.EVENT_TIME
        if self._half.value() is not None:
            yield ctx.get_current_key(), "alone"


def test_both_inputs_share_the_state_and_the_timers_of_a_key() -> None:
    operator = KeyedCoProcessOperator(Pairs(), [first, first], Types.INT())
    test = OperatorUnderTest(operator).open()
    inputs = (0, Batch([(1, "l"), (2, "l")], [0, 5])), (1, Batch([(1, None, "r")], [3]))
    assert batches(test, *inputs) == [((1, "lr"), 3)]
    for input_index in (0, 1):
        test.operator.process_watermark(100, input_index)
    assert test.records()[1:] == [((2, "alone"), 15)]


def test_keyed_co_map_and_co_flat_map() -> None:
    test = OperatorUnderTest(KeyedCoProcessOperator(Signs(), [int, int], method="map")).open()
    assert batches(test, (0, Batch([1])), (1, Batch([2]))) == [(1, None), (-2, None)]
    test2 = OperatorUnderTest(KeyedCoProcessOperator(Repeats(), [int, int], method="flat_map")).open()
    assert batches(test2, (0, Batch([2])), (1, Batch([2]))) == [(2, None), (2, None)]
