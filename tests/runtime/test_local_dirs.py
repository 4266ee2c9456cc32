"""Directories of jobs on a machine: held by living processes, removed when nobody holds them."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tidegate.runtime.local_dirs import JobDirectories, local_dir, local_snapshots_dir

HOLDER = """
import sys
from tidegate.runtime.local_dirs import JobDirectories
directories = JobDirectories([sys.argv[1]], sys.argv[2])
print("held", flush=True)
sys.stdin.read()
"""


def files_of(root: Path, job: str) -> list[Path]:
    """A file of state and a copy of a snapshot."""
    state, copies = local_dir(str(root), job, "uid", 0, 1), local_snapshots_dir(str(root), job, "task-1#0")
    files = [Path(state) / "data.mdb", Path(copies) / "00ff"]
    for file in files:
        file.parent.mkdir(parents=True)
        file.touch()
    return files


def test_the_end_of_a_job_leaves_nothing(tmp_path: Path) -> None:
    directories = JobDirectories([str(tmp_path)], "one")
    files_of(tmp_path, "one")
    directories.close()
    assert list(tmp_path.iterdir()) == []


def test_the_last_process_of_a_job_deletes(tmp_path: Path) -> None:
    first, last = (JobDirectories([str(tmp_path)], "one") for _ in range(2))
    files = files_of(tmp_path, "one")
    first.close()
    assert all(file.exists() for file in files)
    last.close()
    assert list(tmp_path.iterdir()) == []


def test_a_job_in_two_places_leaves_nothing_in_either(tmp_path: Path) -> None:
    roots = [tmp_path / "state", tmp_path / "copies"]
    directories = JobDirectories(map(str, roots), "one")
    for root in roots:
        files_of(root, "one")
    directories.close()
    assert [list(root.iterdir()) for root in roots] == [[], []]


def test_files_of_a_killed_process_are_removed_by_whoever_starts_next(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(tmp_path), "killed"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        files = files_of(tmp_path, "killed")
        first = JobDirectories([str(tmp_path)], "next")
        assert all(file.exists() for file in files), "the process lives"
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    second = JobDirectories([str(tmp_path)], "after that")
    assert not any(file.exists() for file in files)
    for directories in (second, first):
        directories.close()


def test_a_restart_finds_the_copies_of_its_own_job(tmp_path: Path) -> None:
    files = files_of(tmp_path, "one")
    directories = JobDirectories([str(tmp_path)], "one")
    assert all(file.exists() for file in files)
    directories.close()


def test_what_is_no_job_of_ours_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    JobDirectories([str(tmp_path)], "one").close()
    assert [path.name for path in tmp_path.iterdir()] == ["photos"]


@pytest.mark.slow
def test_jobs_that_end_do_not_disturb_those_that_begin(tmp_path: Path) -> None:
    """The directory above those of the jobs comes and goes with them."""
    is_over = threading.Event()

    def hold_again_and_again() -> None:
        while not is_over.is_set():
            JobDirectories([str(tmp_path)], "one").close()

    with ThreadPoolExecutor(1) as other:
        held = other.submit(hold_again_and_again)
        try:
            for _ in range(2_000):
                JobDirectories([str(tmp_path)], "two").close()
        finally:
            is_over.set()
        held.result()
    assert list(tmp_path.iterdir()) == []
