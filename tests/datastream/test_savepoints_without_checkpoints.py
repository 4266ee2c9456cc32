"""Savepoints of a job that takes no checkpoints by itself: a savepoint directory is enough."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tidegate.common import JobStatus, WatermarkStrategy
from tidegate.common.errors import ConfigurationError, JobCancelledError, JobExecutionError
from tidegate.connectors.collect import CollectSink
from tidegate.coordinator.control.job_client import JobClient
from tidegate.datastream import MapFunction, RuntimeContext

from .jobs import WAIT_S, HeldSource, environment, expected_sums
from .test_savepoints import BACKENDS, COUNT, KEYS, discard, last_of_each_key, resumed, sums


def options(directory: Path, **more: str) -> dict[str, str]:
    """A savepoint directory, and no interval."""
    return {
        "execution.checkpointing.savepoint-dir": str(directory / "savepoints"),
        "tidegate.local-dir": str(directory / "local"),
        **more,
    }


def held(directory: Path, backend: str = "memory", exactly_once: bool = False) -> tuple[JobClient, list[Any]]:
    """A job that has processed half of its input and waits, and what it has emitted."""
    env = environment(None, 2, options(directory)).set_state_backend(BACKENDS[backend])
    sums(env, None).sink_to(CollectSink(is_checkpointing=exactly_once)).uid("sink")
    client = env.execute_async()
    results: list[Any] = []
    while not exactly_once and len(results) < COUNT // 2:
        results += client._handle.take_results(0.1)
    return client, results


def left_in(directory: Path) -> list[str]:
    """Savepoints in a directory; the one for work must be empty."""
    assert list((directory / "savepoint-work").rglob("*")) == []
    return sorted(each.name for each in directory.iterdir() if each.name != "savepoint-work")


@pytest.mark.parametrize("backend", ["memory", "lmdb"])
def test_a_job_goes_on_from_a_savepoint(tmp_path: Path, backend: str) -> None:
    client, before = held(tmp_path, backend)
    first = client.trigger_savepoint().result(WAIT_S)
    path = client.trigger_savepoint(str(tmp_path / "elsewhere")).result(WAIT_S)
    assert (Path(first).parent, Path(path).parent) == (tmp_path / "savepoints", tmp_path / "elsewhere")
    client.cancel()
    with pytest.raises(JobCancelledError):
        client.result()
    assert left_in(tmp_path / "savepoints") == [Path(first).name]
    for savepoint in (first, path):
        results = resumed(tmp_path / Path(savepoint).parent.name / "next", savepoint, backend, 3)
        assert last_of_each_key(results) == expected_sums(COUNT, KEYS)
        assert len(set(before)) + len(results) == COUNT


@pytest.mark.parametrize("drain", [False, True])
def test_a_stop_commits_what_an_exactly_once_sink_holds(tmp_path: Path, drain: bool) -> None:
    client, _ = held(tmp_path, exactly_once=True)
    path = client.stop_with_savepoint(drain).result(WAIT_S)
    committed = list(client.collected())
    assert client.report().status is JobStatus.FINISHED
    assert client.report().stopped_with == path
    assert client.report().newest_checkpoint is None
    assert left_in(tmp_path / "savepoints") == [Path(path).name]
    if not drain:
        # If records came before the stop, the savepoint holds a transaction of a sink that this job lacks.
        unclaimed = {"execution.state-recovery.ignore-unclaimed-state": "true"}
        results = resumed(tmp_path / "next", path, **unclaimed)
        assert last_of_each_key(results) == expected_sums(COUNT, KEYS)
        assert len(set(committed)) + len(results) == COUNT


class FailsOnce(MapFunction):
    """Fails on one number, unless its task was restarted."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._is_first = runtime_context.get_attempt_number() == 0
        assert not runtime_context.is_checkpointing_enabled()

    def map(self, value: int) -> int:
        if self._is_first and value == 50:
            raise ValueError("the first attempt fails")
        return value


@pytest.mark.parametrize("restarts", [False, True])
def test_without_an_interval_a_failure_ends_the_job_unless_a_strategy_is_set(
    tmp_path: Path, restarts: bool
) -> None:
    strategy = {
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "1",
        "restart-strategy.fixed-delay.delay": "1 ms",
    }
    env = environment(None, 1, options(tmp_path, **(strategy if restarts else {})))
    source = env.from_source(HeldSource(COUNT, 0, 1), WatermarkStrategy.no_watermarks(), "Held")
    source.map(FailsOnce()).add_sink(discard)
    if restarts:
        assert env.execute().report.restarts == 1
    else:
        with pytest.raises(JobExecutionError, match="the first attempt fails"):
            env.execute()
    assert left_in(tmp_path / "savepoints") == []


def test_a_job_takes_no_checkpoints_by_itself_and_none_on_request(tmp_path: Path) -> None:
    client, _ = held(tmp_path)
    with pytest.raises(ConfigurationError, match=r"takes no checkpoints.*savepoint-dir"):
        client.trigger_checkpoint()
    client.close()
    assert not client.report().statistics.checkpoints
