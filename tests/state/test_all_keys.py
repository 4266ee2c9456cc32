"""Every key that a state holds something for can be listed, wherever the backend has it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tidegate.common import Types
from tidegate.common.errors import StateError
from tidegate.protocol.key_groups import KeyGroupRange
from tidegate.state.backend import KeyedStateBackend, KeyedStateBackendParameters
from tidegate.state.descriptors import MapStateDescriptor, ValueStateDescriptor
from tidegate.state.lmdb_backend import LmdbStateBackend
from tidegate.state.storage.memory_storage import MemoryCheckpointStorage

from .conftest import OpenBackend

VALUE = ValueStateDescriptor("value", Types.LONG())
ENTRIES = MapStateDescriptor("entries", Types.LONG(), Types.LONG())


def put(backend: KeyedStateBackend, keys: Any) -> None:
    value, entries = backend.get_value_state(VALUE), backend.get_map_state(ENTRIES)
    for key in keys:
        backend.current_key = key
        value.update(key)
        for number in range(3):
            entries.put(number, key)
    backend.current_key = None


def held(backend: KeyedStateBackend) -> set[int]:
    """The keys that the two states hold something for; each must come once."""
    value, entries = backend.get_value_state(VALUE), backend.get_map_state(ENTRIES)
    found: list[set[int]] = []
    for name, is_held in (
        ("value", lambda: value.value() is not None),
        ("entries", lambda: not entries.is_empty()),
    ):
        counts = Counter(backend.keys(name))
        assert set(counts.values()) <= {1}
        kept = set()
        for key in counts:
            backend.current_key = key
            if is_held():
                kept.add(key)
        found.append(kept)
    backend.current_key = None
    assert found[0] == found[1]
    return found[0]


def test_keys_are_listed_once_wherever_they_lie(open_backend: OpenBackend) -> None:
    backend = open_backend()
    put(backend, [0])
    assert held(backend) == {0}
    put(backend, range(3_000))
    backend.freeze().persist()
    put(backend, range(2_000, 4_000))
    backend.freeze().persist()
    frozen = backend.freeze()
    put(backend, range(3_500, 4_200))
    value, entries = backend.get_value_state(VALUE), backend.get_map_state(ENTRIES)
    for key in range(0, 4_200, 7):
        backend.current_key = key
        value.clear()
        entries.clear()
    assert held(backend) == set(range(4_200)) - set(range(0, 4_200, 7))
    frozen.persist()
    assert held(backend) == set(range(4_200)) - set(range(0, 4_200, 7))


def test_keys_that_lmdb_only_has_by_their_hash_cannot_be_listed(tmp_path: Path) -> None:
    parameters = KeyedStateBackendParameters(
        operator_uid="uid",
        operator_name="Totals",
        subtask_index=0,
        attempt=1,
        max_parallelism=128,
        key_groups=KeyGroupRange(0, 127),
        key_type=None,
        local_dir=str(tmp_path),
        storage=MemoryCheckpointStorage(),
        file_prefix="shared/uid",
    )
    backend = LmdbStateBackend(memory_size_bytes=1).create_keyed_backend(parameters)
    try:
        state = backend.get_value_state(VALUE)
        for number in range(3):
            for key in ("k" * 500, "short"):
                backend.current_key = key
                state.update(number)
                assert backend.needs_spill
                backend.spill().persist()
        with pytest.raises(StateError, match="'value' cannot be listed: one is so long"):
            list(backend.keys("value"))
    finally:
        backend.close()
