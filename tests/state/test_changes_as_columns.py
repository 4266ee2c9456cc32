"""Changes become columns as they come, and LMDB gets nothing while memory holds everything."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from tidegate.common import Types
from tidegate.common.errors import CheckpointStorageError, StateError
from tidegate.protocol.key_groups import KeyGroupRange
from tidegate.state.backend import KeyedStateBackend, KeyedStateBackendParameters
from tidegate.state.descriptors import MapStateDescriptor, ValueStateDescriptor
from tidegate.state.keyed.keyed_backend import TableKeyedStateBackend
from tidegate.state.keyed.memory_budget import MemoryBudget
from tidegate.state.lmdb.store import LmdbStore
from tidegate.state.storage.memory_storage import MemoryCheckpointStorage

PAIR = ValueStateDescriptor("pair", Types.TUPLE([Types.LONG(), Types.LONG()]))
ENTRIES = MapStateDescriptor("entries", Types.LONG(), Types.LONG())


def place(tmp_path: Path, storage: MemoryCheckpointStorage, attempt: int = 0) -> KeyedStateBackendParameters:
    return KeyedStateBackendParameters(
        operator_uid="uid",
        operator_name="Totals",
        subtask_index=0,
        attempt=attempt,
        max_parallelism=128,
        key_groups=KeyGroupRange(0, 127),
        key_type=None,
        local_dir=str(tmp_path),
        storage=storage,
        file_prefix="shared/uid",
    )


def change(backend: KeyedStateBackend, keys: Any, number: int) -> None:
    """Set both states of some keys, as one batch."""
    pair, entries = backend.get_value_state(PAIR), backend.get_map_state(ENTRIES)
    for key in keys:
        backend.current_key = key
        pair.update((number, number))
        entries.put(number % 3, number)
    backend.records_processed(len(keys))


def remove(backend: KeyedStateBackend, keys: Any) -> None:
    pair, entries = backend.get_value_state(PAIR), backend.get_map_state(ENTRIES)
    for key in keys:
        backend.current_key = key
        pair.clear()
        entries.clear()
    backend.records_processed(len(keys))


def held(backend: KeyedStateBackend, keys: Any) -> dict[Any, Any]:
    pair, entries = backend.get_value_state(PAIR), backend.get_map_state(ENTRIES)
    found = {}
    for key in keys:
        backend.current_key = key
        found[key] = pair.value(), dict(entries.items())
    return found


DRAIN_ENTRIES = 500


def opened(
    tmp_path: Path, storage: MemoryCheckpointStorage, is_lmdb: bool, attempt: int = 0
) -> KeyedStateBackend:
    if not is_lmdb:
        return TableKeyedStateBackend(place(tmp_path, storage, attempt), drain_entries=DRAIN_ENTRIES)
    store = LmdbStore(str(tmp_path / f"lmdb-{attempt}"), 1 << 20, "Totals")
    budget = MemoryBudget(64 << 20)
    return TableKeyedStateBackend(place(tmp_path, storage, attempt), store, budget, DRAIN_ENTRIES)


@pytest.mark.parametrize("is_lmdb", [False, True], ids=["memory", "lmdb"])
@pytest.mark.parametrize("spread", [1, 1 << 40, 0], ids=["dense", "far apart", "mixed with text"])
def test_the_last_of_many_changes_is_restored_and_what_was_removed_is_gone(
    tmp_path: Path, is_lmdb: bool, spread: int
) -> None:
    storage = MemoryCheckpointStorage()
    backend = opened(tmp_path, storage, is_lmdb)
    count = 700
    keys: list[Any] = [
        number * spread if spread else (number if number % 2 else f"text {number}") for number in range(count)
    ]
    random.Random(1).shuffle(keys)
    change(backend, keys, 1)
    change(backend, keys[: count // 2], 2)
    remove(backend, keys[:250])
    change(backend, keys[: DRAIN_ENTRIES + 1], 3)
    remove(backend, keys[150:200])
    expected = held(backend, keys)
    frozen = backend.freeze()
    change(backend, keys, 4)
    first = frozen.persist()
    second = backend.freeze().persist()
    after = held(backend, keys)
    backend.close()
    for attempt, (handle, wanted) in enumerate([(first, expected), (second, after)], 1):
        restored = opened(tmp_path, storage, is_lmdb, attempt)
        restored.restore(handle, owned=True)
        assert held(restored, keys) == wanted
        restored.close()


def test_changes_that_cannot_be_packed_keep_their_place_among_those_that_can(tmp_path: Path) -> None:
    storage = MemoryCheckpointStorage()
    backend = TableKeyedStateBackend(place(tmp_path, storage), drain_entries=20)
    wanted: dict[Any, tuple[int, int]] = {}
    # The second piece has a key that is no number; all three share most of their keys.
    for number, keys in enumerate(([*range(40)], [*range(10, 50), "text"], [*range(20, 60)])):
        pair = backend.get_value_state(PAIR)
        for key in keys:
            backend.current_key = key
            pair.update((number, number))
            wanted[key] = (number, number)
        backend.records_processed(len(keys))
    handle = backend.freeze().persist()
    backend.close()
    restored = TableKeyedStateBackend(place(tmp_path, storage, 1), drain_entries=20)
    restored.restore(handle, owned=True)
    pair = restored.get_value_state(PAIR)
    for key, value in wanted.items():
        restored.current_key = key
        assert pair.value() == value
    restored.close()


def test_a_value_that_cannot_be_stored_fails_the_snapshot_and_not_the_record(tmp_path: Path) -> None:
    backend = TableKeyedStateBackend(place(tmp_path, MemoryCheckpointStorage()), drain_entries=1)
    pair = backend.get_value_state(PAIR)
    for key in range(3):
        backend.current_key = key
        pair.update("no pair" if key == 1 else (key, key))
        backend.records_processed(1)
    with pytest.raises(StateError, match=r"'pair'.*no pair"):
        backend.freeze().persist()
    backend.close()


def entries_in_lmdb(store: LmdbStore) -> int:
    return len(store.scan(b"", b"", 1_000_000))


def test_lmdb_gets_nothing_until_memory_is_too_small_and_then_everything(tmp_path: Path) -> None:
    storage = MemoryCheckpointStorage()
    store = LmdbStore(str(tmp_path / "lmdb"), 1 << 20, "Totals")
    backend = TableKeyedStateBackend(place(tmp_path, storage), store, MemoryBudget(1 << 20))
    change(backend, range(500), 1)
    assert not backend.needs_spill
    backend.freeze().persist()
    backend.freeze().persist()
    assert entries_in_lmdb(store) == 0
    change(backend, range(500, 5_000), 2)
    remove(backend, range(100))
    assert backend.needs_spill
    spill = backend.spill()
    # Its buffers are what LMDB waits for: they may not grow.
    assert not backend.is_ready
    change(backend, range(200), 3)
    spill.persist()
    assert backend.is_ready
    while backend.needs_spill:
        backend.spill().persist()
    assert entries_in_lmdb(store) >= 2 * 4_900
    found = held(backend, range(5_000))
    assert found[0] == ((3, 3), {0: 3})
    assert found[150] == ((3, 3), {1: 1, 0: 3})
    assert found[300] == ((1, 1), {1: 1})
    assert found[4_999] == ((2, 2), {2: 2})
    backend.close()


class FullDisk(LmdbStore):
    is_full = True

    def write(self, batch: Any) -> None:
        if self.is_full:
            raise CheckpointStorageError("the disk is full")
        super().write(batch)


def test_what_lmdb_refuses_stays_in_memory_until_the_whole_budget_is_taken(tmp_path: Path) -> None:
    store = FullDisk(str(tmp_path / "lmdb"), 1 << 20, "Totals")
    backend = TableKeyedStateBackend(place(tmp_path, MemoryCheckpointStorage()), store, MemoryBudget(1 << 20))
    change(backend, range(2_000), 1)
    assert backend.needs_spill
    with pytest.raises(CheckpointStorageError, match="full"):
        backend.spill().persist()
    assert backend.is_ready
    change(backend, range(2_000, 6_000), 1)
    with pytest.raises(CheckpointStorageError, match=r"(?s)'Totals'.*1,048,576.*the disk is full"):
        _ = backend.needs_spill
    store.is_full = False
    backend.spill().persist()
    assert not backend.needs_spill
    assert set(map(repr, held(backend, range(6_000)).values())) == {"((1, 1), {1: 1})"}
    backend.close()


@pytest.mark.parametrize("memory_bytes", [1 << 20, 64 << 20])
def test_what_is_restored_stays_in_memory_where_it_fits(tmp_path: Path, memory_bytes: int) -> None:
    storage = MemoryCheckpointStorage()
    first = opened(tmp_path, storage, is_lmdb=False)
    change(first, range(5_000), 1)
    handle = first.freeze().persist()
    first.close()
    store = LmdbStore(str(tmp_path / "lmdb"), 1 << 20, "Totals")
    backend = TableKeyedStateBackend(place(tmp_path, storage, 1), store, MemoryBudget(memory_bytes))
    backend.restore(handle, owned=True)
    change(backend, range(2_500, 7_500), 2)
    for _ in range(2):
        while backend.needs_spill:
            backend.spill().persist()
        backend.freeze().persist()
    assert (entries_in_lmdb(store) == 0) == (memory_bytes > 1 << 20)
    found = held(backend, range(7_500))
    assert found[0] == ((1, 1), {1: 1})
    assert found[3_000] == ((2, 2), {1: 1, 2: 2})
    assert found[7_000] == ((2, 2), {2: 2})
    backend.close()
