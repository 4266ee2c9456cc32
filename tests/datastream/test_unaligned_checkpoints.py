"""Whole jobs with sinks that stand still: unaligned checkpoints complete, and nothing is lost or doubled."""

from __future__ import annotations

from pathlib import Path

import pytest
from tidegate.common.job_status import JobStatus
from tidegate.coordinator.control.job_client import JobClient
from tidegate.coordinator.monitoring.statistics import CheckpointOutcome, CheckpointStatistics
from tidegate.protocol.checkpoints.abort_reasons import AbortReason

from .jobs import WAIT_S
from .stuck_jobs import expected, new_world, stuck_job


def in_standstill(client: JobClient) -> CheckpointStatistics:
    """The completed checkpoint with most records under way."""
    checkpoints = client.report().statistics.checkpoints
    completed = [one for one in checkpoints if one.outcome is CheckpointOutcome.COMPLETED]
    return max(completed, key=lambda one: one.persisted_bytes)


def test_an_aligned_checkpoint_times_out_behind_a_sink_that_stands_still(tmp_path: Path) -> None:
    world = new_world()
    options = {
        "execution.checkpointing.unaligned.enabled": "false",
        "execution.checkpointing.timeout": "200 ms",
        "restart-strategy.type": "none",
    }
    client = stuck_job(tmp_path, options=options).execute_async()
    assert client.wait(WAIT_S) is JobStatus.FAILED
    assert client.report().statistics.checkpoints[-1].abort_reason is AbortReason.EXPIRED
    assert world.refusals > 0
    assert not world.is_open


@pytest.mark.parametrize("timeout", ["0 ms", "30 ms"])
def test_a_barrier_overtakes_what_waits_for_a_sink_that_stands_still(tmp_path: Path, timeout: str) -> None:
    world = new_world()
    options = {"execution.checkpointing.aligned-checkpoint-timeout": timeout}
    client = stuck_job(tmp_path, options=options).execute_async()
    assert client.wait(WAIT_S) is JobStatus.FINISHED
    assert world.visible() == expected()
    checkpoint = in_standstill(client)
    assert checkpoint.persisted_bytes > 1_000
    by_task = {subtask.task_id for subtask, one in checkpoint.subtasks.items() if one.persisted_bytes}
    assert len(by_task) == 2, "records wait in front of both tasks that have an input"
    assert timeout == "0 ms" or checkpoint.alignment_ms + checkpoint.start_delay_ms >= 29


@pytest.mark.parametrize("timeout", ["0 ms", "30 ms"])
def test_a_job_that_fails_after_an_unaligned_checkpoint_gives_every_result_once(
    tmp_path: Path, timeout: str
) -> None:
    world = new_world(fails=True)
    options = {"execution.checkpointing.aligned-checkpoint-timeout": timeout}
    client = stuck_job(tmp_path, options=options).execute_async()
    assert client.wait(WAIT_S) is JobStatus.FINISHED
    assert client.report().restarts == 1
    assert world.visible() == expected()


@pytest.mark.parametrize(
    ("sources", "parallelism", "sinks", "takes_checkpoints"),
    [
        (2, 2, 3, True),
        (2, 3, 3, True),
        (2, 1, 3, True),
        (1, 2, 3, True),
        (4, 2, 3, True),
        (2, 2, 1, True),
        (2, 2, 5, True),
        (1, 4, 2, True),
        (3, 1, 1, True),
        (1, 4, 2, False),
    ],
)
def test_records_under_way_find_their_place_when_the_parallelism_changes(
    tmp_path: Path, sources: int, parallelism: int, sinks: int, takes_checkpoints: bool
) -> None:
    world = new_world(fails=True)
    retained = {"execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION"}
    client = stuck_job(tmp_path, options={"restart-strategy.type": "none", **retained}).execute_async()
    assert client.wait(WAIT_S) is JobStatus.FAILED
    assert world.visible() != expected()
    assert in_standstill(client).persisted_bytes > 1_000
    newest = client.report().newest_checkpoint
    assert newest is not None
    options = {"execution.state-recovery.path": newest}
    directory = tmp_path if takes_checkpoints else None
    again = stuck_job(directory, parallelism, sources, sinks, options).execute_async()
    assert again.wait(WAIT_S) is JobStatus.FINISHED
    assert world.visible() == expected()
