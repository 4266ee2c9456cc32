"""The coordinator may be killed: Ray restarts it, and it goes on from the newest checkpoint."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from tidegate.common.job_status import JobStatus
from tidegate.connectors.collect import CollectSink

from . import jobs

pytestmark = pytest.mark.usefixtures("on_ray")

COUNT = 20_000


def test_a_killed_coordinator_resumes_its_job_and_clients_wait_for_it(tmp_path: Path) -> None:
    gate, output = jobs.Gate(tmp_path), tmp_path / "output"
    stream = jobs.counts(jobs.configuration(tmp_path), COUNT, gate)
    with jobs.running(stream, jobs.FileSink(output)) as client:
        tasks = jobs.half_way(client)
        jobs.kill(jobs.coordinator_pid(client))
        newest = jobs.eventually("a checkpoint", lambda: client.report().newest_checkpoint)
        assert newest is not None
        gate.open()
        result = client.result()
        assert result.report.status is JobStatus.FINISHED
    assert Counter(jobs.records_in(output)) == jobs.expected(COUNT)
    jobs.assert_gone(tasks.values())


def test_collected_results_survive_the_coordinator_each_once(tmp_path: Path) -> None:
    gate = jobs.Gate(tmp_path)
    stream = jobs.counts(jobs.configuration(tmp_path, parallelism=1), COUNT, gate)
    with jobs.running(stream, CollectSink(is_checkpointing=True)) as client:
        results = client.collected()
        first = next(results)
        # Nobody reads now, so the results of several checkpoints wait in the coordinator.
        jobs.eventually("more checkpoints", lambda: jobs.completed(client.report()) > 5)
        jobs.kill(jobs.coordinator_pid(client))
        gate.open()
        assert Counter([first, *results]) == jobs.expected(COUNT)


def test_a_coordinator_killed_after_the_end_does_not_run_the_job_again(tmp_path: Path) -> None:
    output = tmp_path / "output"
    stream = jobs.counts(jobs.configuration(tmp_path), COUNT)
    with jobs.running(stream, jobs.FileSink(output)) as client:
        assert client.wait(jobs.DEADLINE_S) is JobStatus.FINISHED
        jobs.kill(jobs.coordinator_pid(client))
        result = client.result()
        assert result.report.status is JobStatus.FINISHED
        assert result.report.statistics.checkpoints, "the report must be the one from before"
    assert Counter(jobs.records_in(output)) == jobs.expected(COUNT)
    left = [path for path in (tmp_path / "checkpoints").rglob("*") if path.is_file()]
    assert left == []
