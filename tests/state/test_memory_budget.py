"""Caches and write buffers of all states share one budget of bytes."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from tidegate.common.errors import CheckpointStorageError, ConfigurationError
from tidegate.common.typeinfo import Types
from tidegate.protocol.handles import FileHandle
from tidegate.protocol.key_groups import KeyGroupRange
from tidegate.state.backend import KeyedStateBackend, KeyedStateBackendParameters
from tidegate.state.descriptors import MapStateDescriptor, ValueStateDescriptor
from tidegate.state.lmdb_backend import LmdbStateBackend
from tidegate.state.memory_budget import object_bytes
from tidegate.state.memory_storage import MemoryCheckpointStorage
from tidegate.state.storage import CheckpointStorage

MIB = 1 << 20
NAMES = ValueStateDescriptor("names", Types.STRING())
ENTRIES = MapStateDescriptor("entries", Types.LONG(), Types.STRING())


def opened(path: Path, memory_size_bytes: int, storage: CheckpointStorage | None = None) -> KeyedStateBackend:
    return LmdbStateBackend(memory_size_bytes=memory_size_bytes).create_keyed_backend(
        KeyedStateBackendParameters(
            "uid", "names", 0, 0, 128, KeyGroupRange(0, 127), None, str(path), storage, "p"
        )
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
    backend.freeze().persist()
    assert not backend.needs_spill
    read_values(backend, range(1_100))
    backend.close()


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
