"""How streams spread their records over subtasks, and what cannot be spread."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from tidegate.common import Types
from tidegate.common.errors import ConfigurationError, JobExecutionError
from tidegate.datastream import DataStream, MapFunction, Partitioner, RuntimeContext

from .jobs import environment


class Where(MapFunction):
    """The record and the subtask that saw it."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.index = runtime_context.get_index_of_this_subtask()

    def map(self, value: Any) -> Any:
        return value, self.index


class Modulo(Partitioner):
    def partition(self, key: int, num_partitions: int) -> int:
        return key % num_partitions


def placed(spread: Callable[[DataStream], DataStream], parallelism: int = 4) -> list[tuple[int, int]]:
    stream = environment(parallelism=parallelism).from_collection(range(400))
    return list(spread(stream).map(Where()).execute_and_collect())


def test_shuffle_sends_records_anywhere_and_alike() -> None:
    results = placed(lambda stream: stream.shuffle())
    counts = Counter(index for _, index in results)
    assert sorted(value for value, _ in results) == list(range(400))
    assert set(counts) == {0, 1, 2, 3}
    assert all(60 < count < 140 for count in counts.values())
    assert [index for _, index in sorted(results)] != [value % 4 for value in range(400)]


def test_global_sends_every_record_to_the_first_subtask() -> None:
    assert placed(lambda stream: stream.global_()) == [(value, 0) for value in range(400)]


@pytest.mark.parametrize("partitioner", [Modulo(), lambda key, count: key % count])
def test_a_custom_partitioner_names_the_subtask(partitioner: Any) -> None:
    results = placed(lambda stream: stream.partition_custom(partitioner, lambda value: value // 10))
    assert Counter(results) == Counter((value, value // 10 % 4) for value in range(400))


def test_a_custom_partitioner_is_asked_even_where_there_is_one_subtask() -> None:
    with pytest.raises(JobExecutionError, match="named subtask 1 of 1"):
        placed(lambda stream: stream.partition_custom(lambda key, count: 1, lambda value: value), 1)


@pytest.mark.parametrize(
    ("partitioner", "message"),
    [
        (lambda key, count: count, r"named subtask 4 of 4; name one from 0 to 3 on the record 0"),
        (lambda key, count: -1, r"named subtask -1 of 4"),
        (lambda key, count: "1", r"'str' object cannot be interpreted as an integer"),
        (lambda key, count: 1 // key, r"ZeroDivisionError.* on the record 0"),
    ],
)
def test_a_bad_answer_of_a_partitioner_names_the_record(partitioner: Any, message: str) -> None:
    with pytest.raises(
        JobExecutionError, match=rf"partition_custom\(\) after operator Collection: .*{message}"
    ):
        placed(lambda stream: stream.partition_custom(partitioner, lambda value: value))


def test_a_repartitioned_stream_can_be_repartitioned_again() -> None:
    results = placed(lambda stream: stream.partition_custom(Modulo(), lambda value: value).global_())
    assert {index for _, index in results} == {0}


def test_keyed_streams_are_united_as_plain_records() -> None:
    env = environment(parallelism=2)
    left = env.from_collection([1, 2]).key_by(lambda value: value)
    right = env.from_collection([3, 4])
    assert sorted(left.union(right).map(abs).execute_and_collect()) == [1, 2, 3, 4]
    left = env.from_collection([1, 2]).key_by(lambda value: value)
    right = env.from_collection([3, 4]).key_by(lambda value: value)
    assert sorted(left.union(right).map(abs).execute_and_collect()) == [1, 2, 3, 4]


def test_a_union_of_different_types_names_both_operators() -> None:
    env = environment()
    left = env.from_collection([1], Types.INT())
    right = env.from_collection([1]).map(str, Types.STRING()).name("Names")
    with pytest.raises(ConfigurationError, match=r"types: .*'Collection'.*Integer.*'Names'.*String"):
        left.union(right)
    assert left.union(env.from_collection([2])).get_type() == Types.PICKLED_BYTE_ARRAY()
    assert left.union(env.from_collection([2], Types.INT())).get_type() == Types.INT()


@pytest.mark.parametrize(
    "spread",
    [
        lambda keyed: keyed.shuffle(),
        lambda keyed: keyed.rebalance(),
        lambda keyed: keyed.rescale(),
        lambda keyed: keyed.forward(),
        lambda keyed: keyed.broadcast(),
        lambda keyed: keyed.global_(),
        lambda keyed: keyed.partition_custom(Modulo(), abs),
    ],
)
def test_a_keyed_stream_keeps_its_partitioning(spread: Callable[[Any], Any]) -> None:
    keyed = environment().from_collection([1]).key_by(abs)
    with pytest.raises(ConfigurationError, match=r"partitioned by its key; .*before key_by\(\)"):
        spread(keyed)


def test_keying_again_replaces_the_key() -> None:
    keyed = environment(parallelism=3).from_collection(range(30)).key_by(lambda value: value)
    results = keyed.key_by(lambda value: value % 2).map(Where()).execute_and_collect()
    assert len({index for _, index in results}) <= 2
