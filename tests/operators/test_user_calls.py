"""User functions called for each record of a batch: as one by one, whatever kind of callable it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from operator import itemgetter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tidegate.operators.record_loops import (
    filtered,
    flattened,
    flattened_with_times,
    mapped,
    times_of_results,
)

PAIRS = [(3, "a"), (0, "b"), (2, "c")]


class First:
    def __call__(self, record: tuple[int, str]) -> int:
        return record[0]

    def method(self, record: tuple[int, str]) -> int:
        return record[0]


class Static:
    @staticmethod
    def __call__(record: tuple[int, str]) -> int:
        return record[0]


class Heir(First):
    pass


def first(record: tuple[int, str]) -> int:
    return record[0]


@pytest.mark.parametrize(
    "call",
    [
        first,
        First(),
        First().method,
        Static(),
        Heir(),
        itemgetter(0),
        partial(first),
        lambda record: record[0],
    ],
)
def test_every_kind_of_callable_is_called_for_each_record(call: Callable[[Any], Any]) -> None:
    assert mapped(call, PAIRS) == mapped(call, iter(PAIRS)) == [3, 0, 2]
    assert filtered(call, iter(PAIRS)) == [(3, "a"), (2, "c")]


@pytest.mark.parametrize("records", [[iter([])], [iter([1]), iter([])], [iter([]), iter([1])]])
def test_a_builtin_that_raises_stop_iteration_does_not_end_the_records(records: list[Any]) -> None:
    with pytest.raises(RuntimeError, match="StopIteration"):
        mapped(next, iter(records))


@pytest.mark.parametrize("call", [mapped, filtered, flattened])
def test_the_records_iterator_stands_behind_the_record_that_fails(call: Callable[..., Any]) -> None:
    def fails(record: int) -> Any:
        return [1 // record]

    remaining = iter([1, 0, 2, 3])
    with pytest.raises(ZeroDivisionError):
        call(fails, remaining)
    assert list(remaining) == [2, 3]


@given(st.lists(st.tuples(st.integers(0, 9), st.none() | st.lists(st.integers(), max_size=3))))
def test_results_have_the_times_of_their_records(groups: list[tuple[int, list[int] | None]]) -> None:
    def given_for(position: int) -> Iterable[int] | None:
        found = groups[position][1]
        return None if found is None else iter(found)

    records, times = range(len(groups)), [time for time, _ in groups]
    results, result_times = flattened_with_times(given_for, records, times)
    expected = [(result, time) for time, found in groups for result in found or []]
    assert list(zip(results, result_times, strict=True)) == expected
    assert flattened(given_for, records) == results


@given(st.lists(st.integers(0, 2), max_size=8))
def test_event_times_are_repeated_as_often_as_there_are_results(counts: list[int]) -> None:
    times = list(range(10, 10 + len(counts)))
    ends = [sum(counts[: position + 1]) for position in range(len(counts))]
    repeated = times_of_results(times, ends)
    assert list(repeated) == [time for time, count in zip(times, counts, strict=True) for _ in range(count)]
    assert (repeated is times) == (bool(counts) and set(counts) == {1})
