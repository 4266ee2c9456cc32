"""Raw state: byte streams per key group and per partition, which move on a change of parallelism."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from typing import Any, BinaryIO, ClassVar

import pytest
from tidegate.common.errors import CorruptCheckpointError, StateError, StateMigrationError, UserCodeError
from tidegate.operators.base import StreamOperator
from tidegate.operators.elementwise import MapOperator
from tidegate.protocol.checkpoints.handles import OperatorSnapshot
from tidegate.protocol.checkpoints.redistribution import redistribute
from tidegate.protocol.elements import Batch
from tidegate.state.keyed.raw_state import RawKeyedStateOutput, RawOperatorStateOutput
from tidegate.state.serializers.key_hashing import key_group_of

from .harness import OperatorUnderTest

MAX_PARALLELISM = 128


class OwnStructures(StreamOperator):
    """Counts per key in a dict of its own, and keeps the lengths of its batches in a list of its own."""

    def __init__(self) -> None:
        self.counts: dict[int, Any] = {}
        self.lengths: list[int] = []

    def process_batch(self, batch: Batch, input_index: int) -> None:
        self.lengths.append(len(batch))
        for value in batch.values:
            self.counts[value] = self.counts.get(value, 0) + 1

    def snapshot_raw_keyed(self, output: RawKeyedStateOutput) -> None:
        groups: dict[int, dict[int, Any]] = {}
        for key, count in self.counts.items():
            groups.setdefault(key_group_of(key, self.context.max_parallelism), {})[key] = count
        for key_group, counts in groups.items():
            output.start_new_key_group(key_group)
            pickle.dump(counts, output)

    def restore_raw_keyed(self, streams: Iterable[tuple[int, BinaryIO]]) -> None:
        for key_group, stream in streams:
            counts = pickle.load(stream)
            assert {key_group_of(key, self.context.max_parallelism) for key in counts} == {key_group}
            self.counts.update(counts)

    def snapshot_raw_operator(self, output: RawOperatorStateOutput) -> None:
        for length in self.lengths:
            output.start_new_partition()
            output.write(str(length).encode())
            output.write(b"!")

    def restore_raw_operator(self, partitions: Iterable[BinaryIO]) -> None:
        self.lengths += [int(partition.read().rstrip(b"!")) for partition in partitions]


def run(parallelism: int, restored: list[OperatorSnapshot] | None = None) -> list[Any]:
    return [
        OperatorUnderTest(
            OwnStructures(),
            restored=None if restored is None else restored[index],
            subtask_index=index,
            parallelism=parallelism,
        ).open()
        for index in range(parallelism)
    ]


def feed(subtasks: list[Any], keys: Iterable[int]) -> None:
    per_subtask: list[list[int]] = [[] for _ in subtasks]
    for key in keys:
        per_subtask[key_group_of(key, MAX_PARALLELISM) * len(subtasks) // MAX_PARALLELISM].append(key)
    for subtask, values in zip(subtasks, per_subtask, strict=True):
        subtask.process(values)


@pytest.mark.parametrize("path", [(2, 3, 1), (1, 5, 2), (3, 3), (128, 1, 128)])
def test_raw_state_follows_its_key_groups_and_partitions_through_every_parallelism(
    path: tuple[int, ...],
) -> None:
    subtasks = run(path[0])
    feed(subtasks, [*range(300), *range(100)])
    expected = sorted([(key, 2 if key < 100 else 1) for key in range(300)])
    lengths = sorted(length for subtask in subtasks for length in subtask.operator.lengths)
    for parallelism in path[1:]:
        snapshots = [subtask.checkpoint(1) for subtask in subtasks]
        subtasks = run(parallelism, redistribute(snapshots, parallelism, MAX_PARALLELISM))
        found = [item for subtask in subtasks for item in subtask.operator.counts.items()]
        assert sorted(found) == expected
        assert sorted(length for subtask in subtasks for length in subtask.operator.lengths) == lengths


def test_a_snapshot_is_a_base_of_its_own_and_holds_what_there_was_at_the_barrier() -> None:
    (test,) = run(1)
    test.process([1, 2])
    test.checkpoint(1)
    test.process([1])
    snapshot = test.checkpoint(2)
    (segment,) = snapshot.keyed.segments
    assert (segment.state_name, segment.is_base, segment.entry_count) == ("_raw_keyed", True, 2)
    assert snapshot.keyed.descriptors == {"_raw_keyed": {"kind": "raw-keyed"}}
    (again,) = run(1, [snapshot])
    assert (again.operator.counts, again.operator.lengths) == ({1: 2, 2: 1}, [2, 1])


class LargeStreams(StreamOperator):
    """One stream of a few megabytes, one that is empty."""

    contents: ClassVar[dict[int, bytes]] = {}

    def process_batch(self, batch: Batch, input_index: int) -> None: ...

    def snapshot_raw_keyed(self, output: RawKeyedStateOutput) -> None:
        output.start_new_key_group(9)
        for number in range(7):
            output.write(bytes([number]) * 500_000)
        output.start_new_key_group(3)

    def restore_raw_keyed(self, streams: Iterable[tuple[int, BinaryIO]]) -> None:
        LargeStreams.contents = {key_group: stream.read() for key_group, stream in streams}


def test_streams_may_be_large_or_empty() -> None:
    test = OperatorUnderTest(LargeStreams()).open()
    snapshot = test.checkpoint(1)
    OperatorUnderTest(LargeStreams(), snapshot, test.storage).open()
    expected = b"".join(bytes([number]) * 500_000 for number in range(7))
    assert LargeStreams.contents == {3: b"", 9: expected}


def test_without_raw_state_nothing_is_stored() -> None:
    snapshot = run(1)[0].checkpoint(1)
    assert snapshot.keyed.segments == ()
    assert [handle.item_count for handle in snapshot.lists] == [0]


# ---------------------------------------------------------------- mistakes


class Misuse(OwnStructures):
    def __init__(self, mistake: str) -> None:
        super().__init__()
        self.mistake = mistake

    def snapshot_raw_keyed(self, output: RawKeyedStateOutput) -> None:
        if self.mistake == "another's":
            output.start_new_key_group(100)
        if self.mistake == "twice":
            output.start_new_key_group(1)
            output.start_new_key_group(1)
        if self.mistake == "early":
            output.write(b"x")
        if self.mistake == "user's":
            raise ValueError("no more paper")

    def snapshot_raw_operator(self, output: RawOperatorStateOutput) -> None:
        output.write(b"x")


@pytest.mark.parametrize(
    ("mistake", "kind", "message"),
    [
        ("another's", StateError, r"Totals.*subtask 0: raw keyed state of key group 100.*has 0 to 63"),
        ("twice", StateError, "key group 1 is started twice"),
        ("early", StateError, r"call start_new_key_group\(\) before"),
        ("user's", UserCodeError, r"Totals \(1/2\): snapshot_raw_keyed\(\) raised ValueError: no more paper"),
        ("", StateError, r"call start_new_partition\(\) before"),
    ],
)
def test_misuse_declines_with_the_reason(mistake: str, kind: type[Exception], message: str) -> None:
    test = OperatorUnderTest(Misuse(mistake)).open()
    with pytest.raises(kind, match=message):
        test.checkpoint(1)


def test_raw_state_that_nobody_takes_over_is_an_error() -> None:
    (test,) = run(1)
    test.process([1, 2])
    snapshot = test.checkpoint(1)
    with pytest.raises(StateMigrationError, match=r"Totals.*raw keyed state.*MapOperator has no restore_raw"):
        OperatorUnderTest(MapOperator(str), snapshot)
    lists_only = OperatorSnapshot(lists=snapshot.lists)
    with pytest.raises(StateMigrationError, match=r"raw operator state.*has no restore_raw_operator"):
        OperatorUnderTest(MapOperator(str), lists_only)


def test_a_damaged_file_is_named() -> None:
    (test,) = run(1)
    test.process([1, 2])
    snapshot = test.checkpoint(1)
    (segment,) = snapshot.keyed.segments
    wrong = test.storage.write_file("shared/op-uid/wrong.parquet", b"no parquet")
    damaged = snapshot.with_files(lambda file: wrong if file == segment.file else file)
    with pytest.raises(CorruptCheckpointError, match=r"wrong\.parquet.*raw keyed state"):
        run(1, [damaged])
