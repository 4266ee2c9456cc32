"""Side outputs: what process functions send with a tag, and who gets it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from tidegate.common import Types
from tidegate.common.errors import ConfigurationError
from tidegate.datastream import (
    BroadcastProcessFunction,
    CoProcessFunction,
    DataStream,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    OutputTag,
    ProcessFunction,
    SinkFunction,
)
from tidegate.datastream.state import MapStateDescriptor

from .jobs import environment

ODD = OutputTag("odd", Types.LONG())
WORDS = OutputTag("words", Types.STRING())


class Sort(ProcessFunction):
    """Even numbers go on, odd ones aside, and words of them all aside elsewhere."""

    def process_element(self, value: int, ctx: ProcessFunction.Context) -> Iterable[Any]:
        if value % 2:
            yield ODD, value
        else:
            yield value
        yield WORDS, f"n{value}"


class KeyedSort(KeyedProcessFunction):
    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        ctx.timer_service().register_event_time_timer(5)
        return [value] if value % 2 == 0 else [(ODD, value)]

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
        yield WORDS, f"timer of {ctx.get_current_key()}"


class CoSort(CoProcessFunction, KeyedCoProcessFunction):
    def process_element1(self, value: int, ctx: Any) -> Iterable[Any]:
        yield ODD, value

    def process_element2(self, value: int, ctx: Any) -> Iterable[Any]:
        yield value


class BroadcastSort(BroadcastProcessFunction):
    def process_element(self, value: int, ctx: Any) -> Iterable[Any]:
        yield ODD, value

    def process_broadcast_element(self, value: int, ctx: Any) -> Iterable[Any]:
        yield value


class Gather(SinkFunction):
    """Sinks run in this process, so a class attribute can gather what they got."""

    gathered: list[Any] = []  # noqa: RUF012

    def __init__(self, name: str) -> None:
        self.name = name

    def invoke(self, value: Any) -> None:
        Gather.gathered.append((self.name, value))


def collect(stream: DataStream) -> list[Any]:
    return list(stream.execute_and_collect())


@pytest.fixture(autouse=True)
def nothing_gathered() -> None:
    Gather.gathered.clear()


@pytest.mark.parametrize("chained", [True, False])
def test_each_record_goes_where_its_tag_says(chained: bool) -> None:
    env = environment(parallelism=2)
    if not chained:
        env.disable_operator_chaining()
    main = env.from_collection(range(10)).rebalance().process(Sort(), Types.LONG())
    main.add_sink(Gather("even"))
    main.get_side_output(ODD).map(lambda value: value * 10).add_sink(Gather("odd"))
    main.get_side_output(WORDS).add_sink(Gather("words"))
    env.execute()
    expected = [("even", value) for value in range(0, 10, 2)]
    expected += [("odd", value * 10) for value in range(1, 10, 2)]
    expected += [("words", f"n{value}") for value in range(10)]
    assert sorted(Gather.gathered) == sorted(expected)


def test_two_consumers_of_a_side_output_both_get_it() -> None:
    env = environment()
    main = env.from_collection(range(4)).process(Sort())
    main.get_side_output(ODD).add_sink(Gather("one"))
    main.get_side_output(OutputTag("odd")).rebalance().add_sink(Gather("two")).set_parallelism(2)
    env.execute()
    assert sorted(Gather.gathered) == [("one", 1), ("one", 3), ("two", 1), ("two", 3)]


def test_a_side_output_alone_is_enough_and_the_main_one_may_be_dropped() -> None:
    stream = environment().from_collection(range(4)).process(Sort())
    assert collect(stream.get_side_output(ODD)) == [1, 3]


def test_records_for_a_tag_that_nobody_asked_for_are_dropped() -> None:
    assert collect(environment().from_collection(range(4)).process(Sort())) == [0, 2]


def test_a_tag_that_is_never_used_is_an_empty_stream() -> None:
    stream = environment().from_collection(range(4)).process(Sort())
    assert collect(stream.get_side_output(OutputTag("nobody"))) == []


@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_side_output_is_a_stream_like_any_other(parallelism: int) -> None:
    env = environment(parallelism=parallelism)
    side = env.from_collection(range(10)).rebalance().process(Sort()).get_side_output(ODD)
    assert side.get_type() == Types.LONG()
    assert sorted(collect(side.union(env.from_collection([100])))) == [1, 3, 5, 7, 9, 100]
    side = env.from_collection(range(10)).process(Sort()).get_side_output(ODD)
    assert sorted(collect(side.key_by(lambda value: value % 3).sum())) == [1, 3, 5, 8, 12]
    side = env.from_collection(range(10)).process(Sort()).get_side_output(ODD)
    assert sorted(collect(side.process(Sort()).get_side_output(WORDS))) == ["n1", "n3", "n5", "n7", "n9"]


def test_keyed_functions_and_timers_have_side_outputs() -> None:
    env = environment(parallelism=2)
    main = env.from_collection(range(4)).key_by(lambda value: value).process(KeyedSort())
    main.add_sink(Gather("even"))
    main.get_side_output(ODD).add_sink(Gather("odd"))
    main.get_side_output(WORDS).add_sink(Gather("words"))
    env.execute()
    expected = [("even", 0), ("even", 2), ("odd", 1), ("odd", 3)]
    assert sorted(Gather.gathered) == expected + [("words", f"timer of {value}") for value in range(4)]


@pytest.mark.parametrize(
    "process",
    [
        lambda one, two: one.connect(two).process(CoSort()),
        lambda one, two: one.key_by(abs).connect(two.key_by(abs)).process(CoSort()),
        lambda one, two: one.connect(two.broadcast(MapStateDescriptor("m"))).process(BroadcastSort()),
    ],
)
def test_functions_of_two_streams_have_side_outputs(process: Callable[..., DataStream]) -> None:
    env = environment()
    main = process(env.from_collection([1, 3]), env.from_collection([2]))
    main.add_sink(Gather("main"))
    main.get_side_output(ODD).add_sink(Gather("odd"))
    env.execute()
    assert sorted(Gather.gathered) == [("main", 2), ("odd", 1), ("odd", 3)]


def test_the_plan_names_the_tag() -> None:
    env = environment()
    env.from_collection([1]).process(Sort()).get_side_output(ODD).add_sink(print)
    assert '"output_tag": "odd"' in env.get_execution_plan()


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda s: s.union(s).get_side_output(ODD), "a union has no operator of its own"),
        (lambda s: s.rebalance().get_side_output(ODD), "a repartitioned stream has no operator"),
        (lambda s: s.key_by(abs).get_side_output(ODD), "a keyed stream has no operator"),
        (lambda s: s.get_side_output(ODD).get_side_output(WORDS), "the side output 'odd' has no operator"),
        (lambda s: s.get_side_output(ODD).name("x"), "the side output 'odd' has no operator"),
        (lambda s: s.get_side_output("odd"), "takes an OutputTag, not str"),
        (
            lambda s: (s.get_side_output(ODD), s.get_side_output(OutputTag("odd", Types.STRING()))),
            "'odd' was asked for with the type Long and now with String; use one OutputTag",
        ),
        (lambda s: OutputTag(""), "non-empty string"),
    ],
)
def test_what_has_no_side_output_is_refused(write: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        write(environment().from_collection([1]))
