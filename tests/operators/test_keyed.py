"""Operators on keyed streams: each key has its own state, whatever comes between its records."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pytest
from tidegate.common.errors import UserCodeError
from tidegate.common.time import Time
from tidegate.common.typeinfo import Types
from tidegate.operators.functions import KeyedProcessFunction, ReduceFunction
from tidegate.operators.keyed.keyed import KeyedOperator, KeyedProcessOperator, KeyedReduceOperator
from tidegate.operators.keyed.keyed_with_state import KeyedWithStateOperator
from tidegate.operators.runtime_context import RuntimeContext
from tidegate.protocol.elements import MAX_WATERMARK_MS
from tidegate.state.descriptors import ValueStateDescriptor
from tidegate.state.ttl_config import StateTtlConfig

from .harness import OperatorUnderTest

RECORDS = [("a", 1), ("b", 10), ("a", 2), ("b", 20), ("a", 3)]


def key_of(record: Any) -> Any:
    return record[0]


class RunningSum(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        total = (self.total.value() or 0) + value[1]
        self.total.update(total)
        yield ctx.get_current_key(), total, ctx.timestamp()


def running_sum() -> KeyedProcessOperator:
    return KeyedProcessOperator(RunningSum(), key_of)


def test_each_key_has_its_own_state() -> None:
    test = OperatorUnderTest(running_sum()).open()
    assert [result[:2] for result in test.process(RECORDS)] == [
        ("a", 1), ("b", 10), ("a", 3), ("b", 30), ("a", 6)
    ]  # fmt: skip
    assert test.process([("b", 1)]) == [("b", 31, None)]


@pytest.mark.parametrize("times", [[10, 20, 30, 40, 50], array("q", [10, 20, 30, 40, 50])])
def test_timestamps_reach_the_function_and_its_results(times: Sequence[int]) -> None:
    test = OperatorUnderTest(running_sum()).open()
    test.process(RECORDS, times)
    assert [(result[2], timestamp) for result, timestamp in test.records()] == [
        (time, time) for time in (10, 20, 30, 40, 50)
    ]
    assert type(test.emitted[0].timestamps) is type(times)


class Countdown(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        for left in range(value[1], 0, -1):
            yield left, ctx.timestamp()


def test_each_of_many_results_of_a_generator_has_the_time_of_its_record() -> None:
    test = OperatorUnderTest(KeyedProcessOperator(Countdown(), key_of)).open()
    test.process([("a", 2), ("b", 0), ("a", 1)], [10, 20, 30])
    assert test.records() == [((2, 10), 10), ((1, 10), 10), ((1, 30), 30)]


@pytest.mark.parametrize(
    "keys", [["x", "y", "x", "y", "x"], np.array([7, 8, 7, 8, 7])], ids=["list", "array"]
)
def test_keys_that_came_along_are_used_instead_of_the_selector(keys: Any) -> None:
    def never(record: Any) -> Any:
        raise AssertionError("the sender has computed the keys")

    test = OperatorUnderTest(KeyedProcessOperator(RunningSum(), never)).open()
    results = test.process(RECORDS, None, keys)
    assert [result[0] for result in results] == list(keys)
    assert all(type(result[0]) in (str, int) for result in results)


def test_state_survives_a_checkpoint_and_a_restore() -> None:
    test = OperatorUnderTest(running_sum(), parallelism=1).open()
    test.process(RECORDS)
    snapshot = test.checkpoint(1)
    test.process([("a", 1_000)])
    again = OperatorUnderTest(
        running_sum(), restored=snapshot, storage=test.storage, attempt=2, parallelism=1
    ).open()
    assert [result[:2] for result in again.process([("a", 1), ("b", 1), ("c", 1)])] == [
        ("a", 7), ("b", 31), ("c", 1)
    ]  # fmt: skip


class Remember(RunningSum):
    """Usable as map, filter and flat_map: true for the first record of a key."""

    def __call__(self, value: Any) -> Any:
        is_new = self.total.value() is None
        self.total.update(1)
        return is_new

    map = filter = __call__

    def flat_map(self, value: Any) -> list[Any] | None:
        return [value, value] if self(value) else None


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("map", [True, True, False, False, False]),
        ("filter", RECORDS[:2]),
        ("flat_map", [RECORDS[0]] * 2 + [RECORDS[1]] * 2),
    ],
)
@pytest.mark.parametrize("timestamps", [None, [1, 2, 3, 4, 5]])
def test_map_filter_and_flat_map_may_use_keyed_state(
    method: str, expected: list[Any], timestamps: list[int] | None
) -> None:
    operator = KeyedProcessOperator(Remember(), key_of, None, method)
    assert OperatorUnderTest(operator).open().process(RECORDS, timestamps) == expected


class Larger(ReduceFunction):
    def reduce(self, value1: Any, value2: Any) -> Any:
        return max(value1, value2)


@pytest.mark.parametrize("function", [Larger(), max])
def test_reduce_emits_the_value_so_far_for_every_record(function: Any) -> None:
    test = OperatorUnderTest(KeyedReduceOperator(function, key_of)).open()
    records = [("a", 5), ("b", 1), ("a", 3), ("a", 9)]
    assert test.process(records, [1, 2, 3, 4]) == [("a", 5), ("b", 1), ("a", 5), ("a", 9)]
    assert [timestamp for _, timestamp in test.records()] == [1, 2, 3, 4]
    assert test.process([("b", 0)]) == [("b", 1)]


def test_reduce_combines_with_values_that_are_false() -> None:
    test = OperatorUnderTest(KeyedReduceOperator(lambda one, two: one - two, lambda value: 0)).open()
    assert test.process([0, 5, -5]) == [0, -5, 0]


def test_reduce_goes_on_after_a_restore() -> None:
    def add(left: Any, right: Any) -> Any:
        return left[0], left[1] + right[1]

    value_type = Types.TUPLE([Types.STRING(), Types.LONG()])
    reduce = KeyedReduceOperator(add, key_of, Types.STRING(), value_type)
    test = OperatorUnderTest(reduce, parallelism=1).open()
    test.process([("a", 1), ("a", 2)])
    snapshot = test.checkpoint(1)
    again = OperatorUnderTest(
        reduce, restored=snapshot, storage=test.storage, attempt=2, parallelism=1
    ).open()
    assert again.process([("a", 4)]) == [("a", 7)]


class Failing(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
        return [1 // value[1]]


class FailingGenerator(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
        yield 1 // value[1]


def fail_to_reduce(left: Any, right: Any) -> Any:
    raise ZeroDivisionError("reduced to nothing")


@pytest.mark.parametrize(
    ("operator", "method"),
    [
        (KeyedProcessOperator(Failing(), key_of), "process_element"),
        (KeyedProcessOperator(FailingGenerator(), key_of), "process_element"),
        (KeyedProcessOperator(lambda value: 1 // value[1], key_of, None, "map"), "map"),
        (KeyedReduceOperator(fail_to_reduce, key_of), "reduce"),
    ],
)
@pytest.mark.parametrize("timestamps", [None, [1, 2, 3]])
def test_a_failure_names_operator_method_and_record(
    operator: KeyedOperator, method: str, timestamps: list[int] | None
) -> None:
    test = OperatorUnderTest(operator).open()
    expected = rf"operator Totals \(1/2\): {method}\(\) raised ZeroDivisionError: .* on the record \('a', 0\)"
    with pytest.raises(UserCodeError, match=expected):
        test.process([("a", 1), ("a", 0), ("a", 2)], timestamps)


@pytest.mark.parametrize("method", ["map", "filter", "flat_map", "process_element"])
def test_stop_iteration_is_an_error(method: str) -> None:
    def exhausted(value: Any, context: object = None) -> Any:
        return next(iter([]))

    test = OperatorUnderTest(KeyedProcessOperator(exhausted, key_of, None, method)).open()
    with pytest.raises(UserCodeError, match=r"StopIteration.* on the record \('a', 1\)"):
        test.process(RECORDS)


@pytest.mark.parametrize(
    "select", [lambda record: record["key"], lambda record: next(iter([]))], ids=["type error", "stop"]
)
def test_a_failing_key_selector_names_the_operator(select: Callable[[Any], Any]) -> None:
    test = OperatorUnderTest(KeyedProcessOperator(RunningSum(), select)).open()
    with pytest.raises(UserCodeError, match=r"Totals \(1/2\): the key selector raised"):
        test.process(RECORDS)


class LastSeen(KeyedProcessFunction):
    """Emits the value of a key before, which lives for 10 ms of event time."""

    def open(self, runtime_context: RuntimeContext) -> None:
        descriptor = ValueStateDescriptor("last", Types.LONG())
        config = StateTtlConfig.new_builder(Time.milliseconds(10)).use_event_time()
        descriptor.enable_time_to_live(config.cleanup_incrementally(5, True).build())
        self.last = runtime_context.get_state(descriptor)

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        yield self.last.value()
        self.last.update(value[1])


def test_event_time_of_a_time_to_live_is_the_watermark_that_came() -> None:
    test = OperatorUnderTest(KeyedProcessOperator(LastSeen(), key_of)).open()
    test.operator.process_watermark(100)
    assert test.process([("a", 1), ("b", 1)]) == [None, None]
    test.operator.process_watermark(109)
    assert test.process([("a", 2)]) == [1]
    test.operator.process_watermark(110)
    assert test.process([("a", 3), ("b", 3)]) == [2, None]
    # The end of the input lets nothing expire.
    test.operator.process_watermark(MAX_WATERMARK_MS)
    assert test.process([("a", 4), ("b", 4)]) == [3, 3]


@pytest.mark.parametrize(
    "operator",
    [
        KeyedProcessOperator(RunningSum(), key_of),
        KeyedWithStateOperator(lambda value, state: (value, value), "map_with_state", key_of),
        KeyedReduceOperator(max, key_of),
    ],
    ids=["process", "with state", "reduce"],
)
def test_every_keyed_operator_cleans_up_with_its_records(operator: KeyedOperator) -> None:
    descriptor = ValueStateDescriptor("other", Types.LONG())
    config = StateTtlConfig.new_builder(Time.milliseconds(10)).use_event_time()
    config.return_expired_if_not_cleaned_up().cleanup_incrementally(5, True)
    descriptor.enable_time_to_live(config.build())
    test = OperatorUnderTest(operator).open()
    other = test.operator.keyed.get_value_state(descriptor)
    test.operator.process_watermark(0)
    for key in range(20):
        test.operator.keyed.current_key = key
        other.update(1)
    test.operator.process_watermark(1_000)
    for _ in range(2):
        test.process([("a", 1)] * 10)
    test.operator.keyed.current_key = 7
    assert other.value() is None
