"""Exactly-once sinks in a process that is killed at each phase of their protocol, and resumed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pyarrow.fs
import pytest

PROGRAM = Path(__file__).with_name("sink_job.py")
EXPECTED = [(number, f"text {number}") for number in range(240)]

PHASES = [
    "process@sink/0:5:kill",  # before the second pre-commit
    "snapshot_sync@sink/1:2:kill",  # after it; the checkpoint will never be complete
    "commit_before@sink/0:2:kill",  # the checkpoint is complete, and nothing of it committed
    "commit_mid@sink/1:2:kill",  # this subtask has committed it
    "commit_after@sink/0:2:kill",  # and has not noted so yet
]


class Runner:
    """Runs the job in a process of its own."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __call__(self, kind: str, target: str, directory: Path, points: str) -> int:
        """Run it from the newest checkpoint in the directory; its exit code, negative for a signal."""
        found = {
            int(path.parent.name[4:]): path.parent for path in directory.glob("checkpoints/*/chk-*/MANIFEST")
        }
        restored = [str(found[max(found)])] if found else []
        order = [points, kind, target, str(directory / "checkpoints"), *restored]
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate()


@pytest.fixture(scope="module")
def run() -> Iterator[Runner]:
    runner = Runner()
    yield runner
    runner.close()


@pytest.mark.parametrize("point", PHASES)
def test_postgres_has_every_record_once_wherever_the_process_is_killed(
    run: Runner, database: Any, tmp_path: Path, point: str
) -> None:
    database.query("CREATE TABLE numbers (number bigint PRIMARY KEY, text text)")
    assert run("postgres", database.conninfo, tmp_path, point) == -signal.SIGKILL
    assert run("postgres", database.conninfo, tmp_path, "") == 0
    assert database.query("SELECT number, text FROM numbers ORDER BY 1") == EXPECTED
    assert database.prepared() == []


def read(uri: str) -> list[tuple[int, str]]:
    file_system, directory = pyarrow.fs.FileSystem.from_uri(uri)
    rows = ds.dataset(directory, filesystem=file_system).to_table().to_pylist()
    return sorted((row["number"], row["text"]) for row in rows)


@pytest.mark.parametrize("point", PHASES)
def test_a_directory_has_every_record_once_wherever_the_process_is_killed(
    run: Runner, tmp_path: Path, point: str
) -> None:
    out = tmp_path / "out"
    assert run("files", str(out), tmp_path, point) == -signal.SIGKILL
    assert {number for number, _ in read(out.as_uri())} <= set(range(240))
    assert run("files", str(out), tmp_path, "") == 0
    assert read(out.as_uri()) == EXPECTED


@pytest.mark.parametrize("point", ["commit_mid@sink/1:2:kill", "commit_after@sink/0:2:kill"])
def test_an_object_store_has_every_record_once_wherever_the_process_is_killed(
    run: Runner, object_store: Any, tmp_path: Path, point: str
) -> None:
    assert run("files", object_store.uri("out"), tmp_path, point) == -signal.SIGKILL
    assert run("files", object_store.uri("out"), tmp_path, "") == 0
    assert read(object_store.uri("out")) == EXPECTED
