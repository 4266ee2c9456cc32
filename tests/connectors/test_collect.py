"""Collected records reach the driver once per epoch, and stay in the snapshot until they do."""

from __future__ import annotations

from typing import Any

import pytest
from tidegate.common.errors import ConfigurationError
from tidegate.connectors.collect import CollectSink
from tidegate.connectors.collection import CollectionSource
from tidegate.connectors.number_sequence import NumberSequenceSource
from tidegate.operators.base import OperatorContext
from tidegate.operators.sources.sources import SourceReader
from tidegate.operators.timers.processing_time import ProcessingTimeService
from tidegate.protocol.ids import Attempt, JobId
from tidegate.state.operator.list_storage import OperatorStateBackendParameters
from tidegate.state.operator.operator_state_backend import OperatorStateBackend


class Results:
    def __init__(self) -> None:
        self.offered: list[tuple[str, list[Any]]] = []
        self.credit = True
        self.unconfirmed_offers = 0

    def offer(self, key: str, values: list[Any]) -> None:
        self.offered.append((key, list(values)))

    def unconfirmed(self) -> int:
        return self.unconfirmed_offers

    def has_credit(self) -> bool:
        return self.credit


def no_keyed_state(key_type: object) -> Any:
    raise AssertionError("a sink has no keyed state")


def context(
    results: Results, subtask_index: int = 0, attempt: int = 1, job_id: str = "job"
) -> OperatorContext:
    return OperatorContext(
        "uid", "Collect", subtask_index, 2, 128, Attempt(attempt), 0, True, False, lambda: 0,
        no_keyed_state, OperatorStateBackend(OperatorStateBackendParameters("uid", "Collect", 0)),
        "/nonexistent", results, job_id=JobId(job_id),
        processing_time=ProcessingTimeService(lambda: 0), mailbox=lambda action: None,
    )  # fmt: skip


@pytest.mark.parametrize("is_checkpointing", [False, True])
def test_a_collector_waits_for_the_driver(is_checkpointing: bool) -> None:
    results = Results()
    writer = CollectSink(is_checkpointing).create_writer()
    writer.open(context(results))
    assert writer.is_ready()
    results.credit = False
    assert not writer.is_ready()


def test_without_checkpoints_records_go_at_once_and_carry_no_key() -> None:
    results = Results()
    sink = CollectSink(is_checkpointing=False)
    assert sink.create_committer() is None
    writer = sink.create_writer()
    writer.open(context(results))
    writer.write_batch([1, 2])
    assert results.offered == [("", [1, 2])]
    assert writer.prepare_commit() == []


def test_with_checkpoints_records_travel_in_the_committable() -> None:
    results = Results()
    sink = CollectSink(is_checkpointing=True)
    writer, committer = sink.create_writer(), sink.create_committer()
    assert committer is not None
    writer.open(context(results))
    committer.open(context(results))
    writer.write_batch([1])
    writer.write_batch([2])
    committables = writer.prepare_commit()
    assert results.offered == []
    committer.commit(committables)
    committer.commit(committables)
    (first_key, values), (second_key, _) = results.offered
    assert values == [1, 2]
    assert first_key == second_key, "the driver tells a repeated commit by its key"
    assert writer.prepare_commit() == []


def test_what_the_driver_may_not_have_yet_stays_with_the_committer() -> None:
    results = Results()
    committer = CollectSink(is_checkpointing=True).create_committer()
    assert committer is not None
    committer.open(context(results))
    committer.commit([("a", [1]), ("b", [2])])
    for unconfirmed, expected in ((2, [("a", [1]), ("b", [2])]), (1, [("b", [2])]), (0, [])):
        results.unconfirmed_offers = unconfirmed
        assert committer.unconfirmed() == expected


def test_epochs_subtasks_attempts_and_jobs_have_keys_of_their_own() -> None:
    keys = []
    for subtask_index, attempt, job_id in ((0, 1, "a"), (1, 1, "a"), (0, 2, "a"), (0, 1, "b")):
        writer = CollectSink(is_checkpointing=True).create_writer()
        writer.open(context(Results(), subtask_index, attempt, job_id))
        for value in range(2):
            writer.write_batch([value])
            keys += [key for key, _ in writer.prepare_commit()]
    assert len(set(keys)) == 8


# ---------------------------------------------------------------- sources


def read(reader: SourceReader, max_records: int, polls: int | None = None) -> list[Any]:
    records: list[Any] = []
    while polls is None or polls > 0:
        batch = reader.poll(max_records)
        if batch is None:
            break
        assert 0 < len(batch) <= max_records
        records += batch.values
        polls = None if polls is None else polls - 1
    return records


@pytest.mark.parametrize("polls", range(6))
def test_a_collection_is_read_on_from_its_position(polls: int) -> None:
    source = CollectionSource(iter("abcdefg"))
    reader = source.create_reader(source.create_splits(1))
    before = read(reader, 2, polls)
    position = reader.snapshot_state()
    read(reader, 2, 1)
    assert [*before, *read(source.create_reader(position), 3)] == list("abcdefg")


def test_a_collection_has_one_reader_and_others_are_empty() -> None:
    source = CollectionSource([1])
    assert source.max_source_parallelism() == 1
    assert source.create_reader([]).poll(10) is None


@pytest.mark.parametrize("parallelism", [1, 2, 3, 7, 20])
def test_the_splits_of_a_number_sequence_cover_it_once(parallelism: int) -> None:
    source = NumberSequenceSource(-3, 8)
    splits = source.create_splits(parallelism)
    assert len(splits) == min(parallelism, 12)
    parts = [read(source.create_reader([split]), 5) for split in splits]
    assert [number for part in parts for number in part] == list(range(-3, 9))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.parametrize("polls", range(5))
def test_a_number_sequence_is_read_on_from_its_positions(polls: int) -> None:
    source = NumberSequenceSource(0, 9)
    reader = source.create_reader(source.create_splits(2))
    before = read(reader, 3, polls)
    positions = reader.snapshot_state()
    read(reader, 3, 1)
    assert [*before, *read(source.create_reader(positions), 100)] == list(range(10))


def test_a_number_sequence_of_one() -> None:
    source = NumberSequenceSource(5, 5)
    assert read(source.create_reader(source.create_splits(4)), 10) == [5]
    with pytest.raises(ConfigurationError, match="from 5 to 4 is empty"):
        NumberSequenceSource(5, 4)
