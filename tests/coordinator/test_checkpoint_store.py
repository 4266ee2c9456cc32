"""Completed checkpoints in storage: who may write them, which are kept, and what is never deleted."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest
from tidegate.common.errors import CheckpointStorageError, CorruptCheckpointError
from tidegate.coordinator.checkpoints.checkpoint_store import CheckpointStore, FencedError, Garbage
from tidegate.protocol.checkpoints.handles import FileHandle, ListPart, OperatorListHandle, OperatorSnapshot
from tidegate.protocol.checkpoints.manifest import CheckpointManifest, OperatorManifest, encode_manifest
from tidegate.protocol.elements import SnapshotKind
from tidegate.protocol.ids import CheckpointId, JobId
from tidegate.protocol.key_groups import KeyGroupRange
from tidegate.state.storage.memory_storage import MemoryCheckpointStorage
from tidegate.state.storage.stored_checkpoint import read_checkpoint

from .fakes import keyed_snapshot


@pytest.fixture
def storage() -> MemoryCheckpointStorage:
    return MemoryCheckpointStorage()


def store(storage: MemoryCheckpointStorage, num_retained: int = 1) -> CheckpointStore:
    """The store of a coordinator that has just taken the job over."""
    opened = CheckpointStore(storage, JobId("job"), num_retained)
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
    assert [CheckpointStore(storage, JobId("job"), 1).claim() for _ in range(3)] == [1, 2, 3]


def test_a_claim_that_loses_the_race_takes_the_next_epoch(storage: MemoryCheckpointStorage) -> None:
    class Rival(MemoryCheckpointStorage):
        """Another coordinator claims between the look and the claim."""

        def list_files(self, prefix: str) -> list[str]:
            found = super().list_files(prefix)
            self.create_exclusive(f"epochs/{len(found) + 1}", b"")
            return found

    assert CheckpointStore(Rival(), JobId("job"), 1).claim() == 2


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
    assert CheckpointStore(storage, JobId("job"), 1).first_free_id() > 700


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
    assert CheckpointStore(storage, JobId("job"), 1).newest is None


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


def test_a_missing_newest_checkpoint_is_an_error_and_no_step_back(storage: MemoryCheckpointStorage) -> None:
    opened = store(storage, num_retained=2)
    for checkpoint_id in (1, 2):
        opened.complete(manifest(checkpoint_id))
    lost = storage.read("chk-2/MANIFEST")
    storage.delete(["chk-2/MANIFEST"])
    for _ in range(2):
        with pytest.raises(CorruptCheckpointError, match=r"/chk-2/MANIFEST is missing: .*chk-1\."):
            store(storage, num_retained=2)
    storage.write_file("chk-2/MANIFEST", lost)
    assert store(storage, num_retained=2).newest == manifest(2)


def test_a_missing_checkpoint_that_was_restored_is_an_error_too(storage: MemoryCheckpointStorage) -> None:
    """Its successor recorded it when it took over, and committed what it covers."""
    opened = store(storage, num_retained=2)
    for checkpoint_id in (1, 2):
        opened.complete(manifest(checkpoint_id))
    store(storage, num_retained=2)
    storage.delete(["chk-2/MANIFEST", "completed/1"])
    with pytest.raises(CorruptCheckpointError, match="chk-2/MANIFEST is missing"):
        store(storage, num_retained=2)


def test_a_missing_only_checkpoint_is_no_new_start(storage: MemoryCheckpointStorage) -> None:
    store(storage).complete(manifest(1))
    storage.delete(["chk-1/MANIFEST"])
    with pytest.raises(CorruptCheckpointError, match="that is left: none"):
        store(storage)


def test_an_older_checkpoint_may_be_missing(storage: MemoryCheckpointStorage) -> None:
    opened = store(storage, num_retained=2)
    for checkpoint_id in (1, 2):
        opened.complete(manifest(checkpoint_id))
    storage.delete(["chk-1/MANIFEST"])
    assert store(storage, num_retained=2).retained == [manifest(2)]


def test_a_completed_checkpoint_whose_record_fails_is_not_announced() -> None:
    class Refusing(MemoryCheckpointStorage):
        refuses = True

        def write_file(self, path: str, data: bytes | memoryview) -> FileHandle:
            if path.startswith("completed/") and self.refuses:
                raise CheckpointStorageError("no")
            return super().write_file(path, data)

    storage = Refusing()
    opened = store(storage)
    with pytest.raises(CheckpointStorageError, match="no"):
        opened.complete(manifest(1))
    assert opened.newest is None
    assert opened.is_uncertain(CheckpointId(1))
    with pytest.raises(CheckpointStorageError, match="no"):
        opened.resolve_uncertain()
    storage.refuses = False
    opened.resolve_uncertain()
    assert opened.newest == manifest(1)
    storage.delete(["chk-1/MANIFEST"])
    with pytest.raises(CorruptCheckpointError, match="chk-1/MANIFEST is missing"):
        store(storage)


def test_the_manifest_of_another_checkpoint_or_job_is_an_error(storage: MemoryCheckpointStorage) -> None:
    opened = store(storage, num_retained=2)
    for checkpoint_id in (1, 2):
        opened.complete(manifest(checkpoint_id))
    foreign = encode_manifest(replace(manifest(2), job_id="other"))
    for wrong in (storage.read("chk-1/MANIFEST"), foreign):
        storage.write_file("chk-2/MANIFEST", wrong)
        with pytest.raises(CorruptCheckpointError, match="chk-2/MANIFEST is another manifest in the wrong"):
            store(storage, num_retained=2)


def test_records_of_an_earlier_release_are_read(storage: MemoryCheckpointStorage) -> None:
    """Up to 0.1 they had neither checksum nor identity, and nothing recorded what was completed."""
    for path, data in {
        "epochs/1": b"",
        "ids/256": b"1",
        "accepted/1": b'{"first_id": 1, "checkpoints": []}',
        "epochs/2": b"",
        "ids/512": b"2",
        "accepted/2": b'{"first_id": 257, "checkpoints": [7]}',
    }.items():
        storage.write_file(path, data)
    for checkpoint_id in (7, 8, 257):
        storage.write_file(f"chk-{checkpoint_id}/MANIFEST", encode_manifest(manifest(checkpoint_id)))
    opened = store(storage, num_retained=2)
    assert (opened.epoch, opened.first_free_id()) == (3, 513)
    assert [each.checkpoint_id for each in opened.retained] == [7, 257], "8 came too late to count"


@pytest.mark.parametrize("lost", ["epochs", "ids", "accepted", "completed"])
def test_lost_records_do_not_repeat_an_epoch_or_an_id(storage: MemoryCheckpointStorage, lost: str) -> None:
    for checkpoint_id in (1, 257):
        opened = store(storage)
        opened.complete(manifest(checkpoint_id))
    storage.delete(storage.list_files(lost))
    after = store(storage)
    assert after.epoch > opened.epoch
    assert after.first_free_id() == 513
    assert after.newest == manifest(257)


@pytest.mark.parametrize(
    "path", ["chk-backup/MANIFEST", "chk-1.bak/MANIFEST", "epochs/1.bak", "ids/x", "accepted/1~", "notes"]
)
def test_files_of_the_user_in_the_jobs_directory_are_ignored_and_stay(
    storage: MemoryCheckpointStorage, path: str
) -> None:
    store(storage).complete(manifest(1))
    storage.write_file(path, b"mine")
    opened = store(storage)
    assert opened.newest == manifest(1)
    opened.remove_orphans()
    opened.remove_all()
    opened.sweep(keep_checkpoints=False)
    is_in_own_directory = path.split("/")[0] in ("epochs", "ids", "accepted")
    assert storage.list_files("") == ([] if is_in_own_directory else [path])


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
    with pytest.raises(CheckpointStorageError, match="address"):
        opened.complete(manifest(1, foreign.within(other.uri)))
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


@pytest.mark.parametrize("path", ["s3://bucket/x", "/data/y", "shared/../y", "chk-1/MANIFEST"])
def test_no_manifest_is_written_that_names_other_files(storage: MemoryCheckpointStorage, path: str) -> None:
    opened = store(storage)
    with pytest.raises(CheckpointStorageError, match="cannot be stored"):
        opened.complete(manifest(1, FileHandle(path, 1, "")))
    assert opened.newest is None


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
