"""Local copies of snapshot files: used where they are intact, bounded, and never needed."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest
from tidegate.common.errors import CorruptCheckpointError
from tidegate.protocol.checkpoints.handles import FileHandle
from tidegate.protocol.ids import CheckpointId
from tidegate.state.storage.checkpoint_storage import CheckpointStorage
from tidegate.state.storage.inline_storage import InlineStorage
from tidegate.state.storage.local_snapshots import LocalSnapshots
from tidegate.state.storage.memory_storage import MemoryCheckpointStorage


class Place:
    """A storage with copies beside it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.remote = MemoryCheckpointStorage()
        self.copies = LocalSnapshots(str(directory))
        self.storage = self.copies.beside(self.remote)

    def acknowledged(self, checkpoint_id: int, *files: FileHandle) -> None:
        self.copies.acknowledged(CheckpointId(checkpoint_id), files)

    def confirmed(self, checkpoint_id: int) -> None:
        self.copies.confirmed(CheckpointId(checkpoint_id))

    def kept(self) -> set[str]:
        return {path.name for path in self.directory.iterdir()} if self.directory.exists() else set()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "copies")


def read_whole(storage: CheckpointStorage, handle: FileHandle) -> bytes:
    return storage.read_file(handle)


def read_opened(storage: CheckpointStorage, handle: FileHandle) -> bytes:
    with storage.open_file(handle) as file:
        return file.read()


reading = pytest.mark.parametrize("read", [read_whole, read_opened])
Read = Callable[[CheckpointStorage, FileHandle], bytes]


@reading
def test_a_file_is_read_from_its_copy(place: Place, read: Read) -> None:
    handle = place.storage.write_file("shared/a", b"content")
    assert place.remote.read("shared/a") == b"content"
    place.remote.delete(["shared/a"])
    assert read(place.storage, handle) == b"content"


@reading
@pytest.mark.parametrize("damage", [b"c0ntent", b"conten", b"", b"content and more"])
def test_a_damaged_copy_is_noticed_and_the_file_read_from_storage(
    place: Place, read: Read, damage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    handle = place.storage.write_file("shared/a", b"content")
    (place.directory / handle.sha256).write_bytes(damage)
    with caplog.at_level(logging.WARNING):
        assert read(place.storage, handle) == b"content"
    assert "local copy of 'shared/a'" in caplog.text


def test_what_was_read_from_storage_is_copied_for_the_next_restart(place: Place) -> None:
    handle = place.remote.write_file("shared/a", b"content")
    assert place.storage.read_file(handle) == b"content"
    place.remote.delete(["shared/a"])
    assert place.storage.read_file(handle) == b"content"


def test_without_a_copy_damage_in_storage_is_an_error(place: Place) -> None:
    handle = place.remote.write_file("shared/a", b"content")
    place.remote.write_file("shared/a", b"c0ntent")
    with pytest.raises(CorruptCheckpointError, match="damaged"):
        place.storage.read_file(handle)
    assert place.kept() == set()


def test_only_what_the_last_confirmed_checkpoint_and_newer_ones_need_is_kept(place: Place) -> None:
    base, first, second, third = (place.storage.write_file(f"shared/{n}", b"%d" % n) for n in range(4))
    place.acknowledged(1, base, first)
    place.acknowledged(2, base, second)
    place.acknowledged(3, base, third)
    place.confirmed(2)
    assert place.kept() == {base.sha256, second.sha256, third.sha256}
    place.confirmed(2)
    place.confirmed(1)
    place.confirmed(99)
    assert place.kept() == {base.sha256, second.sha256, third.sha256}
    place.confirmed(3)
    assert place.kept() == {base.sha256, third.sha256}


def test_a_file_that_is_not_acknowledged_yet_outlives_a_confirmation(place: Place) -> None:
    first = place.storage.write_file("shared/1", b"first")
    place.acknowledged(1, first)
    second = place.storage.write_file("shared/2", b"second")
    place.confirmed(1)
    place.acknowledged(2, second)
    place.confirmed(2)
    assert place.kept() == {second.sha256}


def test_a_file_that_no_snapshot_ever_refers_to_goes(place: Place) -> None:
    lost = place.storage.write_file("shared/lost", b"a merge that was given up")
    for number in range(1, 4):
        assert lost.sha256 in place.kept()
        place.acknowledged(number)
    assert place.kept() == set()


def test_a_start_keeps_what_is_restored_and_nothing_else(place: Place) -> None:
    restored, older = (place.storage.write_file(f"shared/{n}", b"%d" % n) for n in range(2))
    (place.directory / f"{older.sha256}.tmp-1-1").write_bytes(b"torn")
    again = LocalSnapshots(str(place.directory))
    again.start([restored])
    assert place.kept() == {restored.sha256}
    newer = again.beside(place.remote).write_file("shared/2", b"2")
    again.acknowledged(CheckpointId(7), [newer])
    again.confirmed(CheckpointId(7))
    assert place.kept() == {newer.sha256}


def test_a_local_disk_that_refuses_costs_the_copy_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("not a directory")
    place = Place(tmp_path / "file" / "copies")
    with caplog.at_level(logging.WARNING):
        handle = place.storage.write_file("shared/a", b"content")
    assert "No local copy" in caplog.text
    assert place.storage.read_file(handle) == b"content"


def test_a_file_in_the_manifest_needs_no_copy(tmp_path: Path) -> None:
    copies = LocalSnapshots(str(tmp_path / "copies"))
    storage = copies.beside(InlineStorage(MemoryCheckpointStorage(), None))
    handle = storage.write_file("shared/a", b"content")
    assert storage.read_file(handle) == read_opened(storage, handle) == b"content"
    copies.start([handle])
    copies.acknowledged(CheckpointId(1), [handle])
    assert not (tmp_path / "copies").exists()
