"""Stopping a local job with a savepoint: what ends it, what does not, and what goes wrong."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tidegate.common import JobStatus
from tidegate.common.errors import ConfigurationError, JobExecutionError
from tidegate.coordinator.monitoring.statistics import CheckpointOutcome
from tidegate.datastream import CheckpointingMode
from tidegate.protocol.elements import SnapshotKind

from .jobs import WAIT_S, environment
from .test_savepoints import COUNT, KEYS, held, last_of_each_key, resumed, sums


def test_two_stops_in_the_same_way_share_one_savepoint(tmp_path: Path) -> None:
    client, _ = held(tmp_path / "one")
    futures = [client.stop_with_savepoint(False, str(tmp_path / "savepoints")) for _ in range(2)]
    paths: set[str] = set()
    for future in futures:
        problem = future.exception(WAIT_S)
        # The second one may have come when the job was over already.
        assert problem is None or re.search("job is over|FINISHED", str(problem))
        paths |= {future.result()} if problem is None else set()
    assert len(paths) == 1
    assert client.wait(WAIT_S) is JobStatus.FINISHED
    assert [path.name for path in (tmp_path / "savepoints").iterdir()] == [Path(paths.pop()).name]


@pytest.mark.parametrize("drain", [False, True])
def test_a_job_goes_on_when_the_savepoint_of_its_stop_fails(tmp_path: Path, drain: bool) -> None:
    client, before = held(tmp_path / "one")
    client.trigger_checkpoint()
    (tmp_path / "savepoints").mkdir()
    # The directory passes the check, but the one that the savepoint would make is a file already.
    for number in range(2, 6):
        name = f"savepoint-{str(client.get_job_id())[:6]}-{number}"
        (tmp_path / "savepoints" / name).write_text("in the way")
    with pytest.raises(JobExecutionError, match="the savepoint was aborted"):
        client.stop_with_savepoint(drain, str(tmp_path / "savepoints")).result(WAIT_S)
    assert client.trigger_checkpoint() > 0
    assert client.wait(0) is JobStatus.RUNNING
    path = client.stop_with_savepoint(False, str(tmp_path / "others")).result(WAIT_S)
    assert client.wait(WAIT_S) is JobStatus.FINISHED
    assert client.report().restarts == (1 if drain else 0)
    results = resumed(tmp_path / "two", path)
    assert last_of_each_key(results | set(before)) >= {
        result for result in last_of_each_key(results) if result[0] in range(KEYS)
    }
    assert len(set(before) | results) == COUNT


def test_a_savepoint_is_no_checkpoint_and_replaces_none(tmp_path: Path) -> None:
    client, _ = held(tmp_path / "one")
    client.trigger_checkpoint()
    newest = client.report().newest_checkpoint
    path = client.trigger_savepoint(str(tmp_path / "savepoints")).result(WAIT_S)
    report = client.report()
    assert report.newest_checkpoint == newest
    assert report.statistics.latest_savepoint is not None
    assert report.statistics.latest_savepoint.kind is SnapshotKind.SAVEPOINT
    for _ in range(3):
        client.trigger_checkpoint()
    assert (Path(path) / "MANIFEST").is_file()
    client.close()
    assert (Path(path) / "MANIFEST").is_file()


def test_checkpoints_go_on_beside_savepoints(tmp_path: Path) -> None:
    client, _ = held(tmp_path / "one", **{"execution.checkpointing.interval": "10 ms"})
    for _ in range(3):
        client.trigger_savepoint(str(tmp_path / "savepoints")).result(WAIT_S)
    outcomes = {one.outcome for one in client.report().statistics.checkpoints}
    assert outcomes == {CheckpointOutcome.COMPLETED}
    assert len(list((tmp_path / "savepoints").iterdir())) == 3
    client.close()


def test_the_default_directory_is_a_setting(tmp_path: Path) -> None:
    options = {"execution.checkpointing.savepoint-dir": str(tmp_path / "savepoints")}
    client, _ = held(tmp_path / "one", **options)
    path = client.trigger_savepoint().result(WAIT_S)
    assert Path(path).parent == tmp_path / "savepoints"
    client.close()


def test_a_job_without_checkpoints_has_no_savepoints(tmp_path: Path) -> None:
    env = environment()
    sums(env, None).add_sink(lambda value: None)
    client = env.execute_async()
    with pytest.raises(ConfigurationError, match="takes no checkpoints"):
        client.trigger_savepoint(str(tmp_path)).result(WAIT_S)
    client.close()


def test_the_mode_changes_while_the_job_runs_and_stays_changed(tmp_path: Path) -> None:
    client, _ = held(tmp_path / "one")
    assert client.report().checkpointing_mode == "exactly-once"
    client.set_checkpointing_mode(CheckpointingMode.AT_LEAST_ONCE)
    client.trigger_checkpoint()
    assert client.report().checkpointing_mode == "at-least-once"
    client.set_checkpointing_mode(CheckpointingMode.EXACTLY_ONCE, unaligned=True)
    client.trigger_checkpoint()
    assert client.report().checkpointing_mode == "unaligned"
    with pytest.raises(ConfigurationError, match="unaligned checkpoints need exactly-once"):
        client.set_checkpointing_mode(CheckpointingMode.AT_LEAST_ONCE, unaligned=True)
    assert client.report().checkpointing_mode == "unaligned"
    client.close()
