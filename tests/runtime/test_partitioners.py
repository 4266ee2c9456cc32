"""Partitioners: which record goes to which subtask."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import cloudpickle
import numpy as np
import pyarrow as pa
import pytest
from tidegate.common.errors import KeyTypeError, UserCodeError
from tidegate.operators.keyed.key_hashing import key_group_of
from tidegate.protocol.elements import Batch
from tidegate.protocol.ids import ChannelId
from tidegate.protocol.key_groups import subtask_of_key_group
from tidegate.protocol.scheduling.execution_graph import OutputEdge
from tidegate.protocol.scheduling.partitioning import Partitioning
from tidegate.protocol.scheduling.plan import StreamEdge
from tidegate.runtime.output import ChannelBooks, OutputChannel
from tidegate.runtime.partitioners import partitioner

from .fakes import ATTEMPT, FakePorts, task_settings


class Exchange:
    """One edge from a single subtask to `downstream` ones."""

    def __init__(
        self,
        partitioning: Partitioning,
        downstream: int,
        select: Callable[[Any], Any] | None = None,
        max_parallelism: int = 128,
    ) -> None:
        self.ports = FakePorts()
        self.max_parallelism = max_parallelism
        ids = [ChannelId(0, 0, index) for index in range(downstream)]
        selector = cloudpickle.dumps(select) if select is not None else None
        edge = StreamEdge(0, 1, 2, partitioning, key_selector=selector)
        books = ChannelBooks()
        self.channels = [OutputChannel(ATTEMPT, each, task_settings(), self.ports, books) for each in ids]
        out = OutputEdge(edge, tuple(ids), max_parallelism, downstream)
        self.emit = partitioner(out, self.channels, "Parse")

    def flush(self) -> None:
        for channel in self.channels:
            channel.flush()

    def records(self) -> list[list[Any]]:
        """Records by downstream subtask."""
        self.flush()
        return [self.ports.records(index) for index in range(len(self.channels))]

    def batches(self, index: int) -> list[Batch]:
        self.flush()
        return [element for element in self.ports.elements(index) if isinstance(element, Batch)]


KEYS: dict[str, list[Any]] = {
    "integers": list(range(-50, 50)),
    "strings": [f"N{number}" for number in range(100)],
    "unicode": ["ä", "日本", "", "z" * 300],
    "bytes": [b"", b"\x00", b"abc"],
    "tuples": [(number, f"{number}") for number in range(50)],
    "nested tuples": [((number, True), b"x") for number in range(20)],
    "booleans": [True, False],
    "dates": [datetime.date(2013, 1, day) for day in range(1, 29)],
    "big integers": [2**63, -(2**63) - 1, 10**40, 2**64 + 5],
    "mixed sizes": [1, 2**70, -3],
    "mixed types": [1, "1", b"1", (1,)],
    "integers and booleans": [2, True, 3, False, 0, 1],
}


@pytest.mark.parametrize("max_parallelism", [128, 90])
@pytest.mark.parametrize("kind", KEYS)
def test_every_record_goes_to_the_owner_of_its_key_group(kind: str, max_parallelism: int) -> None:
    exchange = Exchange(Partitioning.HASH, 3, lambda record: record[0], max_parallelism)
    records = [(key, number) for number, key in enumerate(KEYS[kind])]
    exchange.emit(Batch(records))
    for index, received in enumerate(exchange.records()):
        for key, _ in received:
            key_group = key_group_of(key, max_parallelism)
            assert subtask_of_key_group(key_group, max_parallelism, 3) == index
    assert sorted((number for part in exchange.records() for _, number in part)) == list(range(len(records)))


@pytest.mark.parametrize("downstream", [1, 3])
@pytest.mark.parametrize("kind", KEYS)
def test_keys_and_timestamps_travel_with_their_records(kind: str, downstream: int) -> None:
    exchange = Exchange(Partitioning.HASH, downstream, lambda record: record[0])
    records = [(key, number) for number, key in enumerate(KEYS[kind])]
    exchange.emit(Batch(records, [number * 10 for _, number in records]))
    for index in range(downstream):
        for batch in exchange.batches(index):
            keys = batch.keys if isinstance(batch.keys, list) else batch.keys.tolist()
            assert [(type(key), key) for key in keys] == [(type(r[0]), r[0]) for r in batch.values]
            assert list(batch.timestamps or []) == [number * 10 for _, number in batch.values]


RECORDS = [[1, [2]], (3, (4, 5)), {"a": 1}, None, np.array([1, 2]), np.int64(7), "text", object()]


@pytest.mark.parametrize(
    "partitioning",
    [Partitioning.SHUFFLE, Partitioning.HASH, Partitioning.REBALANCE],
    ids=lambda each: each.name,
)
def test_records_of_any_kind_are_sent_as_they_are(partitioning: Partitioning) -> None:
    exchange = Exchange(partitioning, 2, None if partitioning is not Partitioning.HASH else id)
    exchange.emit(Batch(RECORDS, list(range(len(RECORDS)))))
    sent = [pair for i in (0, 1) for b in exchange.batches(i) for pair in zip(b.values, b.timestamps or ())]
    assert len(sent) == len(RECORDS)
    assert all(record is RECORDS[time] and type(time) is int for record, time in sent)


def test_records_of_one_key_keep_their_order() -> None:
    exchange = Exchange(Partitioning.HASH, 4, lambda record: record[0])
    for start in range(0, 300, 30):
        exchange.emit(Batch([(number % 7, number) for number in range(start, start + 30)]))
    for part in exchange.records():
        for key in range(7):
            numbers = [number for known, number in part if known == key]
            assert numbers == sorted(numbers)


@pytest.mark.parametrize("downstream", [1, 2])
@pytest.mark.parametrize("key", [1.5, [1.5], {"a": 1}, object(), None, (1, 2.5)])
def test_a_key_without_an_encoding_names_the_operator(key: Any, downstream: int) -> None:
    exchange = Exchange(Partitioning.HASH, downstream, lambda record: record)
    with pytest.raises(KeyTypeError, match=r"key_by\(\) after operator Parse"):
        exchange.emit(Batch([1, key]))


@pytest.mark.parametrize("downstream", [1, 2])
def test_a_failing_key_selector_names_operator_and_record(downstream: int) -> None:
    exchange = Exchange(Partitioning.HASH, downstream, lambda record: record["tail"])
    with pytest.raises(UserCodeError, match=r"Parse: the key selector raised KeyError.*\{'nose': 2\}"):
        exchange.emit(Batch([{"tail": 1}, {"nose": 2}, {"tail": 3}]))


def test_a_key_selector_that_raises_stop_iteration_loses_no_record() -> None:
    exchange = Exchange(Partitioning.HASH, 1, lambda record: next(iter(record)))
    with pytest.raises(UserCodeError, match=r"StopIteration.* on the record \(\)"):
        exchange.emit(Batch([(1,), (), (2,)]))


def test_an_empty_batch_goes_nowhere() -> None:
    exchange = Exchange(Partitioning.HASH, 3, lambda record: record)
    exchange.emit(Batch([]))
    assert exchange.records() == [[], [], []]


def test_arrow_batches_are_partitioned_by_row() -> None:
    exchange = Exchange(Partitioning.HASH, 2, lambda row: row[0])
    exchange.emit(Batch(pa.record_batch({"key": ["a", "b", "c"], "value": [1, 2, 3]})))
    assert sorted(row for part in exchange.records() for row in part) == [("a", 1), ("b", 2), ("c", 3)]


@pytest.mark.parametrize("partitioning", [Partitioning.REBALANCE, Partitioning.RESCALE])
def test_round_robin_deals_evenly_across_batches(partitioning: Partitioning) -> None:
    exchange = Exchange(partitioning, 3)
    for start in range(0, 50, 5):
        exchange.emit(Batch(list(range(start, start + 5)), list(range(start, start + 5))))
    parts = exchange.records()
    assert parts == [list(range(index, 50, 3)) for index in range(3)]
    for index in range(3):
        for batch in exchange.batches(index):
            assert batch.timestamps == batch.values


def test_round_robin_with_batches_shorter_than_the_channels() -> None:
    exchange = Exchange(Partitioning.REBALANCE, 4)
    for record in range(8):
        exchange.emit(Batch([record]))
    assert exchange.records() == [[0, 4], [1, 5], [2, 6], [3, 7]]


def test_broadcast_gives_every_record_to_everybody() -> None:
    exchange = Exchange(Partitioning.BROADCAST, 3)
    exchange.emit(Batch(["a", "b"], [1, 2]))
    assert exchange.records() == [["a", "b"]] * 3
    assert all(exchange.batches(index)[0].timestamps == [1, 2] for index in range(3))


def test_forward_hands_the_batch_on_as_it_is() -> None:
    exchange = Exchange(Partitioning.FORWARD, 1)
    batch = Batch(pa.record_batch({"value": [1, 2]}))
    exchange.emit(batch)
    assert exchange.batches(0) == [batch]
