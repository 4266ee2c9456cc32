"""A job on Ray gets another parallelism while it runs, also when somebody is killed on the way."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tidegate.common.failpoints import VARIABLE
from tidegate.common.job_status import JobStatus
from tidegate.coordinator.control.job_client import JobClient
from tidegate.protocol.scheduling.rescaling import RescaleError

from . import jobs

pytestmark = pytest.mark.usefixtures("on_ray")

COUNT = 6_000


@contextmanager
def half_way(directory: Path, points: str = "", **options: str) -> Iterator[JobClient]:
    """A job that waits half way; behind the `with` it has ended, and its output is exact."""
    gate, output = jobs.Gate(directory), directory / "output"
    settings = jobs.configuration(directory, parallelism=1)
    for key, value in options.items():
        settings.set_string(key, value)
    os.environ[VARIABLE] = points
    try:
        with jobs.running(jobs.counts(settings, COUNT, gate), jobs.FileSink(output)) as client:
            jobs.eventually("a checkpoint", lambda: jobs.completed(client.report()), client)
            yield client
            gate.open()
            assert client.wait(jobs.DEADLINE_S) is JobStatus.FINISHED
    finally:
        del os.environ[VARIABLE]
    assert Counter(jobs.records_in(output)) == jobs.expected(COUNT)


def rescaled(client: JobClient) -> None:
    """Three subtasks for the counts, however often that takes."""

    def is_done() -> bool:
        try:
            client.rescale({"count": 3})
        except RescaleError:
            return False
        return client.report().parallelism["count"] == 3

    jobs.eventually("the rescale", is_done, client)


def test_live_processes_are_kept_and_others_end(tmp_path: Path) -> None:
    with half_way(tmp_path, **{"execution.checkpointing.unaligned.enabled": "true"}) as client:
        before = set(client.processes().values())
        client.rescale({"count": 3})
        more = jobs.processes(client, 4)
        assert before < set(more.values())
        client.rescale({"count": 2, "numbers": 2})
        less = jobs.processes(client, 4)
        assert sorted(less) == [
            "count -> sink (1/2)",
            "count -> sink (2/2)",
            "numbers (1/2)",
            "numbers (2/2)",
        ]
        ended = set(more.values()) - set(less.values())
        assert len(ended) == 1
        jobs.assert_gone(ended)
        report = client.report()
        assert (report.restarts, report.cause) == (0, None)
        with pytest.raises(RescaleError, match=r"asks for 6 CPUs .*but the Ray cluster has 4 in all"):
            client.rescale({"count": 12})


def test_a_coordinator_is_killed_at_each_step_on_the_way(tmp_path: Path) -> None:
    points = ["rescale_stop:1:kill", "rescale_deploy:1:kill", "rescale_done:1:kill"]
    with half_way(tmp_path, ",".join(points)) as client:
        rescaled(client)
        assert {one.text: one.fired for one in client.report().fail_points} == dict.fromkeys(points, 1)


@pytest.mark.parametrize("point", ["snapshot_sync@count:3:kill", "restore@count/2:1:kill"])
def test_a_task_is_killed_on_the_way(tmp_path: Path, point: str) -> None:
    with half_way(tmp_path, point) as client:
        rescaled(client)
