"""Behind a sink that stands still an unaligned checkpoint completes on Ray, and is worth a restart."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tidegate.common.job_status import JobStatus
from tidegate.coordinator.control.job_client import JobClient
from tidegate.coordinator.monitoring.statistics import CheckpointOutcome
from tidegate.operators.sinks import SinkWriter
from tidegate.protocol.checkpoints.abort_reasons import AbortReason

from . import jobs

pytestmark = pytest.mark.usefixtures("on_ray")

COUNT = 20_000


class GatedFileSink(jobs.FileSink):
    """Takes one batch per subtask, then nothing until the gate is open."""

    def __init__(self, path: Path, gate: jobs.Gate) -> None:
        super().__init__(path)
        self._gate = gate

    def create_writer(self) -> SinkWriter:
        return _GatedWriter(self._gate)


class _GatedWriter(jobs._EpochWriter):
    def __init__(self, gate: jobs.Gate) -> None:
        self._gate = gate
        self._batches = 0

    def is_ready(self) -> bool:
        return self._batches == 0 or self._gate.is_open

    def write_batch(self, values: list[Any]) -> None:
        self._batches += 1
        super().write_batch(values)


def settings_with(tmp_path: Path, options: dict[str, str], parallelism: int = 2) -> Any:
    settings = jobs.configuration(tmp_path, parallelism)
    settings.set_string("tidegate.channel.credit", "8kb")
    settings.set_string("tidegate.batch.size", "200")
    for key, value in options.items():
        settings.set_string(key, value)
    return settings


def in_standstill(client: JobClient) -> bool:
    """Whether a checkpoint is complete whose barrier overtook records in front of every task."""
    completed = [
        one
        for one in client.report().statistics.checkpoints
        if one.outcome is CheckpointOutcome.COMPLETED and one.persisted_bytes > 20_000
    ]
    return any(
        len({subtask.task_id for subtask, metrics in one.subtasks.items() if metrics.persisted_bytes}) == 2
        for one in completed
    )


def test_a_task_killed_after_an_unaligned_checkpoint_gives_every_result_once(tmp_path: Path) -> None:
    gate, output = jobs.Gate(tmp_path), tmp_path / "output"
    options = {
        "execution.checkpointing.unaligned.enabled": "true",
        "execution.checkpointing.aligned-checkpoint-timeout": "200 ms",
    }
    stream = jobs.counts(settings_with(tmp_path, options), COUNT).rebalance()
    with jobs.running(stream, GatedFileSink(output, gate)) as client:
        jobs.eventually("a checkpoint in the standstill", lambda: in_standstill(client), client)
        jobs.kill(jobs.pid_of(client.processes(), "count (1/2)"))
        jobs.eventually("a restart", lambda: client.report().statistics.recoveries, client)
        gate.open()
        assert client.wait(jobs.DEADLINE_S) is JobStatus.FINISHED
        assert client.report().restarts == 1
    assert Counter(jobs.records_in(output)) == jobs.expected(COUNT)


def test_an_aligned_checkpoint_exceeds_its_timeout_behind_the_same_sink(tmp_path: Path) -> None:
    gate, output = jobs.Gate(tmp_path), tmp_path / "output"
    options = {"execution.checkpointing.timeout": "1 s"}
    stream = jobs.counts(settings_with(tmp_path, options, parallelism=1), COUNT).rebalance()
    with jobs.running(stream, GatedFileSink(output, gate)) as client:
        jobs.eventually(
            "a timeout",
            lambda: any(
                one.abort_reason is AbortReason.EXPIRED for one in client.report().statistics.checkpoints
            ),
            client,
        )
        gate.open()
        assert client.wait(jobs.DEADLINE_S) is JobStatus.FINISHED
    assert Counter(jobs.records_in(output)) == jobs.expected(COUNT)
