"""Declared types hold for what operators emit; annotations speak where nothing was declared."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from tidegate.common import Row, Types
from tidegate.common.errors import ConfigurationError, JobExecutionError, OutputTypeError
from tidegate.datastream import KeyedProcessFunction, MapFunction, OutputTag, ProcessFunction

from .jobs import environment

PAIR = Types.ROW([Types.STRING(), Types.INT()])


class Split(ProcessFunction):
    late = OutputTag("late", PAIR)

    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterable[Any]:
        yield value[0], 1
        yield self.late, (value[0], value[1])


class Annotated(MapFunction):
    def map(self, value: Any) -> tuple[str, int]:
        return str(value), value


class Counted(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[int]:
        yield value


def test_tuples_arrive_as_rows_where_a_row_is_declared() -> None:
    stream = environment().from_collection([("a", 1)], PAIR)
    assert stream.get_type() == PAIR
    shown = stream.map(lambda row: (str(row), row.f1)).execute_and_collect(limit=1)
    assert shown == [("Row(f0='a', f1=1)", 1)]


def test_every_operator_brings_its_results_to_the_declared_type() -> None:
    floats = environment().from_collection([1, 2]).map(lambda value: value, Types.FLOAT())
    results = floats.map(lambda value: value + 0.1, Types.FLOAT()).execute_and_collect()
    assert list(results) == [1.100000023841858, 2.0999999046325684]


def test_main_and_side_output_have_types_of_their_own() -> None:
    main = (
        environment()
        .from_collection([("a", 1)])
        .process(Split(), Types.TUPLE([Types.STRING(), Types.LONG()]))
    )
    assert main.get_side_output(Split.late).get_type() == PAIR
    assert main.get_side_output(Split.late).execute_and_collect(limit=1) == [Row("f0", "f1")("a", 1)]


def test_a_wrong_result_ends_the_job_with_operator_line_and_record() -> None:
    stream = environment().from_collection([1, 2]).map(lambda value: None, Types.STRING()).name("Names")
    with pytest.raises(JobExecutionError) as caught:
        stream.execute_and_collect(limit=1)
    assert "operator Names (1/1) (test_types.py:" in str(caught.value)
    assert "emitted None where STRING is declared. The record is None" in str(caught.value)


def test_a_wrong_record_of_a_collection_is_told_at_once() -> None:
    with pytest.raises(
        OutputTypeError, match=r"from_collection\(\) \(test_types.py:\d+\) emitted 'b'.*in field 1"
    ):
        environment().from_collection([("a", 1), ("a", "b")], PAIR)


def test_integers_of_a_collection_are_cut_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="tidegate"):
        stream = environment().from_collection([40_000], Types.SHORT())
    assert stream.execute_and_collect(limit=1) == [-25_536]
    assert "40000 does not fit SHORT" in caplog.text


def test_reduced_rows_keep_the_type_of_the_stream() -> None:
    stream = environment().from_collection([("a", 1), ("a", 2)], PAIR).key_by(lambda row: row[0])
    sums = stream.reduce(lambda one, other: (one[0], one[1] + other[1]))
    assert sums.get_type() == PAIR
    assert list(sums.execute_and_collect()) == [Row("f0", "f1")("a", 1), Row("f0", "f1")("a", 3)]


def test_annotations_tell_the_type_and_hold_nobody_to_it() -> None:
    numbers = environment().from_collection([1])
    mapped = numbers.map(Annotated())
    assert mapped.get_type() == Types.TUPLE([Types.STRING(), Types.LONG()])
    assert mapped.filter(bool).rebalance().get_type() == mapped.get_type()
    assert numbers.key_by(lambda value: value).process(Counted()).get_type() == Types.LONG()
    assert numbers.map(lambda value: value).get_type() == Types.PICKLED_BYTE_ARRAY()
    assert numbers.map(Annotated(), PAIR).get_type() == PAIR

    def wrong(value: int) -> str:
        return value  # type: ignore[return-value]

    assert numbers.map(wrong).get_type() == Types.STRING()
    assert numbers.map(wrong).execute_and_collect(limit=1) == [1]


def test_a_union_of_two_declared_types_is_refused_with_both_lines() -> None:
    env = environment()
    numbers, texts = env.from_collection([1], Types.INT()), env.from_collection(["a"], Types.STRING())
    with pytest.raises(ConfigurationError, match=r"test_types.py:\d+\) gives Integer.*gives String"):
        numbers.union(texts)
    assert numbers.union(env.from_collection(["a"])).get_type() == Types.PICKLED_BYTE_ARRAY()


def test_a_key_of_none_is_an_error_with_the_operator() -> None:
    keyed = environment().from_collection([1]).name("Numbers").key_by(lambda value: None)
    with pytest.raises(JobExecutionError, match=r"key_by\(\) after operator Numbers: None has no"):
        list(keyed.map(lambda value: value).execute_and_collect())


def test_a_keyed_stream_is_collected_with_its_keys() -> None:
    keyed = environment().from_collection([3, 4]).key_by(lambda value: value % 2)
    assert list(keyed.execute_and_collect()) == [Row(f0=1, f1=3), Row(f0=0, f1=4)]
