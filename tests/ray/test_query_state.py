"""A driver asks a job on Ray for the state of a key, also while its processes die."""

from __future__ import annotations

from pathlib import Path

import pytest
from tidegate.common.errors import JobExecutionError, StateError
from tidegate.coordinator.control.job_client import JobClient

from . import jobs

pytestmark = pytest.mark.usefixtures("on_ray")

COUNT = 4_000
HALF = COUNT // jobs.KEYS // 2


def ask(client: JobClient, key: int, consistency: str) -> int:
    return client.query_state("count", "count", key, consistency=consistency) or 0


def test_a_key_is_read_live_and_from_the_last_checkpoint(tmp_path: Path) -> None:
    stream = jobs.counts(jobs.configuration(tmp_path), COUNT, jobs.Gate(tmp_path), source_parallelism=1)
    with jobs.running(stream, jobs.FileSink(tmp_path / "output")) as client:
        processes = jobs.half_way(client)
        for key in range(0, jobs.KEYS, 7):
            for consistency in ("live", "checkpoint"):
                jobs.eventually("the first half", lambda: ask(client, key, consistency) == HALF, client)  # noqa: B023
        assert ask(client, jobs.KEYS, "live") == ask(client, jobs.KEYS, "checkpoint") == 0
        for consistency in ("live", "checkpoint"):
            with pytest.raises(StateError, match=r"no operator with uid 'x'; there is: .*count \(count\)"):
                client.query_state("x", "count", 0, consistency=consistency)
            with pytest.raises(StateError, match=r"state 'x'.* there is: 'count'"):
                client.query_state("count", "x", 0, consistency=consistency)
        # The answer waits for the restart, and is that of the restored state.
        jobs.kill(next(pid for name, pid in processes.items() if name.startswith("count")))
        jobs.eventually("a live answer", lambda: ask(client, 0, "live") == HALF, client)
    with pytest.raises(JobExecutionError, match=r"the job is (CANCELED|FINISHED)"):
        ask(client, 0, "live")
