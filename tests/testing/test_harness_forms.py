"""Harnesses of functions with side outputs, two inputs and broadcast state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tidegate.common import Types
from tidegate.common.errors import ConfigurationError
from tidegate.datastream import (
    BroadcastProcessFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    OutputTag,
    ProcessFunction,
    RuntimeContext,
)
from tidegate.datastream.state import MapStateDescriptor, ValueStateDescriptor
from tidegate.testing import (
    BroadcastHarness,
    KeyedBroadcastHarness,
    KeyedTwoInputHarness,
    OneInputHarness,
    TwoInputHarness,
)

LATE = OutputTag("late", Types.STRING())
RULES = MapStateDescriptor("rules", Types.STRING(), Types.STRING())


class SplitLate(ProcessFunction):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[Any]:
        if value.startswith("late"):
            yield LATE, value
        else:
            yield value


def test_side_outputs_are_there_by_their_tags() -> None:
    with OneInputHarness(SplitLate(), side_outputs=[LATE]) as harness:
        harness.process_elements(["now", "late 1", "late 2"])
        assert harness.output() == ["now"]
        assert harness.side_output(LATE) == ["late 1", "late 2"]
    with (
        OneInputHarness(SplitLate()) as harness,
        pytest.raises(ConfigurationError, match="name 'late' in side"),
    ):
        harness.side_output(LATE)


class Both(CoMapFunction):
    def map1(self, value: Any) -> Any:
        return "first", value

    def map2(self, value: Any) -> Any:
        return "second", value


def test_two_inputs_meet_and_their_watermarks_too() -> None:
    with TwoInputHarness(Both()) as harness:
        harness.process_element1(1, 10)
        harness.process_element2(2, 20)
        assert harness.records() == [(("first", 1), 10), (("second", 2), 20)]
        harness.process_watermark1(15)
        assert harness.watermarks() == []
        harness.process_watermark2(12)
        assert harness.watermarks() == [12]


def test_a_barrier_waits_for_the_other_input() -> None:
    with TwoInputHarness(Both()) as harness:
        harness.process_barrier(1, input_number=0)
        harness.process_element1("behind the barrier")
        harness.process_element2("before it")
        assert harness.output() == [("second", "before it")]
        assert harness.barriers() == []
        harness.process_barrier(1, input_number=1)
        assert harness.barriers() == [1]
        assert harness.output() == [("second", "before it"), ("first", "behind the barrier")]


class Contexts(CoProcessFunction):
    def process_element1(self, value: Any, ctx: CoProcessFunction.Context) -> Iterator[Any]:
        yield 1, value, ctx.timestamp()

    def process_element2(self, value: Any, ctx: CoProcessFunction.Context) -> Iterator[Any]:
        yield 2, value, ctx.timestamp()


def test_a_process_function_of_two_inputs_sees_timestamps() -> None:
    with TwoInputHarness(Contexts()) as harness:
        harness.process_element1("a", 5)
        harness.process_element2("b", 6)
        assert harness.output() == [(1, "a", 5), (2, "b", 6)]


class Join(KeyedCoProcessFunction):
    """Joins the last value of the first input with those of the second."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._last = runtime_context.get_state(ValueStateDescriptor("last", Types.INT()))

    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterator[Any]:
        self._last.update(value[1])
        yield from ()

    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterator[Any]:
        yield value[0], self._last.value(), value[1]


def joining(**options: Any) -> KeyedTwoInputHarness:
    def key(value: Any) -> Any:
        return value[0]

    return KeyedTwoInputHarness(Join(), key, key, Types.STRING(), **options)


def test_two_keyed_inputs_share_state() -> None:
    with joining(parallelism=2) as harness:
        harness.process_element1(("a", 1))
        harness.process_element2(("a", 10))
        harness.process_element2(("b", 20))
        assert sorted(harness.output()) == [("a", 1, 10), ("b", None, 20)]
        assert harness.get_state("last", "a") == 1
        stored = harness.snapshot()
    with joining(restored=stored) as again:
        again.process_element2(("a", 11))
        assert again.output() == [("a", 1, 11)]


class Apply(BroadcastProcessFunction):
    def process_element(self, value: Any, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Iterator[Any]:
        yield ctx.get_broadcast_state(RULES).get(value)

    def process_broadcast_element(self, value: Any, ctx: BroadcastProcessFunction.Context) -> Iterator[Any]:
        ctx.get_broadcast_state(RULES).put(*value)
        yield from ()


def test_broadcast_elements_reach_every_subtask_and_survive() -> None:
    with BroadcastHarness(Apply(), RULES, parallelism=3) as harness:
        harness.process_broadcast_element(("a", "rule of a"))
        harness.process_elements(["a"] * 5)
        assert harness.output() == ["rule of a"] * 5
        stored = harness.snapshot()
    with BroadcastHarness(Apply(), RULES, parallelism=2, restored=stored) as again:
        again.process_elements(["a"] * 4)
        assert again.output() == ["rule of a"] * 4


class ApplyToKeys(KeyedBroadcastProcessFunction):
    def process_element(
        self, value: Any, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext
    ) -> Iterator[Any]:
        yield ctx.get_current_key(), ctx.get_broadcast_state(RULES).get(value)

    def process_broadcast_element(
        self, value: Any, ctx: KeyedBroadcastProcessFunction.Context
    ) -> Iterator[Any]:
        ctx.get_broadcast_state(RULES).put(*value)
        yield from ()


def test_broadcast_elements_meet_keyed_ones() -> None:
    options: Any = {"key_type": Types.STRING(), "parallelism": 2}
    with KeyedBroadcastHarness(ApplyToKeys(), lambda value: value, RULES, **options) as harness:
        harness.process_broadcast_element(("a", "rule of a"))
        harness.process_elements(["a", "b"])
        assert sorted(harness.output(), key=str) == [("a", "rule of a"), ("b", None)]
