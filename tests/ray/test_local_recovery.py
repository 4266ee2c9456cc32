"""A killed task that is placed on its machine again is restored from that machine's disk."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from tidegate.common.job_status import JobStatus

from . import jobs

pytestmark = pytest.mark.usefixtures("on_ray")

COUNT = 20_000


@pytest.mark.parametrize("victim", ["task", "coordinator"])
def test_after_kill_9_state_comes_from_local_copies_and_none_is_left(tmp_path: Path, victim: str) -> None:
    gate, output = jobs.Gate(tmp_path), tmp_path / "output"
    settings = jobs.configuration(tmp_path, parallelism=1)
    settings.set_string("state.backend.local-recovery", "true")
    settings.set_string("execution.checkpointing.data-inline-threshold", "0")
    with jobs.running(jobs.counts(settings, COUNT, gate), jobs.FileSink(output)) as client:
        before = jobs.half_way(client)
        # Without storage nothing but the copies can bring the state back.
        for path in jobs.files_below(tmp_path / "checkpoints"):
            if "shared" in path.parts:
                path.unlink(missing_ok=True)
        jobs.kill(jobs.pid_of(before, "count") if victim == "task" else jobs.coordinator_pid(client))
        known = set(before.values())
        jobs.eventually("another process", lambda: set(client.processes().values()) - known, client)
        gate.open()
        assert client.wait(jobs.DEADLINE_S) is JobStatus.FINISHED
    assert Counter(jobs.records_in(output)) == jobs.expected(COUNT)
    assert list((tmp_path / "local").iterdir()) == []
