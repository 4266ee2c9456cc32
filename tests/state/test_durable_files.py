"""What is written survives a power failure, however it is timed, and a manifest never outlives its files."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from tidegate.common.errors import CheckpointStorageError
from tidegate.state.storage.checkpoint_storage import open_storage
from tidegate.state.storage.durable_files import DurableFiles, LocalDisk, is_temporary
from tidegate.state.storage.filesystem_storage import FileSystemCheckpointStorage
from tidegate.testing.simulation.faults.volatile_disk import VolatileDisk

STATE = "job/shared/uid/state"
MANIFEST = "job/chk-1/MANIFEST"


class PowerFailure(Exception):
    pass


class FailingDisk(VolatileDisk):
    """Loses its power before the nth operation."""

    def __init__(self, operations: int) -> None:
        super().__init__()
        self._left = operations

    def _operate(self) -> None:
        if not self._left:
            raise PowerFailure
        self._left -= 1

    def write(self, path: str, data: bytes | memoryview, is_synced: bool) -> None:
        self._operate()
        super().write(path, data, is_synced)

    def replace(self, path: str, name: str) -> None:
        self._operate()
        super().replace(path, name)

    def link(self, path: str, name: str) -> None:
        self._operate()
        super().link(path, name)

    def sync_directory(self, path: str) -> None:
        self._operate()
        super().sync_directory(path)


def checkpoint(files: DurableFiles) -> None:
    files.write(STATE, b"state")
    files.create(MANIFEST, b"names the state")


def keeping(seed: int) -> Callable[[], bool]:
    """Which changes survive a power failure: with seed 0 none, then more and more."""
    seeded = random.Random(seed)
    return lambda: seeded.random() < seed / 40


def problem_after(disk: VolatileDisk, keeps: Callable[[], bool], is_complete: bool) -> str:
    """What is wrong with the checkpoint after a power failure, if anything."""
    disk.fail(keeps)
    if is_complete and MANIFEST not in disk.content:
        return "a complete checkpoint is gone"
    if MANIFEST in disk.content:
        if disk.content[MANIFEST] != b"names the state":
            return "the manifest is damaged"
        if disk.content.get(STATE) != b"state":
            return "the manifest outlived its files"
    return ""


def first_problem(make: Callable[[VolatileDisk], DurableFiles]) -> str:
    """Of power failures at each operation of a checkpoint; any changes that were not synced may survive."""
    for operations in range(100):
        for seed in range(40):
            disk = FailingDisk(operations)
            files = make(disk)
            is_complete = True
            try:
                checkpoint(files)
            except PowerFailure:
                is_complete = False
            problem = problem_after(disk, keeping(seed), is_complete)
            if problem:
                return problem
        if is_complete:
            return ""
    raise AssertionError("the checkpoint takes more operations than expected")


def test_a_complete_checkpoint_survives_a_power_failure_at_any_moment() -> None:
    assert first_problem(lambda disk: DurableFiles(disk, "")) == ""


def test_without_syncs_the_test_finds_a_loss() -> None:
    assert first_problem(lambda disk: DurableFiles(disk, "", is_synced=False)) != ""


class _NoDirectories(DurableFiles):
    def _sync_directories(self, path: str, made: list[str]) -> None:
        pass


class _OwnDirectoryOnly(DurableFiles):
    def _sync_directories(self, path: str, made: list[str]) -> None:
        self._disk.sync_directory(os.path.dirname(path))


class _ContentOfManifestsOnly(DurableFiles):
    def write(self, path: str, data: bytes | memoryview) -> None:
        self._is_synced = False
        super().write(path, data)
        self._is_synced = True
        self._sync_directories(path, [])


@pytest.mark.parametrize("planted", [_NoDirectories, _OwnDirectoryOnly, _ContentOfManifestsOnly])
def test_planted_mistakes_are_found(planted: type[DurableFiles]) -> None:
    assert first_problem(lambda disk: planted(disk, "")) != ""


def test_a_directory_that_another_process_made_is_synced_too() -> None:
    disk = VolatileDisk()
    disk.make_directories("job/shared/uid")
    DurableFiles(disk, "job").write(STATE, b"state")
    disk.fail(lambda: False)
    assert disk.content == {STATE: b"state"}


def test_the_root_and_directories_above_it_are_synced_when_they_are_new() -> None:
    disk = VolatileDisk()
    DurableFiles(disk, "a/b/job").write("a/b/job/x", b"state")
    disk.fail(lambda: False)
    assert disk.content == {"a/b/job/x": b"state"}


def test_no_temporary_file_is_left_after_a_sync_that_fails(tmp_path: Path) -> None:
    class BadDisk(LocalDisk):
        def sync_directory(self, path: str) -> None:
            raise CheckpointStorageError(f"{path} could not be synced to disk")

    files = DurableFiles(BadDisk(), str(tmp_path))
    with pytest.raises(CheckpointStorageError, match="synced"):
        files.create(str(tmp_path / "chk-1" / "MANIFEST"), b"x")
    assert not any(is_temporary(path.name) for path in tmp_path.rglob("*"))


def test_a_link_that_was_made_although_its_answer_was_lost_is_no_error(tmp_path: Path) -> None:
    path, name, other = (str(tmp_path / each) for each in ("a", "b", "c"))
    LocalDisk().write(path, b"mine", is_synced=False)
    LocalDisk().write(other, b"another's", is_synced=False)
    with pytest.raises(FileExistsError):
        LocalDisk().link(path, other)
    os.link(path, name)
    LocalDisk().link(path, name)


def test_the_local_disk_syncs_files_and_directories(tmp_path: Path) -> None:
    LocalDisk().write(str(tmp_path / "a"), b"x", is_synced=True)
    LocalDisk().sync_directory(str(tmp_path))
    LocalDisk().sync_directory(str(tmp_path / "gone"))
    assert (tmp_path / "a").read_bytes() == b"x"


def test_the_setting_reaches_storages_below(tmp_path: Path) -> None:
    storage = open_storage(str(tmp_path), is_synced=False).sub("job")
    storage.write_file("a", b"x")
    assert storage.read("a") == b"x"
    sent = FileSystemCheckpointStorage(str(tmp_path), is_synced=False).__reduce__()
    assert sent == (FileSystemCheckpointStorage, (str(tmp_path), False))
