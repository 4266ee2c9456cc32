"""What a driver can do with a running job: watch, checkpoint, cancel, wait, collect."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tidegate.common import JobStatus, WatermarkStrategy
from tidegate.common.errors import JobCancelledError, JobExecutionError
from tidegate.coordinator.control.job_client import JobClient
from tidegate.datastream import DataStream, StreamExecutionEnvironment

from .jobs import WAIT_S, HeldSource, environment

COUNT = 100


def held(env: StreamExecutionEnvironment, snapshots: int | None = None) -> DataStream:
    """A job that stops half way, by default for ever."""
    source = HeldSource(COUNT, snapshots)
    return env.from_source(source, WatermarkStrategy.no_watermarks(), "Held")


def discard(value: Any) -> None:
    """A sink."""


def running(tmp_path: Path, **options: str) -> JobClient:
    """A job that runs until it is stopped; checkpoints are taken on request only."""
    env = environment(tmp_path, options={"execution.checkpointing.interval": "1 h", **options})
    held(env).add_sink(discard)
    return env.execute_async("held")


def test_a_job_is_watched_and_cancelled(tmp_path: Path) -> None:
    client = running(tmp_path)
    assert client.wait(0.05) in (JobStatus.CREATED, JobStatus.INITIALIZING, JobStatus.RUNNING)
    client.trigger_checkpoint()
    assert client.get_job_status().result() is JobStatus.RUNNING
    assert client.cancel().result() is None
    assert client.wait(WAIT_S) is JobStatus.CANCELED
    with pytest.raises(JobCancelledError):
        client.result()
    assert isinstance(client.get_job_execution_result().exception(), JobCancelledError)


def test_checkpoints_are_taken_on_request(tmp_path: Path) -> None:
    client = running(tmp_path)
    assert [client.trigger_checkpoint() for _ in range(3)] == [1, 2, 3]
    newest = client.report().newest_checkpoint
    assert newest is not None
    assert newest.endswith("chk-3")
    assert (Path(newest.removeprefix("file://")) / "MANIFEST").is_file()
    client.close()
    assert client.wait() is JobStatus.CANCELED


def test_an_ended_job_takes_no_more_requests(tmp_path: Path) -> None:
    client = running(tmp_path)
    client.close()
    with pytest.raises(JobExecutionError, match="the job is CANCELED"):
        client.trigger_checkpoint()
    assert client.cancel().result() is None


def test_a_finished_job_has_a_result(tmp_path: Path) -> None:
    env = environment()
    env.from_collection([1, 2]).add_sink(discard)
    client = env.execute_async("short")
    result = client.get_job_execution_result().result()
    assert result.get_job_id() == client.get_job_id()
    assert result.report.status is JobStatus.FINISHED
    assert result.report.restarts == 0
    assert result.get_net_runtime() < WAIT_S * 1_000


def test_a_failed_job_raises_what_failed() -> None:
    env = environment()
    env.from_collection([0]).map(lambda value: 1 // value).add_sink(discard)
    client = env.execute_async()
    assert client.wait(WAIT_S) is JobStatus.FAILED
    with pytest.raises(JobExecutionError, match=r"Map \(1/1\): map\(\) raised ZeroDivisionError"):
        client.result()
    assert "ZeroDivisionError" in (client.report().cause or "")


def test_a_limit_returns_a_list_and_stops_the_job() -> None:
    records = held(environment()).execute_and_collect("limited", limit=10)
    assert records == list(range(10))


def test_a_limit_beyond_the_end_returns_everything() -> None:
    assert environment().from_collection([1, 2, 3]).execute_and_collect(limit=10) == [1, 2, 3]


def test_closing_the_iterator_early_stops_the_job(tmp_path: Path) -> None:
    with held(environment()).execute_and_collect() as records:
        assert records.next() == 0
        assert next(records) == 1
    with pytest.raises(JobCancelledError):
        list(records)


def test_collected_records_of_an_epoch_come_with_its_checkpoint(tmp_path: Path) -> None:
    stream = held(environment(tmp_path), snapshots=3)
    assert sorted(stream.execute_and_collect()) == list(range(COUNT))


def test_a_job_that_cannot_begin_says_why_instead_of_waiting(tmp_path: Path) -> None:
    (tmp_path / "local").mkdir()
    (tmp_path / "local" / "tidegate-jobs").touch()
    with pytest.raises(OSError, match="tidegate-jobs"):
        running(tmp_path).wait(WAIT_S)
