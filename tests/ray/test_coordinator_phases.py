"""A coordinator may die in any phase of a checkpoint and of a recovery: the results are exact."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from ray.exceptions import ActorUnavailableError
from tidegate.common.failpoints import VARIABLE
from tidegate.common.job_status import JobStatus
from tidegate.coordinator.control.job_client import JobClient

from . import jobs

pytestmark = pytest.mark.usefixtures("on_ray")

COUNT = 20_000


@contextmanager
def half_way(directory: Path, points: str = "", interval_ms: int = 100) -> Iterator[tuple[JobClient, Any]]:
    """A job that waits half way; behind the `with` it has ended, and its output is exact."""
    gate, output = jobs.Gate(directory), directory / "output"
    settings = jobs.configuration(directory, parallelism=1, interval_ms=interval_ms)
    os.environ[VARIABLE] = points
    try:
        stream = jobs.counts(settings, COUNT, gate)
        with jobs.running(stream, jobs.FileSink(output)) as client:
            yield client, jobs.coordinator_pid(client)
            gate.open()
            assert client.wait(jobs.DEADLINE_S) is JobStatus.FINISHED
    finally:
        del os.environ[VARIABLE]
    assert Counter(jobs.records_in(output)) == jobs.expected(COUNT)
    left = jobs.files_below(directory / "checkpoints")
    assert [path for path in left if "shared" in path.parts and path.suffix == ".parquet"] == []


def back(client: JobClient, before: int) -> None:
    """Wait for the coordinator that follows the one with a process id, and for its running job."""

    def is_another() -> bool:
        try:
            return jobs.coordinator_pid(client) != before
        except ActorUnavailableError:
            return False

    jobs.eventually("another coordinator", is_another, client)
    jobs.eventually("a running job", lambda: client.report().status is JobStatus.RUNNING, client)


# Between the manifest and the notification: tests/ray/test_fail_points.py.
@pytest.mark.parametrize("point", ["before_manifest:3:kill", "cleanup:1:kill"])
def test_at_a_point_of_a_checkpoint(tmp_path: Path, point: str) -> None:
    with half_way(tmp_path, point) as (client, first):
        jobs.eventually("the point", lambda: all(one.fired for one in client.report().fail_points), client)
        back(client, first)


def test_before_the_next_trigger(tmp_path: Path) -> None:
    with half_way(tmp_path, interval_ms=jobs.BY_HAND_MS) as (client, first):
        jobs.eventually("a running job", lambda: client.report().status is JobStatus.RUNNING, client)
        client.trigger_checkpoint()
        tasks = jobs.half_way(client)
        assert not client.report().statistics.in_progress
        jobs.kill(first)
        # Whoever asks waits for the next coordinator.
        jobs.eventually("the checkpoint", lambda: client.report().newest_checkpoint, client)
        back(client, first)
    jobs.assert_gone(tasks.values())


def test_between_two_acknowledgements(tmp_path: Path) -> None:
    with half_way(tmp_path, "acknowledge@count:3:sleep=20") as (client, first):

        def some_acknowledged() -> bool:
            pending = client.report().statistics.in_progress.values()
            return any(one.subtasks for one in pending if one.checkpoint_id >= 3)

        jobs.eventually("an acknowledgement", some_acknowledged, client)
        jobs.kill(first)
        back(client, first)


def test_while_a_task_is_being_replaced(tmp_path: Path) -> None:
    with half_way(tmp_path, "restore@count:1:sleep=1") as (client, first):
        jobs.kill(jobs.pid_of(jobs.half_way(client), "count"))
        jobs.eventually("the restart", lambda: jobs.fails(client), client)
        jobs.kill(first)
        back(client, first)


def test_again_while_it_recovers(tmp_path: Path) -> None:
    with half_way(tmp_path, "after_manifest:2:kill,recover:1:kill") as (client, first):
        jobs.eventually("both points", lambda: all(one.fired for one in client.report().fail_points), client)
        back(client, first)
        fired = client.report().fail_points
    assert len({process for point in fired for process in point.where}) == 2
