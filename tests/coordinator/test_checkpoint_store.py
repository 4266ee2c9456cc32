"""Completed checkpoints in storage: who may write them, which are kept, and what is never deleted."""

from __future__ import annotations

import hashlib

import pytest
from tidegate.common.errors import CheckpointStorageError, CorruptCheckpointError
from tidegate.coordinator.checkpoint_store import CheckpointStore, FencedError, Garbage
from tidegate.protocol.elements import SnapshotKind
from tidegate.protocol.handles import FileHandle, ListPart, OperatorListHandle, OperatorSnapshot
from tidegate.protocol.ids import CheckpointId
from tidegate.protocol.key_groups import KeyGroupRange
from tidegate.protocol.manifest import CheckpointManifest, OperatorManifest, encode_manifest
from tidegate.state.memory_storage import MemoryCheckpointStorage
from tidegate.state.stored_checkpoint import read_checkpoint

from .fakes import keyed_snapshot


@pytest.fixture
def storage() -> MemoryCheckpointStorage:
    return MemoryCheckpointStorage()


def store(storage: MemoryCheckpointStorage, num_retained: int = 1) -> CheckpointStore:
    """The store of a coordinator that has just taken the job over."""
    opened = CheckpointStore(storage, num_retained)
    opened.claim()
    opened.load()
    return opened


def manifest(checkpoint_id: int, *files: FileHandle) -> CheckpointManifest:
    snapshots = tuple(keyed_snapshot(file, KeyGroupRange(0, 127)) for file in files)
    operators = {"totals": OperatorManifest("totals", "Totals", 128, snapshots)}
    kind = SnapshotKind.CHECKPOINT
    return CheckpointManifest("job", "flights", CheckpointId(checkpoint_id), kind, 1, 2, operators)


def operator_lists(checkpoint_id: int, *files: FileHandle) -> CheckpointManifest:
    """One list in one subtask, with a part in each file."""
    parts = tuple(ListPart(file, 0, 1) for file in files)
    snapshot = OperatorSnapshot(lists=(OperatorListHandle("items", "even-split", {}, parts),))
    operators = {"buffer": OperatorManifest("buffer", "Buffer", 128, (snapshot,))}
    kind = SnapshotKind.CHECKPOINT
    return CheckpointManifest("job", "flights", CheckpointId(checkpoint_id), kind, 1, 2, operators)


def segment(storage: MemoryCheckpointStorage, name: str) -> FileHandle:
    return storage.write_file(f"shared/op-totals/{name}", name.encode())


def collected(opened: CheckpointStore) -> Garbage:
    """What is classified as needless, and then deleted."""
    garbage = opened.take_garbage() or Garbage((), ())
    opened.delete(garbage)
    opened.validate()
    return garbage


# ---------------------------------------------------------------- epochs and ids


def test_every_coordinator_claims_a_higher_epoch(storage: MemoryCheckpointStorage) -> None:
    assert [CheckpointStore(storage, 1).claim() for _ in range(3)] == [1, 2, 3]


def test_a_claim_that_loses_the_race_takes_the_next_epoch(storage: MemoryCheckpointStorage) -> None:
    class Rival(MemoryCheckpointStorage):
        """Another coordinator claims between the look and the claim."""

        def list_files(self, prefix: str) -> list[str]:
            found = super().list_files(prefix)
            self.create_exclusive(f"epochs/{len(found) + 1}", b"")
            return found

    assert CheckpointStore(Rival(), 1).claim() == 2


def test_a_coordinator_that_was_replaced_can_complete_nothing(storage: MemoryCheckpointStorage) -> None:
    old = store(storage)
    old.complete(manifest(1))
    new = store(storage)
    with pytest.raises(FencedError, match="epoch 1 is fenced"):
        old.complete(manifest(2))
    new.complete(manifest(2))
    assert new.newest == manifest(2)
    assert storage.list_files("chk-2") == ["chk-2/MANIFEST"]


def test_a_coordinator_that_was_replaced_is_fenced_also_when_the_job_is_over_and_everything_removed(
    storage: MemoryCheckpointStorage,
) -> None:
    old = store(storage)
    new = store(storage)
    new.remove_all()
    with pytest.raises(FencedError, match="epoch 1 is fenced"):
        old.complete(manifest(1))
    assert storage.list_files("") == []


def test_a_checkpoint_is_completed_once(storage: MemoryCheckpointStorage) -> None:
    opened = store(storage)
    opened.complete(manifest(1))
    with pytest.raises(FencedError, match="chk-1/MANIFEST exists already"):
        opened.complete(manifest(1))


def test_ids_are_never_given_twice_even_if_no_checkpoint_completed(storage: MemoryCheckpointStorage) -> None:
    given: set[int] = set()
    for _ in range(3):
        opened = store(storage)
        first = opened.first_free_id()
        for checkpoint_id in range(first, first + 300):
            opened.reserve(checkpoint_id)
            assert checkpoint_id not in given
            given.add(checkpoint_id)


def test_an_id_is_reserved_in_storage_before_it_is_used(storage: MemoryCheckpointStorage) -> None:
    opened = store(storage)
    assert opened.first_free_id() == 1
    opened.reserve(700)
    assert CheckpointStore(storage, 1).first_free_id() > 700


def test_ids_lie_above_every_stored_checkpoint(storage: MemoryCheckpointStorage) -> None:
    store(storage).complete(manifest(5_000))
    assert store(storage).first_free_id() == 5_001


# ---------------------------------------------------------------- loading


def test_a_new_coordinator_finds_what_the_old_one_completed(storage: MemoryCheckpointStorage) -> None:
    old = store(storage, num_retained=2)
    for checkpoint_id in (9, 10):
        old.complete(manifest(checkpoint_id))
    new = store(storage, num_retained=2)
    assert new.newest == manifest(10)
    assert new.retained == [manifest(9), manifest(10)]
    assert CheckpointStore(storage, 1).newest is None


def test_a_job_without_checkpoints_has_none(storage: MemoryCheckpointStorage) -> None:
    assert store(storage).newest is None


@pytest.mark.parametrize("damaged", [1, 2])
def test_a_damaged_checkpoint_is_an_error_and_no_step_back(
    storage: MemoryCheckpointStorage, damaged: int
) -> None:
    opened = store(storage, num_retained=2)
    for checkpoint_id in (1, 2):
        opened.complete(manifest(checkpoint_id))
    path = f"chk-{damaged}/MANIFEST"
    storage.write_file(path, storage.read(path)[:-5])
    with pytest.raises(CorruptCheckpointError, match=path):
        store(storage, num_retained=2)


# ---------------------------------------------------------------- deletion


def test_as_many_checkpoints_are_kept_as_asked_for(storage: MemoryCheckpointStorage) -> None:
    opened = store(storage, num_retained=2)
    for checkpoint_id in (1, 2, 3, 4):
        opened.complete(manifest(checkpoint_id))
        collected(opened)
    assert opened.retained == [manifest(3), manifest(4)]
    assert storage.list_files("chk-1") == storage.list_files("chk-2") == []
    assert store(storage, num_retained=2).retained == [manifest(3), manifest(4)]


def test_a_file_that_a_kept_checkpoint_shares_is_never_deleted(storage: MemoryCheckpointStorage) -> None:
    opened = store(storage)
    base, first, second = (segment(storage, name) for name in ("base", "first", "second"))
    opened.complete(manifest(1, base, first))
    opened.complete(manifest(2, base, second))
    assert collected(opened).manifests == ("chk-1/MANIFEST",)
    assert storage.list_files("shared") == ["shared/op-totals/base", "shared/op-totals/second"]


def test_the_files_of_another_job_are_never_deleted(storage: MemoryCheckpointStorage) -> None:
    other = MemoryCheckpointStorage()
    foreign = segment(other, "foreign")
    opened = store(storage)
    absolute = FileHandle(f"{other.uri}/{foreign.path}", foreign.size_bytes, foreign.sha256)
    opened.complete(manifest(1, absolute))
    opened.complete(manifest(2))
    collected(opened)
    opened.remove_orphans()
    opened.remove_all()
    assert other.list_files("") == [foreign.path]


def test_the_manifest_goes_before_its_files(storage: MemoryCheckpointStorage) -> None:
    class Recording(MemoryCheckpointStorage):
        deleted: list[str] = []  # noqa: RUF012

        def delete(self, paths: object) -> None:
            paths = list(paths)  # type: ignore[call-overload]
            self.deleted += paths
            super().delete(paths)

    recording = Recording()
    opened = store(recording)
    opened.complete(manifest(1, segment(recording, "a")))
    opened.complete(manifest(2))
    collected(opened)
    assert recording.deleted == ["chk-1/MANIFEST", "shared/op-totals/a"]


def test_orphans_are_segments_that_no_kept_checkpoint_names(storage: MemoryCheckpointStorage) -> None:
    opened = store(storage)
    opened.complete(manifest(1, segment(storage, "kept")))
    segment(storage, "orphan")
    assert opened.remove_orphans() == ["shared/op-totals/orphan"]
    assert storage.list_files("shared") == ["shared/op-totals/kept"]
    assert storage.list_files("epochs")


def test_what_a_replaced_coordinator_completed_goes_with_the_end_of_the_job(
    storage: MemoryCheckpointStorage,
) -> None:
    replaced = store(storage)
    replaced.complete(manifest(1, segment(storage, "counts")))
    current = store(storage)
    late = manifest(2, segment(storage, "counts"), segment(storage, "late"))
    storage.create_exclusive("chk-2/MANIFEST", encode_manifest(late))
    current.remove_orphans()
    assert storage.list_files("chk-1") == ["chk-1/MANIFEST"]
    assert storage.list_files("chk-2") == []
    assert storage.list_files("shared") == ["shared/op-totals/counts"]


def test_a_manifest_that_waits_for_its_deletion_goes_before_the_files_that_became_orphans(
    storage: MemoryCheckpointStorage,
) -> None:
    opened = store(storage)
    old, new = segment(storage, "old"), segment(storage, "new")
    opened.complete(manifest(1, old))
    opened.complete(manifest(2, new))
    assert opened.take_garbage() is not None, "its deletion is still to come, in the background"
    assert opened.remove_orphans() == ["shared/op-totals/old"]
    assert storage.list_files("chk-1") == []
    assert storage.list_files("chk-2") == ["chk-2/MANIFEST"]


def test_a_checkpoint_too_many_goes_with_the_orphans(storage: MemoryCheckpointStorage) -> None:
    """The job may end before its turn came: one deletion runs at a time."""
    opened = store(storage)
    opened.complete(manifest(1, segment(storage, "old")))
    opened.complete(manifest(2, segment(storage, "new")))
    assert opened.remove_orphans() == ["shared/op-totals/old"]
    assert storage.list_files("chk-1") == []
    assert storage.list_files("chk-2") == ["chk-2/MANIFEST"]


def test_removing_all_leaves_nothing(storage: MemoryCheckpointStorage) -> None:
    opened = store(storage)
    opened.reserve(1)
    opened.complete(manifest(1, segment(storage, "a")))
    opened.remove_all()
    assert storage.list_files("") == []
    assert opened.newest is None


# ---------------------------------------------------------------- checkpoints of other jobs


def test_a_checkpoint_of_another_job_is_read_with_absolute_paths(storage: MemoryCheckpointStorage) -> None:
    opened = store(storage)
    handle = segment(storage, "a")
    opened.complete(manifest(3, handle))
    read = read_checkpoint(opened.directory_of(CheckpointId(3)) + "/")
    (file,) = read.files()
    assert file.path == f"{storage.uri}/{handle.path}"
    assert MemoryCheckpointStorage().read_file(file) == b"a"


def test_an_absolute_path_stays_what_it_is(storage: MemoryCheckpointStorage) -> None:
    opened = store(storage)
    opened.complete(manifest(1, FileHandle("s3://bucket/x", 1, ""), FileHandle("/data/y", 1, "")))
    read = read_checkpoint(opened.directory_of(CheckpointId(1)))
    assert [file.path for file in read.files()] == ["s3://bucket/x", "/data/y"]


def test_inline_files_are_in_the_manifest_alone(storage: MemoryCheckpointStorage) -> None:
    opened = store(storage)
    inline = FileHandle("shared/op/small", 1, hashlib.sha256(b"s").hexdigest(), b"s")
    opened.complete(manifest(1, inline, segment(storage, "a")))
    (read, _) = read_checkpoint(opened.directory_of(CheckpointId(1))).files()
    assert read == inline
    assert MemoryCheckpointStorage().read_file(read) == b"s"
    opened.complete(manifest(2, segment(storage, "b")))
    assert collected(opened).manifests == ("chk-1/MANIFEST",)
    assert storage.list_files("shared") == ["shared/op-totals/b"]


def test_files_of_operator_state_live_and_die_with_their_checkpoints(
    storage: MemoryCheckpointStorage,
) -> None:
    opened = store(storage)
    kept, dropped = (storage.write_file(f"shared/op/{name}", b"items") for name in ("kept", "dropped"))
    storage.write_file("shared/op/orphan", b"items")
    opened.complete(operator_lists(1, dropped, kept))
    opened.complete(operator_lists(2, kept))
    assert collected(opened).manifests == ("chk-1/MANIFEST",)
    assert opened.remove_orphans() == ["shared/op/orphan"]
    assert storage.list_files("shared") == ["shared/op/kept"]
    (file,) = read_checkpoint(opened.directory_of(CheckpointId(2))).files()
    assert file.path == f"{storage.uri}/shared/op/kept"


def test_a_path_without_a_checkpoint_says_what_a_path_looks_like(storage: MemoryCheckpointStorage) -> None:
    with pytest.raises(CheckpointStorageError, match=r"no checkpoint at .*MANIFEST.*<job id>/chk-12"):
        read_checkpoint(storage.uri)
