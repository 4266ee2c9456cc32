"""Savepoints of jobs on Ray, asked for through `JobClient` and from the command line."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner
from tidegate.common import Configuration
from tidegate.common.errors import JobExecutionError
from tidegate.common.failpoints import VARIABLE
from tidegate.common.job_status import JobStatus
from tidegate.console.main import commands
from tidegate.state import read_snapshot

from . import jobs

pytestmark = pytest.mark.usefixtures("on_ray")

COUNT = 6_000


def command(*arguments: str) -> str:
    """What `tidegate ARGUMENTS` prints, in this process, which is connected to the cluster."""
    result = CliRunner().invoke(commands, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output.strip()


def counted_in(path: str) -> int:
    """How many records the state in a savepoint has counted."""
    return sum(entry.value for entry in read_snapshot(path).keyed_state("count", "count").entries())


def test_a_stopped_job_goes_on_from_a_moved_savepoint_with_another_parallelism_and_backend(
    tmp_path: Path,
) -> None:
    gate, output = jobs.Gate(tmp_path), tmp_path / "output"
    first = jobs.configuration(tmp_path / "one", parallelism=2)
    stream = jobs.counts(first, COUNT, gate, source_parallelism=1)
    with jobs.running(stream, jobs.FileSink(output)) as client:
        jobs.half_way(client)
        job_id = str(client.get_job_id())
        assert job_id in command("list")
        assert command("checkpoint", "mode", job_id, "at-least-once").startswith(job_id)
        kept = command("savepoint", "trigger", job_id[:8], str(tmp_path / "savepoints"))
        path = command("stop", job_id, "--savepoint-path", str(tmp_path / "savepoints"))
        assert client.wait(jobs.DEADLINE_S) is JobStatus.FINISHED
        # All that was processed is committed, each record once, and nothing else is in the savepoint.
        committed = Counter(jobs.records_in(output))
        assert set(committed.values()) == {1}
        assert len(committed) == counted_in(path)
    assert "deleted savepoint" in command("savepoint", "dispose", kept)
    moved = shutil.move(path, tmp_path / "moved")
    shutil.rmtree(tmp_path / "one")

    second = jobs.configuration(tmp_path / "two", parallelism=1)
    second.set_string("state.backend.type", "filesystem")
    second.set_string("execution.state-recovery.path", str(moved))
    gate.open()
    stream = jobs.counts(second, COUNT, gate, source_parallelism=1)
    with jobs.running(stream, jobs.FileSink(output)) as client:
        assert client.wait(jobs.DEADLINE_S) is JobStatus.FINISHED
    assert Counter(jobs.records_in(output)) == jobs.expected(COUNT)


def test_a_job_without_checkpoints_stops_with_a_savepoint_and_goes_on_from_it(tmp_path: Path) -> None:
    gate, output = jobs.Gate(tmp_path), tmp_path / "output"
    settings = Configuration()
    settings.set_string("execution.checkpointing.savepoint-dir", str(tmp_path / "savepoints"))
    stream = jobs.counts(settings, COUNT, gate, source_parallelism=1)
    with jobs.running(stream, jobs.FileSink(output)) as client:
        jobs.eventually("the job", lambda: client.report().status is JobStatus.RUNNING, client)
        job_id = str(client.get_job_id())
        command("savepoint", "trigger", job_id)
        assert not output.exists()
        path = command("stop", job_id)
        assert client.wait(jobs.DEADLINE_S) is JobStatus.FINISHED
    assert len(jobs.records_in(output)) == counted_in(path)
    settings.set_string("execution.state-recovery.path", path)
    gate.open()
    stream = jobs.counts(settings, COUNT, gate, source_parallelism=1)
    with jobs.running(stream, jobs.FileSink(output)) as client:
        assert client.wait(jobs.DEADLINE_S) is JobStatus.FINISHED
    assert Counter(jobs.records_in(output)) == jobs.expected(COUNT)
    work = tmp_path / "savepoints" / "savepoint-work"
    jobs.eventually("the end of the work", lambda: not jobs.files_below(work))


def test_a_stop_with_drain_survives_the_coordinator_and_ends_the_job_once(tmp_path: Path) -> None:
    gate, output = jobs.Gate(tmp_path), tmp_path / "output"
    settings = jobs.configuration(tmp_path, parallelism=1, interval_ms=50)
    with jobs.running(jobs.counts(settings, COUNT, gate), jobs.FileSink(output)) as client:
        jobs.half_way(client)
        future = client.stop_with_savepoint(True, str(tmp_path / "savepoints"))
        jobs.kill(jobs.coordinator_pid(client))
        try:
            path = future.result(jobs.DEADLINE_S)
        except JobExecutionError:
            # The stop was under way, and its failure is told: nothing is lost, and it can be asked for again.
            path = client.stop_with_savepoint(True, str(tmp_path / "savepoints")).result(jobs.DEADLINE_S)
        assert client.wait(jobs.DEADLINE_S) is JobStatus.FINISHED
    assert (Path(path) / "MANIFEST").is_file()
    records = Counter(jobs.records_in(output))
    assert set(records.values()) == {1}
    assert len(records) == counted_in(path)


@pytest.mark.parametrize(
    ("point", "may_fail"), [("snapshot_async@count:2:kill", True), ("after_manifest:2:kill", False)]
)
def test_a_kill_during_a_stop_ends_in_a_savepoint_or_in_a_job_that_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str, may_fail: bool
) -> None:
    """A task dies with its part of the savepoint, or the coordinator when the stop's checkpoint exists."""
    gate, output = jobs.Gate(tmp_path), tmp_path / "output"
    monkeypatch.setenv(VARIABLE, point)
    settings = jobs.configuration(tmp_path / "one", parallelism=1, interval_ms=jobs.BY_HAND_MS)
    with jobs.running(jobs.counts(settings, COUNT, gate), jobs.FileSink(output)) as client:
        jobs.eventually("a running job", lambda: client.report().status is JobStatus.RUNNING, client)
        client.trigger_checkpoint()
        try:
            path = client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result(jobs.DEADLINE_S)
        except JobExecutionError:
            assert may_fail, "the stop was complete"
            jobs.eventually("a running job", lambda: client.report().status is JobStatus.RUNNING, client)
            path = client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result(jobs.DEADLINE_S)
        assert client.wait(jobs.DEADLINE_S) is JobStatus.FINISHED
        assert [one.fired for one in client.report().fail_points] == [True]
    committed = Counter(jobs.records_in(output))
    assert set(committed.values()) <= {1}
    assert len(committed) == counted_in(path)
    monkeypatch.delenv(VARIABLE)
    gate.open()
    settings = jobs.configuration(tmp_path / "two", parallelism=1)
    settings.set_string("execution.state-recovery.path", path)
    with jobs.running(jobs.counts(settings, COUNT, gate), jobs.FileSink(output)) as client:
        assert client.wait(jobs.DEADLINE_S) is JobStatus.FINISHED
    assert Counter(jobs.records_in(output)) == jobs.expected(COUNT)


def test_the_commands_of_the_guide_work_on_a_cluster(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "savepoints.md").read_text("utf-8")
    (block,) = re.findall(r"```console\n(.*?)```", page.partition("## On a cluster")[2], re.DOTALL)
    settings = jobs.configuration(tmp_path, parallelism=1)
    stream = jobs.counts(settings, COUNT, jobs.Gate(tmp_path))
    with jobs.running(stream, jobs.FileSink(tmp_path / "output")) as client:
        jobs.half_way(client)
        for line in block.splitlines():
            words = line.replace("JOB", str(client.get_job_id())).replace("/savepoints", str(tmp_path / "s"))
            assert command(*words.split()[2:]), line
        assert client.wait(jobs.DEADLINE_S) is JobStatus.FINISHED
