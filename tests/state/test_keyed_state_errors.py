"""Keyed state that cannot be stored, read or taken: full disks, damaged segments, other types."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from tidegate.common.errors import (
    CheckpointStorageError,
    CorruptCheckpointError,
    KeyTypeError,
    StateError,
    StateMigrationError,
)
from tidegate.common.typeinfo import TypeInformation, Types
from tidegate.protocol.checkpoints.handles import FileHandle
from tidegate.state.descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)
from tidegate.state.storage.filesystem_storage import FileSystemCheckpointStorage
from tidegate.state.storage.memory_storage import MemoryCheckpointStorage

PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])
VALUE = ValueStateDescriptor("total", PAIR)
MAP = MapStateDescriptor("by name", Types.STRING(), None)
LIST = ListStateDescriptor("seen", Types.STRING())


class FullDisk(MemoryCheckpointStorage):
    """Refuses writes while `is_full`."""

    is_full = False

    def write_file(self, path: str, data: bytes | memoryview) -> FileHandle:
        if self.is_full:
            raise CheckpointStorageError(f"checkpoint storage failed at {path}: no space left")
        return super().write_file(path, data)


def test_a_full_disk_loses_nothing(open_backend: Any) -> None:
    storage = FullDisk()
    backend = open_backend(storage=storage)
    value, elements = backend.get_value_state(VALUE), backend.get_list_state(LIST)
    backend.current_key = 1
    value.update((1, 1))
    elements.add("a")
    storage.is_full = True
    with pytest.raises(CheckpointStorageError, match="no space left"):
        backend.freeze().persist()
    backend.current_key = 2
    value.update((2, 2))
    with pytest.raises(CheckpointStorageError):
        backend.freeze().persist()
    backend.current_key = 1
    assert value.value() == (1, 1)
    storage.is_full = False
    handle = backend.freeze().persist()

    restored = open_backend(attempt=1, storage=storage)
    restored.restore(handle, owned=True)
    value = restored.get_value_state(VALUE)
    for key in (1, 2):
        restored.current_key = key
        assert value.value() == (key, key)
    restored.current_key = 1
    assert restored.get_list_state(LIST).get() == ["a"]


@pytest.mark.parametrize("damage", ["flipped byte", "truncated", "missing"])
def test_a_damaged_segment_is_an_error_that_names_the_file(
    open_backend: Any, tmp_path: Path, damage: str
) -> None:
    storage = FileSystemCheckpointStorage(str(tmp_path / "checkpoints"))
    backend = open_backend(storage=storage)
    value = backend.get_value_state(VALUE)
    backend.current_key = 1
    value.update((1, 1))
    handle = backend.freeze().persist()
    path = handle.segments[0].file.path
    file = tmp_path / "checkpoints" / path
    data = bytearray(file.read_bytes())
    if damage == "flipped byte":
        data[len(data) // 2] ^= 1
        file.write_bytes(data)
    elif damage == "truncated":
        file.write_bytes(data[:-1])
    else:
        file.unlink()
    expected = CheckpointStorageError if damage == "missing" else CorruptCheckpointError
    restored = open_backend(attempt=1, storage=storage)
    restored.restore(handle, owned=True)
    with pytest.raises(expected, match=path):
        restored.get_value_state(VALUE)


@pytest.mark.parametrize(
    "declared",
    [ValueStateDescriptor("total", Types.STRING()), ListStateDescriptor("total", PAIR)],
    ids=["type", "kind"],
)
def test_a_changed_schema_is_a_migration_error_with_both_schemas(open_backend: Any, declared: Any) -> None:
    backend = open_backend(key_type=Types.LONG())
    value = backend.get_value_state(VALUE)
    backend.current_key = 1
    value.update((1, 1))
    handle = backend.freeze().persist()
    restored = open_backend(attempt=1, key_type=Types.LONG())
    restored.restore(handle, owned=True)
    declare = restored.get_list_state if declared.kind == "list" else restored.get_value_state
    with pytest.raises(StateMigrationError, match=r"running total.*total.*TUPLE\(LONG, LONG\).*now declares"):
        declare(declared)


def test_a_changed_key_type_is_a_migration_error(open_backend: Any) -> None:
    backend = open_backend(key_type=Types.LONG())
    backend.get_value_state(VALUE)
    handle = backend.freeze().persist()
    restored = open_backend(attempt=1, key_type=Types.STRING())
    restored.restore(handle, owned=True)
    with pytest.raises(StateMigrationError, match=r"key_type: LONG.*key_type: STRING"):
        restored.get_value_state(VALUE)


def test_a_value_of_another_type_is_refused_with_names(open_backend: Any) -> None:
    backend = open_backend()
    value = backend.get_value_state(VALUE)
    backend.current_key = 1
    value.update(("text", 1))
    with pytest.raises(StateError, match=r"running total.*subtask 0.*'total'.*TUPLE\(LONG, LONG\)"):
        backend.freeze().persist()


def test_a_map_key_without_encoding_is_refused_when_it_is_put(open_backend: Any) -> None:
    backend = open_backend()
    backend.current_key = 1
    entries = backend.get_map_state(MAP)
    for change in (
        entries.remove,
        lambda key: entries.put(key, "x"),
        lambda key: entries.put_all({key: "x"}),
    ):
        with pytest.raises(KeyTypeError, match=r"running total.*subtask 0.*'by name'.*complex.*use int, str"):
            change(1.5j)


@pytest.mark.parametrize(
    ("type_info", "right", "wrong"),
    [
        (Types.STRING(), "a", 1),
        (Types.LONG(), 1, "a"),
        (Types.LONG(), 1, True),
        (Types.BOOLEAN(), True, 1),
        (Types.DOUBLE(), 1.5, "a"),
        (Types.SQL_DATE(), date(2013, 1, 1), "2013-01-01"),
        (Types.TUPLE([Types.LONG(), Types.STRING()]), (1, "a"), (1, 2)),
        (Types.TUPLE([Types.LONG(), Types.STRING()]), (1, "a"), (1, "a", 2)),
    ],
    ids=str,
)
def test_a_map_key_of_another_type_than_declared_is_refused(
    open_backend: Any, type_info: TypeInformation, right: Any, wrong: Any
) -> None:
    backend = open_backend()
    backend.current_key = 1
    entries = backend.get_map_state(MapStateDescriptor("typed", type_info, Types.LONG()))
    entries.put(right, 1)
    with pytest.raises(StateError, match=r"running total.*subtask 0.*'typed'.*declared type"):
        entries.put(wrong, 2)
    assert list(entries.items()) == [(right, 1)]


def test_map_keys_may_be_numbers_of_any_kind(open_backend: Any) -> None:
    descriptor = MapStateDescriptor("by number", None, Types.LONG())
    backend = open_backend()
    backend.current_key = 1
    keys = [2.5, -1.5, Decimal("0.10"), UUID(int=7), (0.5, "x")]
    backend.get_map_state(descriptor).put_all({key: index for index, key in enumerate(keys)})
    handle = backend.freeze().persist()
    again = open_backend(attempt=1)
    again.restore(handle, owned=True)
    again.current_key = 1
    entries = again.get_map_state(descriptor)
    assert [entries.get(key) for key in keys] == [0, 1, 2, 3, 4]
    assert set(entries.keys()) == set(keys)
