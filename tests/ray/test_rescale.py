"""A retained checkpoint is the start of a job with another parallelism."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from tidegate.common.job_status import JobStatus

from . import jobs

pytestmark = pytest.mark.usefixtures("on_ray")

COUNT = 6_000


def test_state_moves_from_two_subtasks_to_three_and_to_one(tmp_path: Path) -> None:
    output, restore_path = tmp_path / "output", None
    for parallelism, is_last in ((2, False), (3, False), (1, True)):
        settings = jobs.configuration(tmp_path, parallelism)
        settings.set_string(
            "execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION"
        )
        if restore_path is not None:
            settings.set_string("execution.state-recovery.path", restore_path)
        gate = jobs.Gate(tmp_path)
        if is_last:
            gate.open()
        stream = jobs.counts(settings, COUNT, gate, source_parallelism=1)
        with jobs.running(stream, jobs.FileSink(output)) as client:
            if is_last:
                assert client.wait(jobs.DEADLINE_S) is JobStatus.FINISHED
                break
            jobs.half_way(client)
            client.trigger_checkpoint()
            client.cancel().result()
            assert client.wait(jobs.DEADLINE_S) is JobStatus.CANCELED
            restore_path = client.report().newest_checkpoint
    assert Counter(jobs.records_in(output)) == jobs.expected(COUNT)
