from __future__ import annotations

import errno
import pickle
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from tidegate.common.errors import CheckpointStorageError, CorruptCheckpointError
from tidegate.state.storage.checkpoint_storage import CheckpointStorage, open_storage, read_restored
from tidegate.state.storage.filesystem_storage import FileSystemCheckpointStorage, storage_error
from tidegate.state.storage.memory_storage import MemoryCheckpointStorage


@pytest.fixture(params=["path", "file uri", "memory", "fsspec"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> CheckpointStorage:
    if request.param == "memory":
        return MemoryCheckpointStorage()
    uri = {"path": "", "file uri": "file://", "fsspec": "local://"}[request.param]
    return open_storage(f"{uri}{tmp_path}/new/checkpoints")


def test_a_file_is_read_back_by_its_handle(place: CheckpointStorage) -> None:
    handle = place.write_file("chk-1/a", b"content")
    assert (handle.path, handle.size_bytes) == ("chk-1/a", 7)
    assert place.read_file(handle) == place.read("chk-1/a") == b"content"
    place.write_file("chk-1/a", memoryview(b"newer"))
    assert place.read("chk-1/a") == b"newer"


def test_only_the_first_creates(place: CheckpointStorage) -> None:
    assert place.create_exclusive("epoch/1", b"first")
    assert not place.create_exclusive("epoch/1", b"second")
    assert place.read("epoch/1") == b"first"


@pytest.mark.parametrize("kind", ["local", "memory"])
def test_of_many_at_once_one_creates(kind: str, tmp_path: Path) -> None:
    place = MemoryCheckpointStorage() if kind == "memory" else open_storage(str(tmp_path))
    for number in range(20):
        with ThreadPoolExecutor(8) as threads:
            claims = list(
                threads.map(lambda who, n=number: place.create_exclusive(f"e/{n}", b"%d" % who), range(8))
            )
        assert claims.count(True) == 1
        assert place.read(f"e/{number}") == b"%d" % claims.index(True)


def test_files_are_listed_and_deleted(place: CheckpointStorage) -> None:
    assert place.list_files("") == []
    for path in ("chk-1/b", "chk-1/a/deep", "chk-10/x"):
        place.write_file(path, b"")
    assert place.list_files("chk-1") == ["chk-1/a/deep", "chk-1/b"]
    place.delete(["chk-1/b", "never/there"])
    assert place.list_files("") == ["chk-1/a/deep", "chk-10/x"]


def test_two_may_delete_the_same_files_at_once(place: CheckpointStorage) -> None:
    paths = [f"chk-{number}/a" for number in range(200)]
    for path in paths:
        place.write_file(path, b"")
    with ThreadPoolExecutor(4) as threads:
        for _ in threads.map(place.delete, [paths, paths, paths[::-1], paths[::-1]]):
            pass
    assert place.list_files("") == []


def test_a_part_of_a_storage_is_a_storage(place: CheckpointStorage) -> None:
    part = place.sub("job-1")
    part.write_file("a", b"x")
    assert place.read("job-1/a") == b"x"
    assert part.list_files("") == ["a"]


def test_a_storage_can_be_sent_and_reopened(place: CheckpointStorage) -> None:
    place.write_file("a", b"x")
    assert pickle.loads(pickle.dumps(place)).read("a") == b"x"
    assert open_storage(place.uri).read("a") == b"x"
    assert open_storage(place.sub("b").uri).list_files("") == []


def test_files_of_another_job_are_read_by_absolute_address_and_never_deleted(
    place: CheckpointStorage,
) -> None:
    other = place.sub("other")
    handle = other.write_file("a", b"x")
    absolute = handle.within(other.uri)
    assert absolute.path == f"{other.uri}/a"
    mine = place.sub("mine")
    assert mine.read_file(absolute) == read_restored(None, absolute) == b"x"
    with pytest.raises(CheckpointStorageError, match="no path in checkpoint storage"):
        mine.read_file(replace(absolute, root=""))
    with pytest.raises(CheckpointStorageError, match="another job"):
        mine.delete([absolute.path])
    with pytest.raises(CheckpointStorageError, match="another job"):
        mine.write_file(absolute.path, b"y")
    assert other.read("a") == b"x"


@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: b"X" + data[1:]])
def test_damage_is_an_error_that_names_the_file(
    place: CheckpointStorage, damage: Callable[[bytes], bytes]
) -> None:
    handle = place.write_file("chk-1/a", b"content")
    place.write_file("chk-1/a", damage(b"content"))
    with pytest.raises(CorruptCheckpointError, match=r"/chk-1/a'.*damaged"):
        place.read_file(handle)


def test_a_missing_file_is_an_error_that_names_it(place: CheckpointStorage) -> None:
    with pytest.raises(CheckpointStorageError, match="nothing/here"):
        place.read("nothing/here")


def test_an_unknown_scheme_is_an_error_with_a_remedy() -> None:
    with pytest.raises(CheckpointStorageError, match=r"'warp://x'.*file://"):
        open_storage("warp://x")


def test_a_path_below_a_file_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(CheckpointStorageError, match="check the checkpoint path"):
        FileSystemCheckpointStorage(str(tmp_path / "file")).write_file("a", b"x")


@pytest.mark.parametrize(
    ("code", "remedy"),
    [(errno.ENOSPC, "free space"), (errno.EACCES, "the right to read and write"), (errno.EIO, "reached")],
)
def test_errors_of_the_system_say_what_to_do(code: int, remedy: str) -> None:
    error = storage_error("/checkpoints/a", OSError(code, "as the system says it"))
    assert isinstance(error, CheckpointStorageError)
    assert "/checkpoints/a" in str(error)
    assert remedy in str(error)


def test_no_directory_stays_behind_a_deleted_file(tmp_path: Path) -> None:
    place = open_storage(str(tmp_path))
    for path in ("chk-1/MANIFEST", "shared/op-a/x", "shared/op-a/y"):
        place.write_file(path, b"")
    place.delete(["chk-1/MANIFEST", "shared/op-a/x"])
    assert [path.name for path in tmp_path.iterdir()] == ["shared"]
    place.delete(["shared/op-a/y"])
    assert list(tmp_path.iterdir()) == []


def test_files_are_written_while_their_directory_empties_again_and_again(tmp_path: Path) -> None:
    place = open_storage(str(tmp_path))

    def write(writer: int) -> None:
        for number in range(100):
            place.write_file(f"shared/op-a/{writer}-{number}", b"x")
            place.delete([f"shared/op-a/{writer}-{number}"])

    with ThreadPoolExecutor(4) as threads:
        for _ in threads.map(write, range(4)):
            pass
    assert list(tmp_path.iterdir()) == []


def test_files_are_listed_while_their_directories_come_and_go(tmp_path: Path) -> None:
    place = open_storage(str(tmp_path))
    place.write_file("shared/kept", b"x")
    is_over = threading.Event()

    def come_and_go(writer: int) -> None:
        while not is_over.is_set():
            place.write_file(f"shared/op-{writer}/a", b"x")
            place.delete([f"shared/op-{writer}/a"])

    with ThreadPoolExecutor(2) as threads:
        writers = [threads.submit(come_and_go, writer) for writer in range(2)]
        try:
            for _ in range(2_000):
                assert place.list_files("shared/op-0") in ([], ["shared/op-0/a"])
            assert "shared/kept" in place.list_files("shared")
        finally:
            is_over.set()
        for writer in writers:
            writer.result()
    assert place.list_files("") == ["shared/kept"]


def test_what_a_killed_writer_left_is_in_a_list_of_its_own(tmp_path: Path) -> None:
    place = open_storage(str(tmp_path))
    place.write_file("shared/a", b"x")
    # As the system leaves it when the process is killed before the rename.
    left = tmp_path / "shared" / "b.tmp-1-2-3"
    left.write_bytes(b"ha")
    assert place.list_files("shared") == ["shared/a"]
    assert place.list_unfinished("shared") == ["shared/b.tmp-1-2-3"]
    place.delete(place.list_unfinished("shared"))
    assert not left.exists()


def test_no_half_written_file_stays_behind(tmp_path: Path) -> None:
    place = open_storage(str(tmp_path))
    place.write_file("a", b"x")
    place.create_exclusive("a", b"y")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
