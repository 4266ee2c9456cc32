"""A killed coordinator: its job goes on, also without its driver, and what it leaves if it cannot."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import ray
from tidegate.actors.deployment import known_jobs
from tidegate.common.errors import ConfigurationError, JobExecutionError
from tidegate.common.job_id import JobID
from tidegate.common.job_status import JobStatus
from tidegate.connectors.collect import CollectSink
from tidegate.coordinator.control.job_client import JobClient

from . import jobs

pytestmark = pytest.mark.usefixtures("on_ray")

COUNT = 20_000


# More than Ray passes on inline: as an argument it would be gone with this program.
DRIVER = """
import sys
from pathlib import Path

import cloudpickle
import jobs

cloudpickle.register_pickle_by_value(jobs)
directory, count = Path(sys.argv[1]), int(sys.argv[2])
large = bytes(1_000_000)
stream = jobs.counts(jobs.configuration(directory, parallelism=1), count, jobs.Gate(directory))
stream = stream.filter(lambda pair: len(large) > 0).name("large").uid("large")
stream.sink_to(jobs.FileSink(directory / "output")).name("sink").uid("sink")
print(stream.get_execution_environment().execute_async().get_job_id())
"""


def test_a_killed_coordinator_resumes_its_job_without_its_driver_and_clients_wait_for_it(
    tmp_path: Path,
) -> None:
    variables = {
        "RAY_ADDRESS": ray.get_runtime_context().gcs_address,
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]),
    }
    driver = subprocess.run(
        [sys.executable, "-c", DRIVER, str(tmp_path), str(COUNT)],
        env=os.environ | variables,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    job_id = driver.stdout.strip()
    client = JobClient(JobID(job_id), known_jobs(None)[job_id])
    tasks = jobs.half_way(client)
    jobs.kill(jobs.coordinator_pid(client))
    newest = jobs.eventually("a checkpoint", lambda: client.report().newest_checkpoint, client)
    assert newest is not None
    jobs.Gate(tmp_path).open()
    result = client.result()
    assert result.report.status is JobStatus.FINISHED
    assert Counter(jobs.records_in(tmp_path / "output")) == jobs.expected(COUNT)
    jobs.assert_gone(tasks.values())


def test_collected_results_survive_the_coordinator_each_once(tmp_path: Path) -> None:
    gate = jobs.Gate(tmp_path)
    stream = jobs.counts(jobs.configuration(tmp_path, parallelism=1), COUNT, gate)
    with jobs.running(stream, CollectSink(is_checkpointing=True)) as client:
        # Nobody reads, so what the first checkpoints committed waits in the coordinator and nowhere else.
        jobs.eventually("checkpoints", lambda: jobs.completed(client.report()) > 5, client)
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
    assert jobs.files_below(tmp_path / "checkpoints") == []


def test_without_checkpoints_none_can_be_asked_for_and_a_lost_coordinator_is_a_clear_error_and_leaves_nothing(
    tmp_path: Path,
) -> None:
    settings = jobs.configuration(tmp_path, parallelism=1, interval_ms=None)
    stream = jobs.counts(settings, COUNT, jobs.Gate(tmp_path))
    stream.sink_to(jobs.FileSink(tmp_path / "output"))
    client = stream.get_execution_environment().execute_async()
    jobs.eventually("a running job", lambda: client.report().status is JobStatus.RUNNING, client)
    tasks = client.processes()
    with pytest.raises(ConfigurationError, match=r"execution\.checkpointing\.interval"):
        client.trigger_checkpoint()
    jobs.kill(jobs.coordinator_pid(client))
    with pytest.raises(JobExecutionError, match="without checkpoints a lost coordinator is a lost job"):
        client.result()
    jobs.assert_gone(tasks.values())
