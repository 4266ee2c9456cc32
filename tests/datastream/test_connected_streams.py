"""Two streams that one function reads, with and without keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from tidegate.common import Types
from tidegate.common.errors import ConfigurationError, JobExecutionError
from tidegate.datastream import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedCoProcessFunction,
    RuntimeContext,
)
from tidegate.datastream.state import ValueStateDescriptor

from .jobs import environment


class Sides(CoMapFunction):
    def map1(self, value: int) -> Any:
        return "left", value

    def map2(self, value: str) -> Any:
        return "right", value


class Repeats(CoFlatMapFunction):
    def flat_map1(self, value: int) -> Iterable[Any]:
        yield from [value] * value

    def flat_map2(self, value: str) -> Iterable[Any] | None:
        return [value.upper()] if value != "b" else None


class Clock(CoProcessFunction):
    def process_element1(self, value: int, ctx: CoProcessFunction.Context) -> Iterable[Any]:
        yield value, ctx.timestamp(), ctx.timer_service().current_processing_time() > 0

    def process_element2(self, value: str, ctx: CoProcessFunction.Context) -> Iterable[Any]:
        yield value, ctx.timestamp(), ctx.timer_service().current_watermark() < 0


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize(
    ("apply", "expected"),
    [
        (lambda both: both.map(Sides()), {("left", 1), ("left", 2), ("right", "a"), ("right", "b")}),
        (lambda both: both.flat_map(Repeats()), {1, 2, "A"}),
        (
            lambda both: both.process(Clock()),
            {(1, None, True), (2, None, True), ("a", None, True), ("b", None, True)},
        ),
    ],
)
def test_each_stream_has_a_method_of_its_own(
    apply: Callable[[Any], Any], expected: Any, parallelism: int
) -> None:
    env = environment(parallelism=parallelism)
    both = env.from_collection([1, 2]).connect(env.from_collection(["a", "b"]))
    results = list(apply(both).execute_and_collect())
    assert set(results) == expected


def test_a_union_may_be_connected_and_what_comes_out_goes_on() -> None:
    env = environment(parallelism=2)
    left = env.from_collection([1]).union(env.from_collection([2]))
    right = env.from_collection(["a"]).rebalance()
    results = left.connect(right).map(Sides(), Types.PICKLED_BYTE_ARRAY()).map(str).execute_and_collect()
    assert sorted(results) == ["('left', 1)", "('left', 2)", "('right', 'a')"]


class Join(KeyedCoProcessFunction):
    """Keeps the newest name of every key, and gives the numbers of the key that name."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.name = runtime_context.get_state(ValueStateDescriptor("name", Types.STRING()))
        self.waiting = runtime_context.get_state(ValueStateDescriptor("waiting"))

    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterable[Any]:
        name = self.name.value()
        if name is not None:
            yield name, value[1], ctx.get_current_key()
        else:
            self.waiting.update([*(self.waiting.value() or []), value[1]])

    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterable[Any]:
        self.name.update(value[1])
        for number in self.waiting.value() or []:
            yield value[1], number, ctx.get_current_key()
        self.waiting.clear()


NUMBERS = [(key % 5, key) for key in range(50)]
NAMES = [(key, f"name {key}") for key in range(5)]


@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("backend", ["hashmap", "lmdb"])
def test_both_streams_see_the_state_of_a_key(parallelism: int, backend: str, tmp_path: Any) -> None:
    options = {"state.backend.type": backend, "tidegate.local-dir": str(tmp_path)}
    env = environment(parallelism=parallelism, options=options)
    numbers, names = env.from_collection(NUMBERS), env.from_collection(NAMES)
    both = numbers.connect(names).key_by(lambda pair: pair[0], lambda pair: pair[0], Types.LONG())
    results = list(both.process(Join()).execute_and_collect())
    assert sorted(results) == sorted((f"name {key}", number, key) for key, number in NUMBERS)


def test_keyed_streams_can_be_connected_as_they_are() -> None:
    env = environment(parallelism=2)
    numbers = env.from_collection(NUMBERS).key_by(lambda pair: pair[0])
    names = env.from_collection(NAMES).key_by(lambda pair: pair[0])
    assert len(list(numbers.connect(names).process(Join()).execute_and_collect())) == 50


class Counts(CoFlatMapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.LONG()))

    def _count(self) -> int:
        count = (self.seen.value() or 0) + 1
        self.seen.update(count)
        return count

    def flat_map1(self, value: int) -> Iterable[Any]:
        yield value, self._count()

    def flat_map2(self, value: int) -> Iterable[Any]:
        yield value, self._count()


class CountsOfMaps(CoMapFunction, Counts):
    def map1(self, value: int) -> Any:
        return value, self._count()

    def map2(self, value: int) -> Any:
        return value, self._count()


@pytest.mark.parametrize(
    "apply", [lambda both: both.flat_map(Counts()), lambda both: both.map(CountsOfMaps())]
)
def test_map_and_flat_map_may_keep_state_too(apply: Callable[[Any], Any]) -> None:
    env = environment(parallelism=2)
    left, right = env.from_collection([1, 2, 3]), env.from_collection([1, 2])
    results = list(apply(left.connect(right).key_by(abs, abs)).execute_and_collect())
    assert sorted(results) == [(1, 1), (1, 2), (2, 1), (2, 2), (3, 1)]


def test_the_state_of_a_connected_operator_survives_a_failure(tmp_path: Any) -> None:
    env = environment(tmp_path, parallelism=2)
    numbers, names = env.from_collection(NUMBERS), env.from_collection(NAMES)
    both = numbers.connect(names).key_by(lambda pair: pair[0], lambda pair: pair[0])
    results = list(both.process(Join()).uid("join").execute_and_collect())
    assert sorted(results) == sorted((f"name {key}", number, key) for key, number in NUMBERS)


def test_a_failing_method_is_named_with_its_record() -> None:
    env = environment()
    both = env.from_collection([1]).connect(env.from_collection(["x"]))
    function = Repeats()
    function.flat_map2 = lambda value: 1 // 0  # type: ignore[method-assign]
    with pytest.raises(
        JobExecutionError, match=r"Co-Flat Map \(1/1\): flat_map2\(\) raised .* on the record 'x'"
    ):
        list(both.flat_map(function).execute_and_collect())


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda s, k: s.connect(k).map(Sides()), "second stream is keyed and the first is not"),
        (lambda s, k: k.connect(s).map(Sides()), "first stream is keyed and the second is not"),
        (lambda s, k: s.connect([1]), "a stream or a broadcast stream, not list"),
        (lambda s, k: s.connect(s).map(lambda value: value), r"needs map1\(\) and map2\(\)"),
        (lambda s, k: s.connect(s).flat_map(Sides()), r"Sides is neither callable nor .* flat_map1\(\)"),
        (lambda s, k: s.connect(environment().from_collection([1])).map(Sides()), "different environments"),
        (
            lambda s, k: s.key_by(abs, Types.INT()).connect(s.key_by(abs, Types.LONG())).process(Join()),
            "keys of the two streams have different types",
        ),
    ],
)
def test_what_cannot_be_connected_is_refused(write: Any, message: str) -> None:
    stream = environment().from_collection([1])
    with pytest.raises(ConfigurationError, match=message):
        write(stream, stream.key_by(abs))
