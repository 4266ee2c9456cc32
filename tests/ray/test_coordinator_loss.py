"""What a killed coordinator leaves: unread results, a job that is over, a job without checkpoints."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from tidegate.common.errors import JobExecutionError
from tidegate.common.job_status import JobStatus
from tidegate.connectors.collect import CollectSink

from . import jobs

pytestmark = pytest.mark.usefixtures("on_ray")

COUNT = 20_000


def test_collected_results_survive_the_coordinator_each_once(tmp_path: Path) -> None:
    gate = jobs.Gate(tmp_path)
    stream = jobs.counts(jobs.configuration(tmp_path, parallelism=1), COUNT, gate)
    with jobs.running(stream, CollectSink(is_checkpointing=True)) as client:
        # Nobody reads, so what the first checkpoints committed waits in the coordinator and nowhere else.
        jobs.eventually("checkpoints", lambda: jobs.completed(client.report()) > 5)
        jobs.kill(jobs.coordinator_pid(client))
        results = client.collected()
        first = next(results)
        # Now the driver has something that the coordinator does not know to be received.
        jobs.kill(jobs.coordinator_pid(client))
        gate.open()
        assert Counter([first, *results]) == jobs.expected(COUNT)


def test_a_coordinator_killed_after_the_end_does_not_run_the_job_again(tmp_path: Path) -> None:
    output = tmp_path / "output"
    stream = jobs.counts(jobs.configuration(tmp_path, parallelism=1), COUNT)
    with jobs.running(stream, jobs.FileSink(output)) as client:
        assert client.wait(jobs.DEADLINE_S) is JobStatus.FINISHED
        before = client.report()
        jobs.kill(jobs.coordinator_pid(client))
        # The same history of checkpoints, by their times: no second run made one of its own.
        assert client.result().report == before
    assert Counter(jobs.records_in(output)) == jobs.expected(COUNT)
    left = [path for path in (tmp_path / "checkpoints").rglob("*") if path.is_file()]
    assert left == []


def test_without_checkpoints_a_lost_coordinator_is_a_clear_error_and_leaves_nothing(tmp_path: Path) -> None:
    settings = jobs.configuration(tmp_path, parallelism=1, interval_ms=None)
    stream = jobs.counts(settings, COUNT, jobs.Gate(tmp_path))
    stream.sink_to(jobs.FileSink(tmp_path / "output"))
    client = stream.get_execution_environment().execute_async()
    jobs.eventually("a running job", lambda: client.report().status is JobStatus.RUNNING)
    tasks = client.processes()
    jobs.kill(jobs.coordinator_pid(client))
    with pytest.raises(JobExecutionError, match="without checkpoints a lost coordinator is a lost job"):
        client.result()
    jobs.assert_gone(tasks.values())
