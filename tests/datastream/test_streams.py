"""Programs through the public API, from source to result, on the local target."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from tidegate.common import Types, WatermarkStrategy
from tidegate.common.errors import ConfigurationError
from tidegate.datastream import (
    AggregateFunction,
    Committer,
    DataStream,
    FilterFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    ProcessFunction,
    ReduceFunction,
    RuntimeContext,
    Sink,
    SinkFunction,
    SinkWriter,
    StreamExecutionEnvironment,
)
from tidegate.datastream.connectors.number_seq import NumberSequenceSource
from tidegate.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)

from .jobs import RunningSum, environment, expected_sums


def numbers(env: StreamExecutionEnvironment, count: int) -> DataStream:
    source = NumberSequenceSource(0, count - 1)
    return env.from_source(source, WatermarkStrategy.no_watermarks(), "Numbers")


def collect(stream: DataStream) -> list[Any]:
    return list(stream.execute_and_collect())


# ---------------------------------------------------------------- element by element


class Double(MapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.factor = 2

    def map(self, value: int) -> int:
        return value * self.factor


class Odd(FilterFunction):
    def filter(self, value: int) -> bool:
        return value % 2 == 1


class Repeat(FlatMapFunction):
    def flat_map(self, value: int) -> Iterable[int]:
        yield from [value] * value


class Small(ProcessFunction):
    def process_element(self, value: int, ctx: ProcessFunction.Context) -> Iterable[Any] | None:
        return [(value, ctx.timestamp())] if value < 2 else None


@pytest.mark.parametrize(
    ("transform", "expected"),
    [
        (lambda stream: stream.map(Double()), [0, 2, 4, 6]),
        (lambda stream: stream.map(lambda value: value * 2), [0, 2, 4, 6]),
        (lambda stream: stream.filter(Odd()), [1, 3]),
        (lambda stream: stream.filter(lambda value: value > 2), [3]),
        (lambda stream: stream.flat_map(Repeat()), [1, 2, 2, 3, 3, 3]),
        (lambda stream: stream.flat_map(lambda value: None), []),
        (lambda stream: stream.process(Small()), [(0, None), (1, None)]),
        (lambda stream: stream.map(str).map(str.upper).filter(len), ["0", "1", "2", "3"]),
    ],
)
def test_each_operator_does_what_it_says(
    transform: Callable[[DataStream], DataStream], expected: list[Any]
) -> None:
    assert collect(transform(environment().from_collection(range(4)))) == expected


def test_a_collection_may_hold_anything() -> None:
    records = [None, 1, "a", (1, 2), {"a": 1}, [1], b"x", 1.5]
    assert collect(environment().from_collection(records)) == records
    assert collect(environment().from_collection(iter([]))) == []


@pytest.mark.parametrize("parallelism", [1, 3])
def test_parallel_sources_read_every_record_once(parallelism: int) -> None:
    stream = numbers(environment(parallelism=parallelism), 10_000).map(lambda value: value + 1)
    assert sorted(collect(stream)) == list(range(1, 10_001))


@pytest.mark.parametrize("chained", [True, False])
def test_chaining_does_not_change_the_result(chained: bool) -> None:
    env = environment(parallelism=2)
    if not chained:
        env.disable_operator_chaining()
    assert env.is_chaining_enabled() == chained
    stream = numbers(env, 1_000).map(lambda value: value * 2).filter(lambda value: value % 3 == 0)
    assert sorted(collect(stream)) == [value * 2 for value in range(1_000) if value * 2 % 3 == 0]


def test_two_streams_from_one_source_both_get_every_record() -> None:
    env = environment()
    source = env.from_collection(range(100))
    left, right = source.map(lambda value: ("left", value)), source.map(lambda value: ("right", value))
    counts = Counter(side for side, _ in collect(left.union(right)))
    assert counts == {"left": 100, "right": 100}


def test_union_brings_streams_of_any_parallelism_together() -> None:
    env = environment(parallelism=2)
    parts = [numbers(env, 100), env.from_collection(range(100, 150)), numbers(env, 10).set_parallelism(3)]
    assert sorted(collect(parts[0].union(*parts[1:]))) == sorted([*range(150), *range(10)])


def test_a_stream_united_with_itself_comes_twice() -> None:
    stream = environment().from_collection([1, 2])
    assert sorted(collect(stream.union(stream))) == [1, 1, 2, 2]


# ---------------------------------------------------------------- keyed


@pytest.mark.parametrize("parallelism", [1, 2, 3])
@pytest.mark.parametrize("backend", ["hashmap", "lmdb"])
def test_keyed_state_is_right_at_any_parallelism(parallelism: int, backend: str, tmp_path: Any) -> None:
    options = {"state.backend.type": backend, "tidegate.local-dir": str(tmp_path)}
    env = environment(parallelism=parallelism, options=options)
    stream = numbers(env, 5_000).key_by(lambda value: value % 7, key_type=Types.LONG()).process(RunningSum())
    results = collect(stream)
    assert len(results) == len(set(results)) == 5_000
    last = {key: (key, count, total) for key, count, total in sorted(results)}
    assert set(last.values()) == expected_sums(5_000, 7)


class LastDigit(KeySelector):
    def get_key(self, value: int) -> str:
        return str(value)[-1]


def test_a_key_selector_may_be_an_object() -> None:
    stream = environment(parallelism=2).from_collection(range(30)).key_by(LastDigit()).process(RunningSum())
    assert {key: count for key, count, _ in sorted(collect(stream))} == {str(digit): 3 for digit in range(10)}


class Average(AggregateFunction):
    def create_accumulator(self) -> Any:
        return 0, 0

    def add(self, value: int, accumulator: Any) -> Any:
        return accumulator[0] + 1, accumulator[1] + value

    def get_result(self, accumulator: Any) -> float:
        return float(accumulator[1] / accumulator[0])

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class EveryKind(KeyedProcessFunction):
    """Keeps the same numbers in each kind of state."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.value = runtime_context.get_state(ValueStateDescriptor("value", Types.LONG()))
        self.list = runtime_context.get_list_state(ListStateDescriptor("list", Types.LONG()))
        self.map = runtime_context.get_map_state(MapStateDescriptor("map", Types.STRING(), Types.LONG()))
        self.reducing = runtime_context.get_reducing_state(
            ReducingStateDescriptor("reducing", max, Types.LONG())
        )
        self.aggregating = runtime_context.get_aggregating_state(
            AggregatingStateDescriptor("aggregating", Average(), Types.PICKLED_BYTE_ARRAY())
        )

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        self.value.update(value)
        self.list.add(value)
        self.map.put(str(value), value)
        self.reducing.add(value)
        self.aggregating.add(value)
        yield (
            self.value.value(),
            list(self.list.get()),
            dict(self.map.items()),
            self.reducing.get(),
            self.aggregating.get(),
        )


@pytest.mark.parametrize("backend", ["hashmap", "lmdb"])
def test_every_kind_of_state_can_be_used(backend: str, tmp_path: Any) -> None:
    options = {"state.backend.type": backend, "tidegate.local-dir": str(tmp_path)}
    stream = (
        environment(options=options).from_collection([2, 6, 4]).key_by(lambda value: 0).process(EveryKind())
    )
    assert collect(stream)[-1] == (4, [2, 6, 4], {"2": 2, "6": 6, "4": 4}, 6, 4.0)


class Sum(ReduceFunction):
    def reduce(self, value1: Any, value2: Any) -> Any:
        return value1[0], value1[1] + value2[1]


@pytest.mark.parametrize("function", [Sum(), lambda one, two: (one[0], one[1] + two[1])])
def test_reduce_emits_the_value_so_far(function: Any) -> None:
    records = [("a", 1), ("b", 5), ("a", 2), ("a", 3)]
    stream = environment().from_collection(records).key_by(lambda record: record[0]).reduce(function)
    assert collect(stream) == [("a", 1), ("b", 5), ("a", 3), ("a", 6)]


def test_map_filter_and_flat_map_run_on_keyed_streams() -> None:
    keyed = environment().from_collection([1, 2, 3]).key_by(lambda value: value % 2)
    assert collect(keyed.map(lambda value: value * 10)) == [10, 20, 30]
    keyed = environment().from_collection([1, 2, 3]).key_by(lambda value: value % 2)
    assert collect(keyed.filter(lambda value: value > 1)) == [2, 3]
    keyed = environment().from_collection([1, 2, 3]).key_by(lambda value: value % 2)
    assert collect(keyed.flat_map(lambda value: [value] * value)) == [1, 2, 2, 3, 3, 3]


def test_a_union_can_be_keyed() -> None:
    env = environment(parallelism=2)
    united = env.from_collection(range(50)).union(env.from_collection(range(50, 100)))
    results = collect(united.key_by(lambda value: value % 5).process(RunningSum()))
    assert expected_sums(100, 5) <= set(results)


# ---------------------------------------------------------------- partitioning


class Where(MapFunction):
    """The record and the subtask that saw it."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.index = runtime_context.get_index_of_this_subtask()

    def map(self, value: Any) -> Any:
        return value, self.index


def test_rebalance_deals_records_to_all_subtasks() -> None:
    stream = environment(parallelism=4).from_collection(range(100)).rebalance().map(Where())
    assert Counter(index for _, index in collect(stream)) == {0: 25, 1: 25, 2: 25, 3: 25}


def test_rescale_stays_within_its_group() -> None:
    env = environment(parallelism=2)
    tagged = numbers(env, 100).map(Where()).set_parallelism(2)
    results = collect(tagged.rescale().map(Where()).set_parallelism(4))
    assert len(results) == 100
    assert {(first, second) for (_, first), second in results} == {(0, 0), (0, 1), (1, 2), (1, 3)}


def test_broadcast_gives_every_record_to_every_subtask() -> None:
    stream = environment(parallelism=3).from_collection(["a", "b"]).broadcast().map(Where())
    assert sorted(collect(stream)) == [(value, index) for value in "ab" for index in range(3)]


def test_forward_keeps_the_subtask() -> None:
    stream = numbers(environment(parallelism=3), 30).map(Where()).forward().map(Where()).disable_chaining()
    assert all(first == second for (_, first), second in collect(stream))


# ---------------------------------------------------------------- sinks


class Gather(SinkFunction):
    """Sinks run in this process, so a class attribute can gather what they got."""

    gathered: list[Any] = []  # noqa: RUF012

    def invoke(self, value: Any) -> None:
        Gather.gathered.append(value)


def gathered_append(value: Any) -> None:
    Gather.gathered.append(value)


class GatherCommitted(Sink):
    def create_writer(self) -> SinkWriter:
        return GatherWriter()

    def create_committer(self) -> Committer | None:
        return GatherCommitter()


class GatherWriter(SinkWriter):
    def __init__(self) -> None:
        self.values: list[Any] = []

    def write_batch(self, values: list[Any]) -> None:
        self.values += values

    def prepare_commit(self) -> list[Any]:
        values, self.values = self.values, []
        return values


class GatherCommitter(Committer):
    def commit(self, committables: list[Any]) -> None:
        Gather.gathered += committables


@pytest.fixture(autouse=True)
def nothing_gathered() -> None:
    Gather.gathered.clear()


@pytest.mark.parametrize("with_checkpoints", [False, True])
@pytest.mark.parametrize(
    "end",
    [
        lambda stream: stream.add_sink(Gather()),
        lambda stream: stream.add_sink(gathered_append),
        lambda stream: stream.sink_to(GatherCommitted()),
    ],
    ids=["function", "callable", "two-phase"],
)
def test_a_sink_gets_every_record(
    end: Callable[[DataStream], Any], with_checkpoints: bool, tmp_path: Any
) -> None:
    env = environment(tmp_path if with_checkpoints else None, parallelism=2)
    end(numbers(env, 1_000)).name("End").uid("end").set_parallelism(2).disable_chaining()
    result = env.execute("to a sink")
    assert sorted(Gather.gathered) == list(range(1_000))
    assert result.get_net_runtime() >= 0


def test_several_sinks_run_in_one_job() -> None:
    env = environment()
    stream = env.from_collection([1, 2])
    stream.add_sink(Gather())
    stream.map(lambda value: value * 10).add_sink(Gather())
    env.execute()
    assert sorted(Gather.gathered) == [1, 2, 10, 20]


def test_an_executed_environment_can_be_used_for_the_next_job() -> None:
    env = environment()
    assert collect(env.from_collection([1])) == [1]
    assert collect(env.from_collection([2])) == [2]


# ---------------------------------------------------------------- refused where it is written


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda s: s.map(3), r"int is neither callable nor has a method map\(\)"),
        (lambda s: s.key_by(1), r"int is neither callable nor has a method get_key\(\)"),
        (lambda s: s.sink_to(Gather()), r"sink_to\(\) takes a Sink, not Gather; .*add_sink\(\)"),
        (lambda s: s.uid(""), "uid must not be empty"),
        (lambda s: s.set_parallelism(2), "'Collection' can only run with parallelism 1, not 2"),
        (lambda s: s.map(str).set_parallelism(0), "at least 1, got 0"),
        (lambda s: s.map(str).force_non_parallel().set_parallelism(2), "parallelism 1, not 2"),
        (lambda s: s.union(s).uid("x"), "has no operator of its own"),
        (lambda s: s.rebalance().name("x"), "has no operator of its own"),
        (lambda s: s.key_by(str).name("x"), "a keyed stream has no operator of its own"),
        (lambda s: s.union([1]), r"union\(\) takes streams, not list"),
        (lambda s: s.key_by(str).rebalance(), r"rebalance\(\) cannot change that"),
    ],
)
def test_what_cannot_work_is_refused_at_once(write: Callable[[DataStream], Any], message: str) -> None:
    stream = environment().from_collection([1])
    with pytest.raises(ConfigurationError, match=message):
        write(stream)


def test_only_sources_are_sources() -> None:
    with pytest.raises(ConfigurationError, match=r"from_source\(\) takes a Source, not list"):
        environment().from_source([1], WatermarkStrategy.no_watermarks(), "x")  # type: ignore[arg-type]


def test_an_empty_number_sequence_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="swap the bounds"):
        NumberSequenceSource(1, 0)
