"""Savepoints of local jobs: taken, moved, and started from with another backend and parallelism."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from tidegate.common import JobStatus, WatermarkStrategy
from tidegate.common.errors import JobExecutionError
from tidegate.coordinator.control.job_client import JobClient
from tidegate.datastream import (
    DataStream,
    FileSystemStateBackend,
    LmdbStateBackend,
    MemoryStateBackend,
    SavepointFormatType,
    StateBackend,
    StreamExecutionEnvironment,
)
from tidegate.state import read_snapshot

from .jobs import WAIT_S, HeldSource, Kept, RunningSum, environment, expected_sums

COUNT, KEYS = 200, 7
BACKENDS: dict[str, StateBackend] = {
    "memory": MemoryStateBackend(),
    "filesystem": FileSystemStateBackend(),
    "lmdb": LmdbStateBackend(),
}


def discard(value: Any) -> None:
    """A sink."""


def sums(env: StreamExecutionEnvironment, snapshots: int | None) -> DataStream:
    """Running sums by key; the sources stop half way until they took so many snapshots."""
    env.set_max_parallelism(16)
    source = env.from_source(HeldSource(COUNT, snapshots), WatermarkStrategy.no_watermarks(), "Held")
    keyed = source.uid("numbers").key_by(lambda value: value % KEYS)
    return keyed.process(RunningSum()).uid("sums")


def held(
    directory: Path, backend: str = "memory", parallelism: int = 2, **options: str
) -> tuple[JobClient, list[Any]]:
    """A job that has read half of its input, and waits. Its results go into a list."""
    settings = {"execution.checkpointing.interval": "1 h", **options}
    env = environment(directory, parallelism, settings).set_state_backend(BACKENDS[backend])
    sums(env, None).map(Kept(str(directory))).add_sink(discard)
    client, results = env.execute_async("held"), Kept.results[str(directory)]
    while len(results) < COUNT // 2:
        assert client.wait(0.01) is not JobStatus.FAILED, client.report().cause
    return client, results


def resumed(
    directory: Path, path: str, backend: str = "memory", parallelism: int = 2, **options: str
) -> set[Any]:
    """What a job started from `path` makes of the other half."""
    settings = {"execution.state-recovery.path": path, **options}
    env = environment(directory, parallelism, settings).set_state_backend(BACKENDS[backend])
    return set(sums(env, 0).execute_and_collect())


def last_of_each_key(results: set[Any]) -> set[Any]:
    best: dict[int, Any] = {}
    for result in results:
        best[result[0]] = max(best.get(result[0], result), result, key=lambda each: each[1])
    return set(best.values())


@pytest.mark.parametrize("format_type", list(SavepointFormatType))
@pytest.mark.parametrize(("first", "then"), [("memory", "lmdb"), ("lmdb", "filesystem"), ("lmdb", "memory")])
def test_a_moved_savepoint_starts_a_job_with_another_backend_and_parallelism(
    tmp_path: Path, first: str, then: str, format_type: SavepointFormatType
) -> None:
    client, before = held(tmp_path / "one", first)
    client.trigger_checkpoint()
    path = client.trigger_savepoint(str(tmp_path / "savepoints"), format_type).result(WAIT_S)
    client.trigger_checkpoint()
    assert Path(path).parent == tmp_path / "savepoints"
    client.close()

    moved = tmp_path / "moved"
    shutil.move(path, moved)
    shutil.rmtree(tmp_path / "one")
    assert len(list(read_snapshot(str(moved)).keyed_state("sums", "total").entries())) == KEYS

    results = resumed(tmp_path / "two", str(moved), then, parallelism=3)
    assert last_of_each_key(results) == expected_sums(COUNT, KEYS)
    assert len(set(before)) + len(results) == COUNT
    assert moved.is_dir()


def test_a_stop_with_a_savepoint_processes_nothing_after_its_barrier(tmp_path: Path) -> None:
    client, before = held(tmp_path / "one")
    path = client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result(WAIT_S)
    assert client.wait(WAIT_S) is JobStatus.FINISHED
    assert len(before) == COUNT // 2
    results = resumed(tmp_path / "two", path, "lmdb", 1)
    assert last_of_each_key(results) == expected_sums(COUNT, KEYS)
    assert len(set(before)) + len(results) == COUNT


def test_a_stop_with_drain_ends_the_sources_first(tmp_path: Path) -> None:
    client, before = held(tmp_path / "one")
    path = client.stop_with_savepoint(True, str(tmp_path / "savepoints")).result(WAIT_S)
    assert client.wait(WAIT_S) is JobStatus.FINISHED
    assert len(list(read_snapshot(path).keyed_state("sums", "total").entries())) == KEYS
    assert len(before) == COUNT // 2


def test_a_savepoint_in_a_directory_with_other_things_is_refused(tmp_path: Path) -> None:
    client, _ = held(tmp_path / "one")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    with pytest.raises(JobExecutionError, match="not empty and holds more than savepoints"):
        client.trigger_savepoint(str(tmp_path / "mine")).result(WAIT_S)
    with pytest.raises(JobExecutionError, match="savepoint-dir"):
        client.trigger_savepoint().result(WAIT_S)
    assert client.wait(0) is JobStatus.RUNNING
    client.close()
