"""The records of a stage's epochs: what a snapshot writes, what local disk holds, and what comes back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tidegate.common.errors import CorruptCheckpointError
from tidegate.protocol.checkpoints.handles import OperatorListHandle
from tidegate.state.operator import epoch_tables
from tidegate.state.operator.epoch_tables import EpochTablesDescriptor, EpochTablesState
from tidegate.state.operator.list_storage import OperatorStateBackendParameters
from tidegate.state.operator.operator_state_backend import OperatorStateBackend
from tidegate.state.storage.memory_storage import MemoryCheckpointStorage

from ..simulation.mutants.base import Mutant


def table(*numbers: int, name: str = "id") -> pa.Table:
    return pa.table({name: pa.array(numbers, pa.int64())})


class Subtask:
    """The state of one attempt."""

    def __init__(
        self,
        storage: MemoryCheckpointStorage,
        directory: Path,
        handles: tuple[OperatorListHandle, ...] = (),
        owned: bool = True,
        attempt: int = 1,
    ) -> None:
        params = OperatorStateBackendParameters(
            "uid", "stage", 0, attempt, storage, "shared/uid", str(directory)
        )
        self.states = OperatorStateBackend(params)
        self.states.restore(handles, owned)
        self.tables: EpochTablesState = self.states.get_epoch_tables(
            EpochTablesDescriptor("_epochs", "operator stage")
        )

    def snapshot(self) -> tuple[OperatorListHandle, ...]:
        return self.states.snapshot().persist()

    def content(self) -> dict[int, list[Any]]:
        return {
            epoch: [number for part in self.tables.tables(epoch) for number in part.column(0).to_pylist()]
            for epoch in self.tables.epochs()
        }


def files_of(handles: tuple[OperatorListHandle, ...]) -> set[str]:
    return {part.file.path for handle in handles for part in handle.parts}


def test_epochs_come_back_and_each_record_is_written_once(tmp_path: Path) -> None:
    storage = MemoryCheckpointStorage()
    first = Subtask(storage, tmp_path)
    first.tables.add(1, table(1, 2))
    first.tables.add(1, table(3))
    first.tables.add(2, table(4))
    one = first.snapshot()
    assert len(files_of(one)) == 2
    first.tables.add(2, table(5))
    two = first.snapshot()
    assert len(files_of(two) - files_of(one)) == 1
    assert files_of(one) < files_of(two)
    first.tables.drop(1)
    three = first.snapshot()
    assert files_of(three) == files_of(two) - {one[0].parts[0].file.path}
    assert Subtask(storage, tmp_path, one).content() == {1: [1, 2, 3], 2: [4]}
    assert Subtask(storage, tmp_path, two).content() == {1: [1, 2, 3], 2: [4, 5]}
    third = Subtask(storage, tmp_path, three)
    assert third.content() == {2: [4, 5]}
    assert files_of(third.snapshot()) == files_of(three), "restored files are not written again"


def test_files_of_another_job_are_written_again(tmp_path: Path) -> None:
    storage = MemoryCheckpointStorage()
    first = Subtask(storage, tmp_path)
    first.tables.add(1, table(1))
    stored = first.snapshot()
    second = Subtask(storage, tmp_path, stored, owned=False, attempt=2)
    assert second.content() == {1: [1]}
    assert not files_of(second.snapshot()) & files_of(stored)


def test_a_snapshot_is_what_was_there_at_the_barrier(tmp_path: Path) -> None:
    storage = MemoryCheckpointStorage()
    first = Subtask(storage, tmp_path)
    first.tables.add(1, table(1))
    frozen = first.states.snapshot()
    first.tables.add(1, table(2))
    first.tables.drop(1)
    assert Subtask(storage, tmp_path, frozen.persist()).content() == {1: [1]}


def test_spilled_records_are_on_local_disk_until_they_are_dropped(tmp_path: Path) -> None:
    storage = MemoryCheckpointStorage()
    first = Subtask(storage, tmp_path / "local")
    first.tables.add(1, table(*range(1_000)))
    before = pa.total_allocated_bytes()
    first.tables.add(2, table(*range(100_000)))
    first.tables.spill(2)
    assert pa.total_allocated_bytes() - before < 100_000, "the records are in memory as well"
    first.tables.add(2, table(7))
    first.tables.spill(2)
    assert len(list((tmp_path / "local").iterdir())) == 2
    assert first.content()[2] == [*range(100_000), 7]
    stored = first.snapshot()
    mapped = first.tables.tables(2)
    first.tables.drop(2)
    assert list((tmp_path / "local").iterdir()) == []
    assert sum(map(len, mapped)) == 100_001, "a run still has its records"
    assert Subtask(storage, tmp_path, stored).content()[2] == [*range(100_000), 7]
    first.tables.spill(1)
    first.states.close()
    assert list((tmp_path / "local").iterdir()) == []


def test_tables_of_different_schemas_share_an_epoch(tmp_path: Path) -> None:
    storage = MemoryCheckpointStorage()
    first = Subtask(storage, tmp_path)
    first.tables.add(1, table(1))
    first.tables.add(1, table(2, name="other").replace_schema_metadata({"a": "b"}))
    restored = Subtask(storage, tmp_path, first.snapshot())
    assert [each.schema.names for each in restored.tables.tables(1)] == [["id"], ["other"]]
    assert [each.schema.metadata for each in restored.tables.tables(1)] == [None, {b"a": b"b"}]


def test_an_epoch_of_several_subtasks_is_one(tmp_path: Path) -> None:
    storage = MemoryCheckpointStorage()
    stored = []
    for subtask in range(2):
        one = Subtask(storage, tmp_path, attempt=subtask)
        for epoch in (1, 2):
            one.tables.add(epoch, table(10 * subtask + epoch))
        stored.append(one.snapshot()[0])
    joined = replace(stored[0], parts=stored[0].parts + stored[1].parts)
    assert Subtask(storage, tmp_path, (joined,)).content() == {1: [1, 11], 2: [2, 12]}


def test_tables_that_are_regrouped_are_written_again(tmp_path: Path) -> None:
    storage = MemoryCheckpointStorage()
    first = Subtask(storage, tmp_path)
    for epoch in (3, 5):
        first.tables.add(epoch, table(epoch))
    second = Subtask(storage, tmp_path, first.snapshot(), attempt=1)
    second.tables.regroup(1)
    assert second.content() == {1: [3, 5]}
    assert Subtask(storage, tmp_path, second.snapshot(), attempt=2).content() == {1: [3, 5]}


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    storage = MemoryCheckpointStorage()
    newer = Mutant("a newer release", epoch_tables, "FORMAT_VERSION", lambda version: version + 1)
    first = Subtask(storage, tmp_path)
    first.tables.add(1, table(1))
    with newer.planted():
        stored = first.snapshot()
    with pytest.raises(CorruptCheckpointError, match="format version 3; this release reads up to 2"):
        Subtask(storage, tmp_path, stored)
