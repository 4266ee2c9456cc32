"""Removing what a job was started from and has claimed: a checkpoint whose files lie beside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest
from tidegate.common.errors import CheckpointStorageError
from tidegate.coordinator.checkpoints.checkpoint_store import CheckpointStore
from tidegate.coordinator.restore.claim_mode import ClaimedCheckpoint
from tidegate.protocol.checkpoints.handles import FileHandle
from tidegate.protocol.checkpoints.manifest import CheckpointManifest, OperatorManifest
from tidegate.protocol.elements import SnapshotKind
from tidegate.protocol.ids import CheckpointId, JobId
from tidegate.protocol.key_groups import KeyGroupRange
from tidegate.state.storage.checkpoint_storage import register_scheme
from tidegate.state.storage.memory_storage import MemoryCheckpointStorage

from .fakes import keyed_snapshot

GROUPS = KeyGroupRange(0, 127)


class Sticky(MemoryCheckpointStorage):
    """Deletes so many files, and then refuses."""

    left = 1_000

    @property
    def uri(self) -> str:
        return super().uri.replace("memory", "sticky")

    def delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            if not Sticky.left:
                raise CheckpointStorageError(f"{path} sticks")
            Sticky.left -= 1
            super().delete([path])

    def sub(self, prefix: str) -> Sticky:
        return Sticky(f"{self.uri.removeprefix('sticky://')}/{prefix}")


@pytest.fixture
def storage() -> Iterator[Sticky]:
    """A directory of checkpoints that `open_storage` opens as `sticky://…`."""
    register_scheme("sticky", lambda path: Sticky(path))
    storage = Sticky("claims")
    yield storage
    Sticky.left = 1_000
    storage.delete_all()


def manifest(checkpoint_id: int, *files: FileHandle) -> CheckpointManifest:
    snapshots = tuple(keyed_snapshot(file, GROUPS) for file in files)
    operators = {"totals": OperatorManifest("totals", "Totals", 128, snapshots)}
    return CheckpointManifest(
        "old", "", CheckpointId(checkpoint_id), SnapshotKind.CHECKPOINT, 1, 2, operators
    )


def kept_job(storage: Sticky) -> None:
    """A job that was cancelled: two checkpoints that share a file."""
    store = CheckpointStore(storage.sub("old"), JobId("old"), 2)
    store.claim()
    store.load()
    files = [store.storage.write_file(f"shared/op-totals/{name}", name.encode()) for name in "abcd"]
    store.complete(manifest(1, *files[:2]))
    store.complete(manifest(2, *files[1:]))


def state_of(storage: Sticky) -> list[str]:
    return [path for path in storage.list_files("old") if "chk-" in path or "shared" in path]


def claimed() -> ClaimedCheckpoint:
    return ClaimedCheckpoint("sticky://claims/old/chk-2", JobId("new"))


@pytest.mark.parametrize("deletions", range(5))
def test_what_is_claimed_is_removed_however_often_that_fails(storage: Sticky, deletions: int) -> None:
    kept_job(storage)
    claimed().take()
    Sticky.left = deletions
    with pytest.raises(CheckpointStorageError):
        claimed().remove()
    Sticky.left = 1_000
    claimed().remove()
    assert state_of(storage) == ["old/chk-1/MANIFEST", "old/shared/op-totals/a", "old/shared/op-totals/b"]


@pytest.mark.parametrize("keeps_checkpoints", [False, True])
def test_a_job_that_ends_removes_what_it_claimed_and_could_not_remove_before(
    storage: Sticky, keeps_checkpoints: bool
) -> None:
    kept_job(storage)
    claimed().take()
    store = CheckpointStore(storage.sub("new"), JobId("new"), 1)
    store.claim()
    store.load()
    store.owns(claimed())
    store.complete(manifest(1))
    garbage = store.take_garbage()
    assert garbage is not None
    Sticky.left = 2
    with pytest.raises(CheckpointStorageError):
        store.delete(garbage)
    Sticky.left = 1_000
    store.remove_orphans() if keeps_checkpoints else store.remove_all()
    assert len(state_of(storage)) == 3
