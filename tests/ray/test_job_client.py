"""What a driver can do with a running job, and what is left when it is done."""

from __future__ import annotations

import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import ray
from tidegate.actors.task_actor import start_task_actor
from tidegate.common.errors import JobCancelledError, JobExecutionError
from tidegate.common.job_status import JobStatus
from tidegate.connectors.collect import CollectSink

from . import jobs

pytestmark = pytest.mark.usefixtures("on_ray")

COUNT = 4_000


def test_a_job_can_be_watched_checkpointed_and_cancelled(tmp_path: Path) -> None:
    settings = jobs.configuration(tmp_path, parallelism=1, interval_ms=jobs.BY_HAND_MS)
    stream = jobs.counts(settings, COUNT, jobs.Gate(tmp_path))
    with jobs.running(stream, jobs.FileSink(tmp_path / "output")) as client:
        # Half of the records are processed and the gate stays shut, so the job cannot end by itself.
        assert client.wait(timeout_s=0.05) in (JobStatus.INITIALIZING, JobStatus.RUNNING)
        jobs.eventually(
            "a running job", lambda: client.get_job_status().result() is JobStatus.RUNNING, client
        )
        first = client.trigger_checkpoint()
        assert client.trigger_checkpoint() > first
        pids = [*client.processes().values(), jobs.coordinator_pid(client)]
        client.cancel().result()
        with pytest.raises(JobCancelledError):
            client.result()
        assert client.get_job_status().result() is JobStatus.CANCELED
        client.cancel().result()
    jobs.assert_gone(pids)


def test_rays_head_keeps_no_event_of_a_call_to_an_actor(tmp_path: Path) -> None:
    stream = jobs.counts(jobs.configuration(tmp_path, parallelism=1), COUNT, jobs.Gate(tmp_path))
    task = start_task_actor({"num_cpus": 0})
    with jobs.running(stream, jobs.FileSink(tmp_path / "output")) as client:
        # A handle passes the option on to every caller.
        for actor in (task, jobs.coordinator(client)):
            assert actor._ray_enable_task_events is False
    ray.kill(task)


def test_two_jobs_run_side_by_side(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    gate = jobs.Gate(tmp_path)
    streams = [jobs.counts(jobs.configuration(path, 1), COUNT, gate) for path in (one, other)]
    with (
        jobs.running(streams[0], jobs.FileSink(tmp_path / "one-out")) as first,
        jobs.running(streams[1], jobs.FileSink(tmp_path / "other-out")) as second,
    ):
        pids = [set(jobs.half_way(client).values()) for client in (first, second)]
        assert not pids[0] & pids[1]
        first.cancel().result()
        assert first.wait(jobs.DEADLINE_S) is JobStatus.CANCELED
        gate.open()
        assert second.wait(jobs.DEADLINE_S) is JobStatus.FINISHED
    assert Counter(jobs.records_in(tmp_path / "other-out")) == jobs.expected(COUNT)


def test_a_job_that_nobody_asks_about_leaves_nothing_behind(tmp_path: Path) -> None:
    settings = jobs.configuration(tmp_path, parallelism=1)
    settings.set_string("tidegate.coordinator.linger", "200 ms")
    gate = jobs.Gate(tmp_path)
    stream = jobs.counts(settings, COUNT, gate)
    stream.sink_to(jobs.FileSink(tmp_path / "output"))
    client = stream.get_execution_environment().execute_async()
    pids = [*jobs.half_way(client).values(), jobs.coordinator_pid(client)]
    gate.open()
    jobs.assert_gone(pids)

    def is_unknown() -> bool:
        try:
            jobs.coordinator(client)
        except ValueError as error:
            return "Failed to look up actor" in str(error)
        return False

    # Ray forgets the name a moment after the process.
    jobs.eventually("the end of its name", is_unknown)
    with pytest.raises(JobExecutionError, match=r"forgotten.*tidegate\.coordinator\.linger"):
        client.report()
    assert Counter(jobs.records_in(tmp_path / "output")) == jobs.expected(COUNT)
    assert jobs.files_below(tmp_path / "checkpoints") == []


def test_whoever_only_looks_at_an_ended_job_does_not_keep_it(tmp_path: Path) -> None:
    settings = jobs.configuration(tmp_path, parallelism=1)
    settings.set_string("tidegate.coordinator.linger", "2 s")
    stream = jobs.counts(settings, COUNT)
    stream.sink_to(jobs.FileSink(tmp_path / "output"))
    client = stream.get_execution_environment().execute_async()

    def is_forgotten() -> bool:
        try:
            client.report()
        except JobExecutionError:
            return True
        return False

    jobs.eventually("the end of the coordinator", is_forgotten)


def test_a_job_too_big_for_the_cluster_fails_at_once_and_says_so(tmp_path: Path, ray_cluster: Any) -> None:
    settings = jobs.configuration(tmp_path, parallelism=2)
    settings.set_string("tidegate.slot.cpus", str(ray_cluster.num_cpus))
    stream = jobs.counts(settings, COUNT)
    with jobs.running(stream, jobs.FileSink(tmp_path / "output")) as client:
        with pytest.raises(JobExecutionError, match=r"asks for 8 CPUs.* has 4 in all.*tidegate\.slot\.cpus"):
            client.result()
        assert client.report().restarts == 0


def test_a_job_whose_place_is_taken_fails_after_the_timeout_and_says_so(
    tmp_path: Path, ray_cluster: Any
) -> None:
    settings = jobs.configuration(tmp_path, parallelism=1)
    settings.set_string("slot.request.timeout", "2 s")
    settings.set_string("tidegate.slot.cpus", "2")
    holder = ray.remote(_Holder).options(num_cpus=ray_cluster.num_cpus).remote()  # type: ignore[attr-defined]
    try:
        ray.get(holder.held.remote())
        with jobs.running(jobs.counts(settings, COUNT), jobs.FileSink(tmp_path / "output")) as client:
            with pytest.raises(JobExecutionError) as failure:
                client.result()
            assert client.report().restarts == 0
    finally:
        ray.kill(holder)
    text = str(failure.value)
    assert "no place" in text
    assert "slot.request.timeout" in text
    assert "asks for 2 CPUs" in text
    assert "only 0 are free" in text


class _Holder:
    """Takes CPUs away from others."""

    def held(self) -> None:
        """Answer once it has them."""


def test_a_wait_for_results_ends_with_the_first_and_with_the_job(tmp_path: Path) -> None:
    gate = jobs.Gate(tmp_path)
    stream = jobs.counts(jobs.configuration(tmp_path, parallelism=1, interval_ms=None), COUNT, gate)
    stream.sink_to(CollectSink(is_checkpointing=False))
    client = stream.get_execution_environment().execute_async()
    try:
        take = jobs.coordinator(client).take_results
        results: list[Any] = []
        while len(results) < COUNT // 2:
            # Were it not woken, this would be the time it takes.
            arrived = ray.get(take.remote([], 3_600.0), timeout=jobs.DEADLINE_S)
            assert arrived
            results += [
                record for _, payload in arrived for batch in pickle.loads(payload) for record in batch.values
            ]
        nothing = take.remote([], 3_600.0)
        assert ray.wait([nothing], timeout=0)[0] == []
        client.cancel()
        assert ray.get(nothing, timeout=jobs.DEADLINE_S) == []
    finally:
        client.close()
    assert len(results) == COUNT // 2
