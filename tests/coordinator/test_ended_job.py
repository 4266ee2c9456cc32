"""The record of a job's end: what it keeps, and that nothing damaged is unpickled."""

from __future__ import annotations

import os
import pickle
from dataclasses import replace
from typing import Any

import pytest
from tidegate.common.errors import CorruptCheckpointError
from tidegate.common.failpoints import FailPointReport
from tidegate.common.job_status import JobStatus
from tidegate.coordinator.checkpoints.stored_end import StoredEnd
from tidegate.coordinator.ended_job import decode_end, encode_end
from tidegate.coordinator.monitoring.job_report import JobReport
from tidegate.coordinator.spec import JobSpec
from tidegate.protocol.checkpoints.control_file import encode_control_file
from tidegate.protocol.ids import Attempt, JobId, SubtaskId
from tidegate.protocol.task_events import ResultsCollected

from .fakes import FakeCluster, job_spec

JOB = JobId("job")


def ended() -> JobReport:
    cluster = FakeCluster()
    cluster.run()
    cluster.complete_checkpoint()
    statistics = cluster.coordinator.statistics
    statistics.warnings.append("slow")
    statistics.checkpoints[-1] = replace(statistics.checkpoints[-1], duration_ms=1 / 3)
    points = (FailPointReport("recover:1:kill", 1, ("process 7",)),)
    status, parallelism = JobStatus.FAILED, {"totals": 2}
    return JobReport(
        status, "it broke", "trace", 2, statistics, "/c/job/chk-7", "", "flights", "unaligned", parallelism,
        None, "http://h:1/metrics", points,
    )  # fmt: skip


def waiting() -> list[ResultsCollected]:
    return [ResultsCollected(Attempt(1), SubtaskId("task-1", 0), "k", b"\x80\x04", 2)]


class Mine:
    """Unpickling it leaves a directory behind."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (self._path,)


def test_an_end_is_read_as_it_was_stored() -> None:
    report = ended()
    assert decode_end(encode_end(JOB, report, waiting()), "x", JOB) == (report, waiting())


def test_every_flipped_bit_is_an_error_and_nothing_is_unpickled() -> None:
    data = encode_end(JOB, ended(), waiting())
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 1 << position % 8
        with pytest.raises(CorruptCheckpointError, match=r"/c/ended/job .*Check its output before"):
            decode_end(bytes(damaged), "/c/ended/job", JOB)


def test_a_pickle_or_the_end_of_another_job_is_refused_unread(tmp_path: Any) -> None:
    mine = str(tmp_path / "unpickled")
    others = encode_control_file("ended", {"job_id": "other"}, {}, pickle.dumps(Mine(mine)))
    for data in (pickle.dumps(Mine(mine)), others):
        with pytest.raises(CorruptCheckpointError, match="/c/ended/job"):
            decode_end(data, "/c/ended/job", JOB)
    assert not os.path.exists(mine)


def test_a_damaged_record_of_an_end_in_storage_names_the_file(tmp_path: Any) -> None:
    spec: JobSpec = job_spec(checkpoint_dir=str(tmp_path))
    StoredEnd(spec).write(ended(), [], 1)
    (path,) = (tmp_path / "ended").iterdir()
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CorruptCheckpointError, match=str(path)):
        StoredEnd(spec).take_over(2)
