"""map, filter, flat_map and process: results, timestamps, life cycle, and the record an error names."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
import pytest
from tidegate.common.errors import StateError, UserCodeError
from tidegate.operators.elementwise import (
    FilterOperator,
    FlatMapOperator,
    FunctionOperator,
    MapOperator,
    ProcessOperator,
)
from tidegate.operators.functions import (
    FilterFunction,
    FlatMapFunction,
    MapFunction,
    ProcessFunction,
    as_callable,
)
from tidegate.operators.runtime_context import RuntimeContext
from tidegate.operators.sinks import SinkFunctionOperator
from tidegate.state.descriptors import ValueStateDescriptor

from .harness import OperatorUnderTest


def twice(value: int) -> list[int]:
    return [value, value]


def twice_lazily(value: int) -> Iterable[int]:
    yield value
    yield value


def odd_twice(value: int) -> list[int] | None:
    return [value, value] if value % 2 else None


class Process(ProcessFunction):
    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function = function

    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterable[Any] | None:
        return self.function(value)  # type: ignore[no-any-return]


# Operator, and what it makes of 1, 2, 3.
OPERATORS: list[tuple[FunctionOperator, list[int]]] = [
    (MapOperator(lambda value: value * 10), [10, 20, 30]),
    (FilterOperator(lambda value: value != 2), [1, 3]),
    (FlatMapOperator(twice), [1, 1, 2, 2, 3, 3]),
    (FlatMapOperator(twice_lazily), [1, 1, 2, 2, 3, 3]),
    (FlatMapOperator(odd_twice), [1, 1, 3, 3]),
    (ProcessOperator(Process(twice)), [1, 1, 2, 2, 3, 3]),
    (ProcessOperator(Process(twice_lazily)), [1, 1, 2, 2, 3, 3]),
    (ProcessOperator(Process(odd_twice)), [1, 1, 3, 3]),
]


@pytest.mark.parametrize(("operator", "expected"), OPERATORS)
def test_results_come_in_order(operator: FunctionOperator, expected: list[int]) -> None:
    test = OperatorUnderTest(operator).open()
    assert test.process([1, 2, 3]) == expected
    assert all(timestamp is None for _, timestamp in test.records())


@pytest.mark.parametrize(("operator", "expected"), OPERATORS)
def test_timestamps_travel_with_what_becomes_of_their_record(
    operator: FunctionOperator, expected: list[int]
) -> None:
    test = OperatorUnderTest(operator).open()
    assert test.process([1, 2, 3], [100, 200, 300]) == expected
    for record, timestamp in test.records():
        original = record // 10 if record >= 10 else record
        assert timestamp == original * 100


@pytest.mark.parametrize(("operator", "expected"), OPERATORS[1:])
def test_nothing_is_emitted_when_nothing_is_left(operator: FunctionOperator, expected: list[int]) -> None:
    test = OperatorUnderTest(operator).open()
    test.process([])
    test.process([], [])
    assert test.emitted == []


@pytest.mark.parametrize("timestamps", [None, [1, 2, 3]])
def test_a_filter_that_drops_everything_emits_nothing(timestamps: list[int] | None) -> None:
    test = OperatorUnderTest(FilterOperator(lambda value: False)).open()
    test.process([1, 2, 3], timestamps)
    assert test.emitted == []


def test_none_is_a_record_like_any_other_for_map_and_filter() -> None:
    assert OperatorUnderTest(MapOperator(lambda value: None)).open().process([1, 2]) == [None, None]
    assert OperatorUnderTest(FilterOperator(lambda value: value is None)).open().process([1, None]) == [None]


def test_a_filter_takes_any_truth_value() -> None:
    test = OperatorUnderTest(FilterOperator(lambda value: value)).open()
    assert test.process([0, 1, "", "a"], [1, 2, 3, 4]) == [1, "a"]
    assert test.records() == [(1, 2), ("a", 4)]


def test_arrow_batches_give_one_tuple_per_row() -> None:
    batch = pa.record_batch({"number": [1, 2], "name": ["a", None]})
    test = OperatorUnderTest(MapOperator(lambda row: row)).open()
    assert test.process(batch, [10, 20]) == [(1, "a"), (2, None)]
    assert [timestamp for _, timestamp in test.records()] == [10, 20]


def test_a_process_function_sees_the_timestamp() -> None:
    class Timed(ProcessFunction):
        def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterable[Any]:
            yield value, ctx.timestamp()

    test = OperatorUnderTest(ProcessOperator(Timed())).open()
    assert test.process(["a"], [7]) == [("a", 7)]
    assert test.process(["b"]) == [("b", None)]


# ---------------------------------------------------------------- failures


def divide(value: int) -> Any:
    return 1 // value


def divide_all(value: int) -> list[int]:
    return [1 // value]


FAILING: list[tuple[FunctionOperator, str]] = [
    (MapOperator(divide), "map"),
    (FilterOperator(divide), "filter"),
    (FlatMapOperator(divide_all), "flat_map"),
    (FlatMapOperator(lambda value: (1 // each for each in [value])), "flat_map"),
    (ProcessOperator(Process(divide_all)), "process_element"),
    (ProcessOperator(Process(lambda value: (1 // each for each in [value]))), "process_element"),
    (SinkFunctionOperator(divide), "invoke"),
]


@pytest.mark.parametrize("timestamps", [None, [1, 2, 3, 4]])
@pytest.mark.parametrize(("operator", "method"), FAILING)
@pytest.mark.parametrize("values", [[0, 1, 2, 3], [1, 2, 0, 3], [1, 2, 3, 0]])
def test_a_failure_names_operator_subtask_method_and_record(
    operator: FunctionOperator, method: str, values: list[int], timestamps: list[int] | None
) -> None:
    test = OperatorUnderTest(operator).open()
    expected = rf"operator Totals \(1/2\): {method}\(\) raised ZeroDivisionError: .* on the record 0$"
    with pytest.raises(UserCodeError, match=expected) as raised:
        test.process(values, timestamps)
    assert isinstance(raised.value.__cause__, ZeroDivisionError)
    assert test.emitted == []


def exhausted(value: int) -> Any:
    return next(iter([])) if value == 0 else [value]


@pytest.mark.parametrize("timestamps", [None, [1, 2, 3]])
@pytest.mark.parametrize("values", [[0, 1, 2], [1, 0, 2], [1, 2, 0]])
@pytest.mark.parametrize(
    "operator",
    [
        MapOperator(exhausted),
        FilterOperator(exhausted),
        FlatMapOperator(exhausted),
        ProcessOperator(Process(exhausted)),
        SinkFunctionOperator(exhausted),
    ],
)
def test_stop_iteration_is_an_error_and_not_the_end_of_the_batch(
    operator: FunctionOperator, values: list[int], timestamps: list[int] | None
) -> None:
    test = OperatorUnderTest(operator).open()
    with pytest.raises(UserCodeError, match=r"StopIteration.* on the record 0$"):
        test.process(values, timestamps)


def test_a_long_record_is_shortened_in_the_error() -> None:
    test = OperatorUnderTest(MapOperator(int)).open()
    with pytest.raises(UserCodeError) as raised:
        test.process(["x" * 10_000])
    assert "on the record 'xxx" in str(raised.value)
    assert str(raised.value).endswith("…")


class Diary(MapFunction, FilterFunction, FlatMapFunction):
    """Fails in one moment of its life, if told to."""

    moments: list[str] = []  # noqa: RUF012

    def __init__(self, failing: str = "") -> None:
        self.failing = failing

    def _reach(self, moment: str) -> None:
        Diary.moments.append(moment)
        if moment == self.failing:
            raise ValueError("no more paper")

    def open(self, runtime_context: RuntimeContext) -> None:
        self._reach("open")

    def map(self, value: Any) -> Any:
        self._reach("map")

    def filter(self, value: Any) -> bool:
        return True

    def flat_map(self, value: Any) -> None:
        return None

    def close(self) -> None:
        self._reach("close")


@pytest.mark.parametrize("make", [MapOperator, FilterOperator, FlatMapOperator])
@pytest.mark.parametrize("moment", ["open", "close"])
def test_a_failing_open_or_close_names_the_operator(
    make: Callable[[Any], FunctionOperator], moment: str
) -> None:
    operator = OperatorUnderTest(make(Diary(moment))).operator

    def live() -> None:
        operator.open()
        operator.close()

    with pytest.raises(UserCodeError, match=rf"operator Totals \(1/2\): {moment}\(\) raised ValueError"):
        live()


def test_a_function_is_opened_and_closed_once() -> None:
    Diary.moments.clear()
    operator = OperatorUnderTest(MapOperator(Diary())).open().operator
    operator.close()
    operator.close()
    assert Diary.moments == ["open", "close"]


def test_a_function_that_failed_to_open_is_closed_and_one_that_was_never_opened_is_not() -> None:
    Diary.moments.clear()
    operator = OperatorUnderTest(MapOperator(Diary("open"))).operator
    operator.close()
    assert Diary.moments == []
    with pytest.raises(UserCodeError):
        operator.open()
    operator.close()
    assert Diary.moments == ["open", "close"]


def test_the_runtime_context_tells_the_place_in_the_job() -> None:
    class Facts(MapFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.context = runtime_context

        def map(self, value: Any) -> Any:
            context = self.context
            return (
                context.get_task_name(),
                context.get_number_of_parallel_subtasks(),
                context.get_max_number_of_parallel_subtasks(),
                context.get_index_of_this_subtask(),
                context.get_attempt_number(),
                context.get_task_name_with_subtasks(),
                context.get_job_parameter("airport", "?"),
                context.get_job_parameter("carrier", "?"),
            )

    test = OperatorUnderTest(MapOperator(Facts()), subtask_index=1, attempt=3).open()
    assert test.process([0]) == [("Totals", 2, 128, 1, 2, "Totals (2/2)", "JFK", "?")]


def test_keyed_state_without_a_key_is_an_error_that_says_what_to_do() -> None:
    class Stateful(MapFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            runtime_context.get_state(ValueStateDescriptor("total"))

        def map(self, value: Any) -> Any:
            return value

    with pytest.raises(StateError, match=r"Totals \(1/2\).*call key_by\(\)"):
        OperatorUnderTest(MapOperator(Stateful())).open()


def test_only_functions_are_functions() -> None:
    with pytest.raises(TypeError, match=r"int is neither callable nor has a method map\(\)"):
        as_callable(3, "map")
