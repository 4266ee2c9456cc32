"""What an ended job leaves for the console: it comes back as it was, and damage is noticed."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest
from tidegate.common import Configuration
from tidegate.common.errors import CorruptArchiveError, JobExecutionError
from tidegate.common.job_status import JobStatus
from tidegate.coordinator.monitoring.bounded_statistics import MAX_SUBTASKS, BoundedStatistics
from tidegate.coordinator.monitoring.job_archive import JobArchive, decode_job, encode_job
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.protocol.ids import CheckpointId
from tidegate.protocol.task_metrics import ExecutionState

from tests.fake_jobs import fake_job, large_job


@pytest.mark.parametrize("status", [JobStatus.FINISHED, JobStatus.FAILED, JobStatus.RESTARTING])
def test_a_job_comes_back_from_its_document(status: JobStatus) -> None:
    job = fake_job(7, status)
    back = decode_job(encode_job(job), "somewhere")
    assert encode_job(back) == encode_job(job)
    assert back.report.statistics.summaries().keys() == job.report.statistics.summaries().keys()
    assert back.subtasks[0].subtask == job.subtasks[0].subtask


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (b"tidegate-job 1", b"tidegate-job 2", "format 2"),
        (b"tidegate-job 1", b"pickle 1", "not the archive"),
        (b'"job 1"', b'"job 2"', "checksum"),
    ],
)
def test_a_damaged_document_is_an_error_that_names_it(old: bytes, new: bytes, why: str) -> None:
    data = encode_job(fake_job())
    assert old in data
    with pytest.raises(CorruptArchiveError, match=f"the/place.*{why}"):
        decode_job(data.replace(old, new), "the/place")


def test_a_document_with_a_right_checksum_and_wrong_contents_is_an_error() -> None:
    body = b'{"job_id": 5}'
    data = f"tidegate-job 1 {hashlib.sha256(body).hexdigest()}\n".encode() + body
    with pytest.raises(CorruptArchiveError, match="does not hold a job"):
        decode_job(data, "the/place")


def test_the_first_story_of_a_job_stays(tmp_path: Path) -> None:
    archive = JobArchive(str(tmp_path))
    assert archive.write(fake_job(1, JobStatus.FINISHED))
    assert not archive.write(fake_job(1, JobStatus.FAILED))
    (job_id,) = archive.job_ids()
    assert archive.read(job_id).report.status is JobStatus.FINISHED


def test_a_document_under_the_id_of_another_job_is_refused(tmp_path: Path) -> None:
    archive = JobArchive(str(tmp_path))
    (tmp_path / f"{2:032x}").write_bytes(encode_job(fake_job(1)))
    with pytest.raises(CorruptArchiveError, match="archive of job"):
        archive.read(f"{2:032x}")


def test_old_checkpoints_of_a_large_job_tell_of_their_slowest_subtasks_only() -> None:
    job = large_job()
    statistics = job.report.statistics
    newest = statistics.checkpoints[-2]
    for number in range(20_000, 20_040):
        statistics.ended(replace(newest, checkpoint_id=CheckpointId(number)))
    before = statistics.summaries()
    bounded = BoundedStatistics().copy(statistics)
    assert sum(len(one.subtasks) for one in bounded.checkpoints) < MAX_SUBTASKS + 50 * 14
    for figure in ("start_delay_ms", "alignment_ms", "sync_ms", "async_ms"):
        assert bounded.summaries()[figure] == before[figure]


def _environment(**settings: str) -> StreamExecutionEnvironment:
    configuration = Configuration.from_dict({"execution.target": "local", **settings})
    return StreamExecutionEnvironment.get_execution_environment(configuration)


def test_a_job_that_finishes_archives_itself_without_its_secrets(tmp_path: Path) -> None:
    env = _environment(
        **{
            "jobmanager.archive.fs.dir": str(tmp_path),
            "pipeline.global-job-parameters": "db.password:hunter2,colour:blue",
        }
    )
    env.from_collection([1, 2, 3]).map(lambda value: value).print()
    finished = env.execute("three numbers")
    job = JobArchive(str(tmp_path)).read(str(finished.get_job_id()))
    assert job.report.status is JobStatus.FINISHED
    assert {one.state for one in job.subtasks} == {ExecutionState.FINISHED}
    assert job.ended_ms is not None
    assert job.started_ms <= job.ended_ms
    assert "colour:blue" in job.configuration["pipeline.global-job-parameters"]
    assert b"hunter2" not in (tmp_path / job.job_id).read_bytes()


def test_a_job_that_fails_archives_its_failures_with_the_subtask(tmp_path: Path) -> None:
    def fail(value: int) -> int:
        raise ValueError("no way to postgresql://user:hunter2@host/db")

    env = _environment(
        **{
            "jobmanager.archive.fs.dir": str(tmp_path),
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": "2",
            "restart-strategy.fixed-delay.delay": "1 ms",
        }
    )
    env.from_collection([1]).map(fail).name("refuse").print()
    with pytest.raises(JobExecutionError):
        env.execute()
    (job_id,) = JobArchive(str(tmp_path)).job_ids()
    job = JobArchive(str(tmp_path)).read(job_id)
    assert job.report.status is JobStatus.FAILED
    assert [one.attempt for one in job.exceptions] == [2, 1, 0]
    assert all("refuse" in one.subtask_name and one.details for one in job.exceptions)
    assert ExecutionState.FAILED in {one.state for one in job.subtasks}
    assert b"hunter2" not in (tmp_path / job_id).read_bytes()


def test_a_job_whose_archive_cannot_be_written_still_finishes(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory")
    env = _environment(**{"jobmanager.archive.fs.dir": str(tmp_path / "file" / "below")})
    env.from_collection([1]).print()
    assert env.execute().report.status is JobStatus.FINISHED
