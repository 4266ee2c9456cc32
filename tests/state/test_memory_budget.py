"""Caches and write buffers of all states share one budget of bytes."""

from __future__ import annotations

import resource
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from tidegate.common.errors import CheckpointStorageError, ConfigurationError, KeyTypeError
from tidegate.common.typeinfo import Types
from tidegate.protocol.checkpoints.handles import FileHandle
from tidegate.protocol.key_groups import KeyGroupRange
from tidegate.state.backend import KeyedStateBackend, KeyedStateBackendParameters
from tidegate.state.descriptors import MapStateDescriptor, ValueStateDescriptor
from tidegate.state.keyed.memory_budget import object_bytes
from tidegate.state.live_backends import HashMapStateBackend
from tidegate.state.lmdb_backend import LmdbStateBackend
from tidegate.state.storage.checkpoint_storage import CheckpointStorage
from tidegate.state.storage.memory_storage import MemoryCheckpointStorage

pytestmark = pytest.mark.slow

MIB = 1 << 20
_UNLIMITED = resource.RLIM_INFINITY
NAMES = ValueStateDescriptor("names", Types.STRING())
ENTRIES = MapStateDescriptor("entries", Types.LONG(), Types.STRING())


def opened(path: Path, memory_size_bytes: int, storage: CheckpointStorage | None = None) -> KeyedStateBackend:
    config = LmdbStateBackend(memory_size_bytes=memory_size_bytes)
    return config.create_keyed_backend(parameters(path, storage))


def parameters(path: Path, storage: CheckpointStorage | None = None) -> KeyedStateBackendParameters:
    return KeyedStateBackendParameters(
        "uid", "names", 0, 0, 128, KeyGroupRange(0, 127), None, str(path), storage, "p"
    )


def fill_values(backend: KeyedStateBackend, keys: range, length: int) -> None:
    state = backend.get_value_state(NAMES)
    for key in keys:
        backend.current_key = key
        state.update(f"{key:0{length}}")


def fill_maps(backend: KeyedStateBackend, keys: range, length: int) -> None:
    state = backend.get_map_state(ENTRIES)
    for key in keys:
        backend.current_key = key // 50
        state.put(key, f"{key:0{length}}")


def read_values(backend: KeyedStateBackend, keys: range) -> None:
    state = backend.get_value_state(NAMES)
    for key in keys:
        backend.current_key = key
        assert int(state.value()) == key


def read_maps(backend: KeyedStateBackend, keys: range) -> None:
    state = backend.get_map_state(ENTRIES)
    for key in keys:
        backend.current_key = key // 50
        assert int(state.get(key)) == key


@pytest.mark.parametrize(("fill", "read"), [(fill_values, read_values), (fill_maps, read_maps)])
@pytest.mark.parametrize(("length", "count"), [(1_024, 4_000), (16, 20_000)])
def test_memory_stays_near_the_budget_whatever_the_size_of_values(
    tmp_path: Path, fill: Callable[..., None], read: Callable[..., None], length: int, count: int
) -> None:
    backend = opened(tmp_path, MIB)
    batch = 250
    fill(backend, range(batch), length)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        for step in (fill, read):
            for start in range(0, count, batch):
                step(backend, range(start, start + batch), *([length] if step is fill else []))
                if backend.needs_spill:
                    backend.spill().persist()
        peak = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
        backend.close()
    # Storing a spilled quarter of the budget takes some memory of its own.
    assert peak < 2 * MIB


@pytest.mark.parametrize("fill", [fill_values, fill_maps])
def test_without_checkpoints_nothing_is_kept_twice_for_lmdb(
    tmp_path: Path, fill: Callable[..., None]
) -> None:
    taken = []
    for config in (HashMapStateBackend(), LmdbStateBackend()):
        backend = config.create_keyed_backend(parameters(tmp_path))
        tracemalloc.start()
        try:
            fill(backend, range(20_000), 16)
            assert not backend.needs_spill
            taken.append(tracemalloc.get_traced_memory()[0])
        finally:
            tracemalloc.stop()
            backend.close()
    in_memory, in_front_of_lmdb = taken
    assert in_front_of_lmdb < 1.1 * in_memory


def test_values_that_differ_in_size_are_estimated_by_their_average(tmp_path: Path) -> None:
    backend = opened(tmp_path, 8 * MIB)
    spilled = 0
    for start in range(0, 10_000, 100):
        fill_values(backend, range(start, start + 50), 10_000)
        fill_values(backend, range(start + 50, start + 100), 10)
        if backend.needs_spill:
            backend.spill().persist()
            spilled += 1
    backend.close()
    # 50 MB in pieces of at most half of the budget, at least a tenth.
    assert 10 <= spilled <= 60


def test_the_task_waits_when_frozen_buffers_are_not_stored_in_time(tmp_path: Path) -> None:
    backend = opened(tmp_path, MIB)
    fill_values(backend, range(500), 1_000)
    assert backend.needs_spill
    assert backend.is_ready
    frozen = backend.spill()
    assert not backend.is_ready
    # One spill at a time: a second would not be stored any sooner.
    assert not backend.needs_spill
    frozen.persist()
    assert backend.is_ready
    read_values(backend, range(500))
    backend.close()


class FullDisk(MemoryCheckpointStorage):
    is_full = True

    def write_file(self, path: str, data: bytes | memoryview) -> FileHandle:
        if self.is_full:
            raise CheckpointStorageError("the disk is full")
        return super().write_file(path, data)


def test_buffers_that_cannot_be_stored_fail_the_task_and_until_then_nothing_is_lost(tmp_path: Path) -> None:
    storage = FullDisk()
    backend = opened(tmp_path, MIB, storage)
    for start in range(0, 800, 100):
        fill_values(backend, range(start, start + 100), 1_000)
        if backend.needs_spill:
            with pytest.raises(CheckpointStorageError):
                backend.spill().persist()
        assert backend.is_ready
    fill_values(backend, range(800, 1_100), 1_000)
    with pytest.raises(CheckpointStorageError, match=r"(?s)'names'.*1,048,576.*the disk is full"):
        _ = backend.needs_spill
    storage.is_full = False
    backend.spill().persist()
    assert not backend.needs_spill
    read_values(backend, range(1_100))
    backend.close()


def spill(backend: KeyedStateBackend) -> None:
    assert backend.needs_spill
    backend.spill().persist()


def test_a_batch_is_read_ahead_once_its_keys_were_missed_and_shows_every_change(tmp_path: Path) -> None:
    backend = opened(tmp_path, 1)
    keys = [*range(200), "text", ("a", 1)]
    state = backend.get_value_state(NAMES)

    def write(text: str, some: list[object]) -> None:
        for key in some:
            backend.current_key = key
            state.update(text)

    def shown(some: list[object]) -> list[object]:
        found: list[object] = []
        for key in some:
            backend.current_key = key
            found.append(state.value())
        return found

    write("old", keys)
    spill(backend)
    # Of three equal batches the first is read key by key.
    for _ in range(3):
        backend.prefetch([*keys, "absent"])
        assert shown([*keys, "absent"]) == ["old"] * len(keys) + [None]
    # What is absent at first may be written in the same batch, leave memory, and come back from LMDB.
    backend.prefetch([*keys, "new"])
    write("new", ["new", *keys[:100]])
    spill(backend)
    write("filler", [("filler", number) for number in range(100)])
    spill(backend)
    assert shown(["new", *keys]) == ["new"] * 101 + ["old"] * 102
    for key in keys[:50]:
        backend.current_key = key
        state.clear()
    backend.prefetch(keys)
    assert shown(keys) == [None] * 50 + ["new"] * 50 + ["old"] * 102
    backend.close()


def test_keys_that_cannot_be_keys_fail_where_they_are_used_and_not_when_a_batch_is_read_ahead(
    tmp_path: Path,
) -> None:
    backend = opened(tmp_path, 1)
    fill_values(backend, range(10), 10)
    spill(backend)
    state = backend.get_value_state(NAMES)
    for _ in range(3):
        backend.prefetch([*range(10), 1.5])
        read_values(backend, range(10))
        backend.current_key = 1.5
        with pytest.raises(KeyTypeError, match="float"):
            state.value()
    backend.prefetch([[]])
    backend.close()


def test_a_checkpoint_is_there_before_lmdb_and_what_lmdb_refuses_stops_the_next_one(tmp_path: Path) -> None:
    storage = MemoryCheckpointStorage()
    backend = opened(tmp_path / "local", 1, storage)
    fill_values(backend, range(1_000), 10)
    spill(backend)
    fill_values(backend, range(100), 10)
    frozen = backend.freeze()
    (lock,) = (tmp_path / "local").rglob("lock.mdb")
    # A value beyond what the file system gives: LMDB's file may not grow.
    resource.setrlimit(resource.RLIMIT_FSIZE, (lock.with_name("data.mdb").stat().st_size, _UNLIMITED))
    try:
        handle = frozen.persist()
        with pytest.raises(CheckpointStorageError, match="'names'"):
            backend.freeze().persist()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (_UNLIMITED, _UNLIMITED))
    read_values(backend, range(1_000))
    backend.freeze().persist()
    backend.close()
    restored = opened(tmp_path / "restored", 64 * MIB, storage)
    restored.restore(handle, owned=True)
    read_values(restored, range(1_000))
    restored.close()


def test_sizes_of_objects_count_what_they_hold() -> None:
    class Point:
        def __init__(self) -> None:
            self.x = "x" * 1_000

    assert object_bytes("x" * 1_000) > 1_000
    assert 100_000 < object_bytes(["x" * 1_000] * 100) < 110_000
    assert object_bytes({1: ("x" * 1_000, 2)}) > 1_000
    assert object_bytes(Point()) > 1_000


def test_a_budget_of_nothing_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="memory_size_bytes"):
        LmdbStateBackend(memory_size_bytes=0)
