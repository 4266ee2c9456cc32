from __future__ import annotations

import pickle

import pytest
from tidegate.common import JobID, JobStatus, WatermarkStrategy
from tidegate.common.errors import ConfigurationError


def test_only_ended_jobs_are_globally_terminal_and_a_suspended_one_is_terminal_here() -> None:
    ended = {JobStatus.FAILED, JobStatus.CANCELED, JobStatus.FINISHED}
    assert {status for status in JobStatus if status.is_globally_terminal_state()} == ended
    assert {status for status in JobStatus if status.is_terminal_state()} == (ended | {JobStatus.SUSPENDED})


def test_a_job_id_is_32_hexadecimal_digits_and_reads_back() -> None:
    job_id = JobID.generate()
    assert len(str(job_id)) == 32
    assert JobID(str(job_id)) == job_id == pickle.loads(pickle.dumps(job_id))
    assert hash(JobID(str(job_id))) == hash(job_id)
    assert JobID.generate() != job_id


@pytest.mark.parametrize("text", ["", "xyz", "A" * 32, "0" * 31, "0" * 33, "0" * 32 + "\n"])
def test_a_malformed_job_id_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="32 hexadecimal digits"):
        JobID(text)


def test_the_strategy_without_watermarks_is_one_value() -> None:
    strategy = WatermarkStrategy.no_watermarks()
    assert strategy == WatermarkStrategy.no_watermarks()
    assert pickle.loads(pickle.dumps(strategy)) == strategy
