"""The loops that operators choose between give the same: timed and untimed, for lists and for generators."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tidegate.common.errors import UserCodeError
from tidegate.common.output_tag import OutputTag
from tidegate.common.typeinfo import Types
from tidegate.operators.elementwise import FilterOperator, FlatMapOperator
from tidegate.operators.functions import KeyedProcessFunction
from tidegate.operators.keyed.keyed import KeyedProcessOperator
from tidegate.operators.runtime_context import RuntimeContext
from tidegate.protocol.elements import Batch
from tidegate.state.descriptors import ValueStateDescriptor

from .harness import OperatorUnderTest

Record = tuple[str, int]
NUMBERS = st.sampled_from([0, 1, 2, 3, 1, 2, 3, 1, 2, 3, -1])
TimesAs = Callable[[list[int]], Sequence[int] | None]
BATCHES = st.lists(
    st.lists(
        st.tuples(
            st.tuples(st.sampled_from("abc"), NUMBERS),
            st.integers(-5, 5),
        ),
        min_size=1,
        max_size=8,
    ),
    max_size=4,
)
"""Records `(key, number of results)` with their times; -1 raises."""
TIMES: list[TimesAs] = [
    lambda times: None,
    list,
    lambda times: array("q", times),
    lambda times: list(times) if times[0] % 2 else None,
]
SIDE = OutputTag("side")


def results_of(record: Record, total: int, key: Any, time: int | None) -> list[Any]:
    if record[1] < 0:
        raise ValueError("negative")
    results: list[Any] = [(record, total, key, time, number) for number in range(record[1])]
    return [*results, (SIDE, total)] if record[1] == 3 else results


class Listing(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def _results(self, value: Record, ctx: KeyedProcessFunction.Context) -> list[Any]:
        self.total.update((self.total.value() or 0) + 1)
        return results_of(value, self.total.value() or 0, ctx.get_current_key(), ctx.timestamp())

    def process_element(self, value: Record, ctx: KeyedProcessFunction.Context) -> Iterable[Any] | None:
        return self._results(value, ctx) or None


class Yielding(Listing):
    def process_element(self, value: Record, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        yield from self._results(value, ctx)


def observed(
    operator: KeyedProcessOperator | FilterOperator | FlatMapOperator,
    batches: list[list[tuple[Record, int]]],
    times_as: TimesAs,
    together: bool = True,
) -> tuple[list[Any], list[Any], str]:
    """Main results and side results with their times, and the error that ended it."""
    test = OperatorUnderTest(operator, parallelism=1, side_outputs=("side",)).open()
    error = ""
    try:
        for batch in batches:
            for part in [batch] if together else [[one] for one in batch]:
                records, times = [record for record, _ in part], [time for _, time in part]
                test.operator.process_batch(Batch(records, times_as(times)), 0)
    except UserCodeError as raised:
        error = str(raised)
    sides = [
        (value, time)
        for one in test.sides["side"]
        for value, time in zip(one.values, one.timestamps or [None] * len(one), strict=True)
    ]
    return test.records(), sides, error


def without_times(pairs: list[tuple[Any, Any]]) -> list[Any]:
    return [value for value, _ in pairs]


@pytest.mark.parametrize("times_as", TIMES, ids=["untimed", "list", "array", "in turns"])
@given(batches=BATCHES)
def test_the_keyed_loops_for_lists_and_for_generators_give_the_same(
    times_as: TimesAs, batches: list[Any]
) -> None:
    def made(function: KeyedProcessFunction) -> tuple[list[Any], list[Any], str]:
        return observed(KeyedProcessOperator(function, _key), batches, times_as)

    assert made(Listing()) == made(Yielding())


@pytest.mark.parametrize("function", [Listing, Yielding])
@given(batches=BATCHES)
def test_the_keyed_loops_with_times_and_without_give_the_same(
    function: Callable[[], KeyedProcessFunction], batches: list[Any]
) -> None:
    def untimed(values: list[Any]) -> list[Any]:
        # What is for the main output holds the time that the context gave.
        return [(*value[:3], None, value[4]) for value, _ in values]

    timed = observed(KeyedProcessOperator(function(), _key), batches, list)
    plain = observed(KeyedProcessOperator(function(), _key), batches, lambda times: None)
    assert untimed(timed[0]) == untimed(plain[0])
    assert (without_times(timed[1]), timed[2]) == (without_times(plain[1]), plain[2])
    assert all(value[3] == time for value, time in timed[0])
    assert all(value[3] is time is None for value, time in plain[0])


def _key(record: Record) -> str:
    return record[0]


def _is_kept(record: Record) -> int:
    if record[1] < 0:
        raise ValueError("negative")
    # True and false values of any type are allowed.
    return record[1] % 3


def _as_list(record: Record) -> list[Any] | None:
    return results_of(record, 0, None, None)[:2] or None


def _as_generator(record: Record) -> Iterable[Any]:
    yield from results_of(record, 0, None, None)[:2]


@pytest.mark.parametrize(
    "make",
    [
        lambda: FilterOperator(_is_kept),
        lambda: FlatMapOperator(_as_list),
        lambda: FlatMapOperator(_as_generator),
    ],
    ids=["filter", "flat_map of lists", "flat_map of generators"],
)
@given(batches=BATCHES)
def test_filter_and_flat_map_give_the_same_with_times_without_and_one_by_one(
    make: Callable[[], Any], batches: list[Any]
) -> None:
    timed, plain = (observed(make(), batches, times_as) for times_as in (list, lambda times: None))
    assert (without_times(timed[0]), timed[2]) == (without_times(plain[0]), plain[2])
    if not timed[2]:
        assert timed == observed(make(), batches, list, together=False)
        assert timed == observed(make(), batches, lambda times: array("q", times))


@given(batches=BATCHES)
def test_keyed_functions_without_a_context_give_the_same_as_those_of_streams_without_keys(
    batches: list[Any],
) -> None:
    for method, call, unkeyed in (
        ("filter", _is_kept, FilterOperator(_is_kept)),
        ("flat_map", _as_list, FlatMapOperator(_as_list)),
    ):
        for times_as in TIMES:
            keyed = observed(KeyedProcessOperator(call, _key, method=method), batches, times_as)
            assert keyed == observed(unkeyed, batches, times_as)
