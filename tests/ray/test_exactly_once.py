"""Results on Ray are exact, whatever process is killed meanwhile."""

from __future__ import annotations

import contextlib
import os
import signal
from collections import Counter
from pathlib import Path

import pytest
from tidegate.common.job_status import JobStatus

from . import jobs

pytestmark = pytest.mark.usefixtures("on_ray")

COUNT = 20_000


def test_collected_results_of_a_keyed_job_are_exact(tmp_path: Path) -> None:
    with jobs.counts(jobs.configuration(tmp_path), COUNT).execute_and_collect() as results:
        assert Counter(results) == jobs.expected(COUNT)


def test_a_killed_keyed_task_is_replaced_and_the_others_stay(tmp_path: Path) -> None:
    gate, output = jobs.Gate(tmp_path), tmp_path / "output"
    stream = jobs.counts(jobs.configuration(tmp_path), COUNT, gate, source_parallelism=1)
    with jobs.running(stream, jobs.FileSink(output)) as client:
        before = jobs.half_way(client)
        jobs.kill(before["count -> sink (1/2)"])
        jobs.eventually("a restart", lambda: client.report().statistics.recoveries, client)
        after = jobs.processes(client, len(before))
        gate.open()
        assert client.wait(jobs.DEADLINE_S) is JobStatus.FINISHED
        assert client.report().restarts == 1
    assert {name for name in before if before[name] != after[name]} == {"count -> sink (1/2)"}
    assert Counter(jobs.records_in(output)) == jobs.expected(COUNT)
    jobs.assert_gone(after.values())


def test_a_redundant_process_takes_the_place_of_a_killed_one(tmp_path: Path) -> None:
    gate, output = jobs.Gate(tmp_path), tmp_path / "output"
    settings = jobs.configuration(tmp_path, parallelism=1)
    settings.set_string("slotmanager.redundant-taskmanager-num", "1")
    with jobs.running(jobs.counts(settings, COUNT, gate), jobs.FileSink(output)) as client:
        before = jobs.half_way(client)
        waiting = jobs.eventually(
            "a process that waits", lambda: client.processes().get("redundant 1"), client
        )
        (taken,) = (name for name in before if name.startswith("count"))
        jobs.kill(before[taken])
        jobs.eventually("a restart", lambda: client.report().statistics.recoveries, client)
        jobs.eventually("the place", lambda: client.processes().get(taken) == waiting, client)
        other = jobs.eventually("another one", lambda: client.processes().get("redundant 1"), client)
        gate.open()
        assert client.wait(jobs.DEADLINE_S) is JobStatus.FINISHED
    assert Counter(jobs.records_in(output)) == jobs.expected(COUNT)
    jobs.assert_gone([waiting, other])


def test_the_killed_process_of_a_slot_takes_all_its_subtasks_with_it(tmp_path: Path) -> None:
    gate, output = jobs.Gate(tmp_path), tmp_path / "output"
    settings = jobs.configuration(tmp_path)
    settings.set_string("tidegate.slot.share-process", "true")
    with jobs.running(jobs.counts(settings, COUNT, gate).rebalance(), jobs.FileSink(output)) as client:
        jobs.half_way(client)
        slots = [f"numbers ({each}/2), count ({each}/2), sink ({each}/2)" for each in (1, 2)]
        before = jobs.processes(client, 2)
        assert sorted(before) == slots
        jobs.kill(before[slots[0]])
        jobs.eventually("a restart", lambda: client.report().statistics.recoveries, client)
        assert f"the process of {slots[0]} died" in (client.report().cause or "")
        after = jobs.processes(client, 2)
        gate.open()
        assert client.wait(jobs.DEADLINE_S) is JobStatus.FINISHED
        assert client.report().restarts == 1
    assert {name for name in before if before[name] != after[name]} == {slots[0]}
    assert Counter(jobs.records_in(output)) == jobs.expected(COUNT)
    jobs.assert_gone(after.values())


def test_a_source_may_be_killed_and_a_task_while_the_job_recovers_and_again_later(tmp_path: Path) -> None:
    gate, output = jobs.Gate(tmp_path), tmp_path / "output"
    stream = jobs.counts(jobs.configuration(tmp_path), COUNT, gate)
    with jobs.running(stream, jobs.FileSink(output)) as client:
        before = jobs.half_way(client)
        jobs.kill(before["numbers (1/2)"])
        jobs.eventually("the failure", lambda: jobs.fails(client), client)
        jobs.kill(before["count -> sink (2/2)"])

        def is_replaced() -> bool:
            processes = client.processes()
            return len(processes) == len(before) and not (
                processes["numbers (1/2)"] == before["numbers (1/2)"]
                or processes["count -> sink (2/2)"] == before["count -> sink (2/2)"]
            )

        jobs.eventually("both in new processes", is_replaced, client)
        jobs.eventually("a restart", lambda: client.report().status is JobStatus.RUNNING, client)
        recoveries = len(client.report().statistics.recoveries)
        jobs.kill(jobs.processes(client, len(before))["count -> sink (2/2)"])
        jobs.eventually(
            "another restart", lambda: len(client.report().statistics.recoveries) > recoveries, client
        )
        gate.open()
        assert client.wait(jobs.DEADLINE_S) is JobStatus.FINISHED
        assert client.report().restarts >= 2
    assert Counter(jobs.records_in(output)) == jobs.expected(COUNT)


def test_a_stopped_process_is_replaced_and_its_results_are_refused(tmp_path: Path) -> None:
    gate, output = jobs.Gate(tmp_path), tmp_path / "output"
    settings = jobs.configuration(tmp_path)
    settings.set_string("heartbeat.timeout", "5 s")
    stream = jobs.counts(settings, COUNT, gate, source_parallelism=1)
    with jobs.running(stream, jobs.FileSink(output)) as client:
        before = jobs.half_way(client)
        zombie = before["count -> sink (1/2)"]
        os.kill(zombie, signal.SIGSTOP)
        jobs.eventually("a restart", lambda: client.report().statistics.recoveries, client)
        assert "heartbeat.timeout" in (client.report().cause or "")
        # Ray may have removed it already.
        with contextlib.suppress(ProcessLookupError):
            os.kill(zombie, signal.SIGCONT)
        gate.open()
        assert client.wait(jobs.DEADLINE_S) is JobStatus.FINISHED
    assert Counter(jobs.records_in(output)) == jobs.expected(COUNT)
    jobs.assert_gone([zombie])
