"""Checkpoint storage on an object store: of two coordinators that claim a job, one gets it."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from multiprocessing.pool import Pool
from multiprocessing.synchronize import Barrier
from typing import Any

import pytest
from tidegate.common.errors import CheckpointStorageError
from tidegate.state.storage.checkpoint_storage import (
    CheckpointStorage,
    TransientStorageError,
    check_exclusive,
    open_storage,
)
from tidegate.state.storage.filesystem_storage import FileSystemCheckpointStorage
from tidegate.state.storage.retrying_storage import RetryingStorage

from .object_server import LOST_ANSWER, ObjectStore

ROUNDS = 200
FEW_ROUNDS = 20


@pytest.fixture(scope="module")
def two_processes() -> Any:
    context = multiprocessing.get_context("spawn")
    with context.Pool(2, _begin, (context.Barrier(2, timeout=60),)) as pool:
        yield pool


_barrier: Barrier


def _begin(barrier: Barrier) -> None:
    global _barrier
    _barrier = barrier


def _claims(
    environment: dict[str, str], rounds: int, create: Callable[[CheckpointStorage, str, bytes], bool]
) -> list[bool]:
    """Claim each number at the same moment as the other process does."""
    os.environ.update(environment)
    storage = open_storage("s3://" + environment["TEST_BUCKET"] + "/job")
    storage.list_files("")
    won = []
    for number in range(rounds):
        _barrier.wait()
        won.append(create(storage, f"epochs/{number}", b"%d" % os.getpid()))
    return won


def create_exclusive(storage: CheckpointStorage, path: str, data: bytes) -> bool:
    return storage.create_exclusive(path, data)


def check_then_write(storage: CheckpointStorage, path: str, data: bytes) -> bool:
    if path in storage.list_files("epochs"):
        return False
    storage.write_file(path, data)
    return True


def winners(
    pool: Pool, store: ObjectStore, rounds: int, create: Callable[[CheckpointStorage, str, bytes], bool]
) -> list[int]:
    """How many of two processes created the file of each round."""
    environment = {**store.environment(), "TEST_BUCKET": store.bucket}
    mine, other = pool.starmap(_claims, [(environment, rounds, create)] * 2, chunksize=1)
    return [int(a) + int(b) for a, b in zip(mine, other, strict=True)]


def test_of_two_processes_exactly_one_creates_a_file(two_processes: Pool, object_store: ObjectStore) -> None:
    assert winners(two_processes, object_store, ROUNDS, create_exclusive) == [1] * ROUNDS


def test_the_test_finds_a_check_that_comes_before_the_write(
    two_processes: Pool, object_store: ObjectStore
) -> None:
    assert 2 in winners(two_processes, object_store, FEW_ROUNDS, check_then_write)


@pytest.fixture
def storage(object_store: ObjectStore) -> CheckpointStorage:
    return FileSystemCheckpointStorage(object_store.uri("job"))


def test_a_file_that_exists_is_not_replaced(storage: CheckpointStorage) -> None:
    assert storage.create_exclusive("epochs/1", b"first")
    assert not storage.create_exclusive("epochs/1", b"second")
    assert storage.read("epochs/1") == b"first"
    check_exclusive(storage, "epochs/1")


def test_a_busy_store_is_asked_again(object_store: ObjectStore, storage: CheckpointStorage) -> None:
    object_store.faults.append(["PUT", "epochs/1", 1, 503])
    with pytest.raises(TransientStorageError, match="epochs/1"):
        storage.create_exclusive("epochs/1", b"mine")
    object_store.faults.append(["PUT", "epochs/1", 1, 503])
    assert RetryingStorage(storage).create_exclusive("epochs/1", b"mine")


def test_a_refused_permission_is_not_asked_again(
    object_store: ObjectStore, storage: CheckpointStorage
) -> None:
    object_store.faults.append(["PUT", "epochs/1", 1, 403])
    with pytest.raises(CheckpointStorageError, match=r"epochs/1.*AccessDenied") as caught:
        storage.create_exclusive("epochs/1", b"mine")
    assert not isinstance(caught.value, TransientStorageError)


def test_a_created_file_whose_answer_was_lost_is_the_callers(
    object_store: ObjectStore, storage: CheckpointStorage
) -> None:
    object_store.faults.append(["PUT", "epochs/1", 1, LOST_ANSWER])
    assert RetryingStorage(storage).create_exclusive("epochs/1", b"mine")
    assert not RetryingStorage(storage).create_exclusive("epochs/1", b"other")
