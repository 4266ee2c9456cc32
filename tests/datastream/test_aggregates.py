"""sum, min, max, min_by and max_by of one field per key, and project."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
from tidegate.common import Row, Types
from tidegate.common.errors import ConfigurationError, JobExecutionError
from tidegate.datastream import KeyedStream

from .jobs import environment

RECORDS = [("a", 3, 0), ("a", 1, 1), ("b", 5, 0), ("a", 3, 2), ("b", 5, 1)]


def aggregated(records: list[Any], aggregate: Callable[[KeyedStream], Any], key: Any = None) -> list[Any]:
    keyed = environment().from_collection(records).key_by(key or (lambda record: record[0]))
    return list(aggregate(keyed).execute_and_collect())


@pytest.mark.parametrize(
    ("aggregate", "expected"),
    [
        (lambda keyed: keyed.sum(1), [("a", 3, 0), ("a", 4, 0), ("b", 5, 0), ("a", 7, 0), ("b", 10, 0)]),
        (lambda keyed: keyed.min(1), [("a", 3, 0), ("a", 1, 0), ("b", 5, 0), ("a", 1, 0), ("b", 5, 0)]),
        (lambda keyed: keyed.max(1), [("a", 3, 0), ("a", 3, 0), ("b", 5, 0), ("a", 3, 0), ("b", 5, 0)]),
        (lambda keyed: keyed.min_by(1), [("a", 3, 0), ("a", 1, 1), ("b", 5, 0), ("a", 1, 1), ("b", 5, 0)]),
        (lambda keyed: keyed.max_by(1), [("a", 3, 0), ("a", 3, 0), ("b", 5, 0), ("a", 3, 0), ("b", 5, 0)]),
        (lambda keyed: keyed.sum("f1"), [("a", 3, 0), ("a", 4, 0), ("b", 5, 0), ("a", 7, 0), ("b", 10, 0)]),
    ],
)
def test_aggregates_emit_the_value_so_far(aggregate: Callable[[KeyedStream], Any], expected: Any) -> None:
    assert aggregated(RECORDS, aggregate) == expected


class Point(NamedTuple):
    x: int
    y: int


@dataclass
class Trip:
    taxi: str
    miles: float


class Plain:
    def __init__(self, size: int) -> None:
        self.size = size


@pytest.mark.parametrize(
    ("records", "field", "expected"),
    [
        ([Row(1, 2), Row(3, 4)], 1, Row(1, 6)),
        ([Row(x=1, y=2), Row(x=3, y=4)], "y", Row(x=1, y=6)),
        ([[1, 2], [3, 4]], 0, [4, 2]),
        ([{"n": 1, "m": 5}, {"n": 2, "m": 6}], "n", {"n": 3, "m": 5}),
        ([Point(1, 2), Point(3, 4)], "x", Point(4, 2)),
        ([Point(1, 2), Point(3, 4)], 0, Point(4, 2)),
        ([Trip("a", 1.5), Trip("b", 2.0)], "miles", Trip("a", 3.5)),
        ([4, 5], 0, 9),
        ([1.5, 2], 0, 3.5),
    ],
)
def test_a_field_is_found_in_every_kind_of_record(records: list[Any], field: Any, expected: Any) -> None:
    result = aggregated(records, lambda keyed: keyed.sum(field), lambda record: 0)[-1]
    assert (result, type(result)) == (expected, type(expected))


def test_the_first_record_is_left_as_it_was() -> None:
    results = aggregated([Plain(1), Plain(2)], lambda keyed: keyed.sum("size"), lambda record: 0)
    assert [result.size for result in results] == [1, 3]
    first = [1]
    aggregated([first, [2]], lambda keyed: keyed.max(0), lambda record: 0)
    assert first == [1]


def test_a_plain_stream_is_summed_by_default() -> None:
    assert aggregated([1, 2, 3], lambda keyed: keyed.sum(), lambda record: record % 2) == [1, 2, 4]


@pytest.mark.parametrize(
    ("records", "field", "message"),
    [
        ([1, 2], 1, "one value, which has the field 0 and no field 1"),
        ([(1,), (2,)], 1, "IndexError"),
        ([Row(a=1), Row(a=2)], "b", r"no field 'b': it has \['a'\]"),
        ([(1, "x"), (2, 3)], 1, "TypeError: can only concatenate str"),
        ([{"a": 1}, {"b": 1}], "a", "KeyError: 'a'"),
    ],
)
def test_a_missing_field_names_operator_and_record(records: list[Any], field: Any, message: str) -> None:
    with pytest.raises(JobExecutionError, match=rf"operator Sum \(1/1\): .*{message}"):
        aggregated(records, lambda keyed: keyed.sum(field), lambda record: 0)


def test_none_and_nan_are_left_out() -> None:
    records = [(None,), (math.nan,), (2.0,), (None,), (1.0,)]
    found = aggregated(records, lambda keyed: keyed.max(0), lambda record: 0)
    assert [str(value) for (value,) in found] == ["None", "nan", "2.0", "2.0", "2.0"]
    assert aggregated([(None,), (1,), (None,)], lambda keyed: keyed.sum(0), lambda record: 0)[-1] == (1,)


@pytest.mark.parametrize("field", [1.5, None, True, -1, ""])
def test_what_is_no_field_is_refused_at_once(field: Any) -> None:
    keyed = environment().from_collection([1]).key_by(abs)
    for method in (keyed.sum, keyed.min, keyed.max, keyed.min_by, keyed.max_by):
        with pytest.raises(ConfigurationError, match=r"takes (the|a) position"):
            method(field)


# ---------------------------------------------------------------- project


def test_project_keeps_fields_in_the_order_they_are_named() -> None:
    rows = [[1, 2, 3], [4, 5, 6]]
    stream = environment().from_collection([tuple(row) for row in rows])
    assert list(stream.project(2, 0).execute_and_collect()) == [(3, 1), (6, 4)]
    stream = environment().from_collection([Row(1, 2)])
    assert list(stream.project(1).execute_and_collect()) == [(2,)]


def test_project_knows_the_type_of_what_it_keeps() -> None:
    typed = environment().from_collection([(1, "a")], Types.TUPLE([Types.INT(), Types.STRING()]))
    assert typed.project(1).get_type() == Types.TUPLE([Types.STRING()])
    assert typed.project(1).get_name() == "Projection"


@pytest.mark.parametrize(
    ("type_info", "fields", "message"),
    [
        (Types.TUPLE([Types.INT()]), (1,), r"names field 1, but .* has 1"),
        (Types.INT(), (0,), r"only tuples and rows can be projected"),
        (None, (), "needs the positions"),
        (None, (-1,), "not -1"),
        (None, ("a",), "not 'a'"),
    ],
)
def test_a_projection_that_cannot_work_is_refused(type_info: Any, fields: Any, message: str) -> None:
    stream = environment().from_collection([], type_info)
    with pytest.raises(ConfigurationError, match=message):
        stream.project(*fields)
