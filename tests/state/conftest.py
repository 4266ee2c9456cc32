from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tidegate.common.typeinfo import TypeInformation
from tidegate.protocol.key_groups import KeyGroupRange, key_group_range_of_subtask
from tidegate.state.backend import KeyedStateBackend, KeyedStateBackendParameters, StateBackend
from tidegate.state.live_backends import HashMapStateBackend
from tidegate.state.lmdb_backend import LmdbStateBackend
from tidegate.state.storage.checkpoint_storage import CheckpointStorage
from tidegate.state.storage.memory_storage import MemoryCheckpointStorage

MAX_PARALLELISM = 128

OpenBackend = Callable[..., KeyedStateBackend]


# Those with Flink's other names keep keyed state with the same code, as test_imports.py proves.
@pytest.fixture(params=["hashmap", "lmdb", "lmdb-tiny"])
def config(request: pytest.FixtureRequest) -> StateBackend:
    return {
        "hashmap": HashMapStateBackend(),
        "lmdb": LmdbStateBackend(initial_map_size_bytes=1 << 20),
        "lmdb-tiny": LmdbStateBackend(memory_size_bytes=1, initial_map_size_bytes=1 << 16),
    }[request.param]


class Clock:
    """Processing time that a test sets."""

    now_ms = 1_000_000

    def __call__(self) -> int:
        return self.now_ms


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def storage() -> CheckpointStorage:
    return MemoryCheckpointStorage()


@pytest.fixture
def open_backend(
    config: StateBackend, storage: CheckpointStorage, clock: Clock, tmp_path: Path
) -> Iterator[OpenBackend]:
    opened: list[KeyedStateBackend] = []

    def open_one(
        subtask_index: int = 0,
        parallelism: int = 1,
        attempt: int = 0,
        key_type: TypeInformation | None = None,
        storage: CheckpointStorage | None = storage,
        file_prefix: str = "keyed/uid",
    ) -> KeyedStateBackend:
        key_groups: KeyGroupRange = key_group_range_of_subtask(subtask_index, MAX_PARALLELISM, parallelism)
        backend = config.create_keyed_backend(
            KeyedStateBackendParameters(
                operator_uid="uid",
                operator_name="running total",
                subtask_index=subtask_index,
                attempt=attempt,
                max_parallelism=MAX_PARALLELISM,
                key_groups=key_groups,
                key_type=key_type,
                local_dir=str(tmp_path / "local"),
                storage=storage,
                file_prefix=file_prefix,
                now_ms=clock,
            )
        )
        opened.append(backend)
        return backend

    yield open_one
    for backend in opened:
        backend.close()
