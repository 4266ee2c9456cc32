"""The history of checkpoints outlives its coordinator, within bounds."""

from __future__ import annotations

import json
from dataclasses import replace

from tidegate.coordinator.monitoring.statistics import (
    CheckpointOutcome,
    CheckpointStatistics,
    JobStatistics,
    TaskShape,
)
from tidegate.coordinator.monitoring.stored_statistics import (
    STORED_CHECKPOINTS,
    STORED_SUBTASKS,
    read_statistics,
    stored_statistics,
)
from tidegate.protocol.checkpoints.abort_reasons import AbortReason
from tidegate.protocol.checkpoints.checkpoint import AcknowledgeResult, SubtaskAcknowledged, SubtaskMetrics
from tidegate.protocol.ids import CheckpointId, SubtaskId

from .fakes import SOURCE, SUBTASKS, FakeCluster, job_spec


def restarted(cluster: FakeCluster) -> JobStatistics:
    """What a coordinator knows that takes over from that of `cluster`."""
    return FakeCluster(job_spec(), cluster.storage).start().coordinator.statistics


def test_a_new_coordinator_knows_the_checkpoints_of_the_old_one() -> None:
    cluster = FakeCluster().run()
    cluster.complete_checkpoint()
    cluster.pass_ms(100)
    cluster.coordinator.handle(
        SubtaskAcknowledged(
            cluster.attempt, SOURCE, CheckpointId(99), cluster.stored(SOURCE, CheckpointId(99))
        )
    )
    cluster.pass_ms(1_000)
    cluster.fail()
    cluster.stop_tasks()
    cluster.pass_ms(50)
    cluster.initialized()
    cluster.complete_checkpoint()
    old, new = cluster.coordinator.statistics, restarted(cluster)
    assert list(new.checkpoints) == list(old.checkpoints)
    assert [entry.outcome.value for entry in new.checkpoints] == ["completed", "aborted", "completed"]
    assert new.checkpoints[1].abort_reason is AbortReason.EXPIRED
    assert set(new.checkpoints[2].subtasks) == set(SUBTASKS)
    assert new.counts == old.counts
    assert new.acknowledgements == old.acknowledgements
    assert new.acknowledgements[AcknowledgeResult.UNKNOWN] == 1
    assert new.latest_completed == old.latest_completed
    assert new.latest_aborted == old.latest_aborted
    assert new.restored_count == old.restored_count + 1


def test_counts_go_on_under_the_new_coordinator() -> None:
    cluster = FakeCluster().run()
    cluster.complete_checkpoint()
    second = FakeCluster(job_spec(), cluster.storage).run()
    second.complete_checkpoint()
    statistics = second.coordinator.statistics
    assert statistics.counts[CheckpointOutcome.COMPLETED] == 2
    assert statistics.acknowledgements[AcknowledgeResult.SUCCESS] == 2 * len(SUBTASKS)
    assert len({entry.checkpoint_id for entry in statistics.checkpoints}) == 2


METRICS = SubtaskMetrics(1.5, 2.5, 3.5, 4.5, 5, 6, 7)


def entry(checkpoint_id: int, subtasks: int) -> CheckpointStatistics:
    return CheckpointStatistics(
        CheckpointId(checkpoint_id),
        CheckpointOutcome.COMPLETED,
        1_000,
        12.5,
        subtasks={
            SubtaskId("task-1", index): replace(
                METRICS, taken_ms=1.25, last_channel=2, acknowledged_ms=9.5, upstream=SubtaskId("task-0", 3)
            )
            for index in range(subtasks)
        },
        subtask_count=subtasks,
        notified_ms=1.5,
        shape={"task-1": TaskShape("sum", checkpoint_id)},
    )


def test_a_manifest_carries_a_bounded_part_of_the_history() -> None:
    statistics = JobStatistics()
    for number in range(1, 100):
        statistics.ended(entry(number, 150))
    stored = stored_statistics(statistics, entry(100, 2 * STORED_SUBTASKS))
    assert read_statistics(json.loads(json.dumps(stored))).counts[CheckpointOutcome.COMPLETED] == 100
    kept = list(read_statistics(stored).checkpoints)
    assert [one.checkpoint_id for one in kept] == list(range(101 - STORED_CHECKPOINTS, 101))
    assert kept[-1] == entry(100, 2 * STORED_SUBTASKS), "the newest one has all its subtasks"
    assert kept[-2] == replace(entry(99, 150), subtasks={})
    few = read_statistics(stored_statistics(statistics, entry(100, 1)))
    with_subtasks = [one for one in few.checkpoints if one.subtasks]
    assert sum(len(one.subtasks) for one in with_subtasks) <= STORED_SUBTASKS
    assert len(with_subtasks) == 1 + (STORED_SUBTASKS - 1) // 150


def test_history_in_manifests_of_earlier_versions_is_still_read() -> None:
    stored = stored_statistics(JobStatistics(), entry(1, 2))
    (checkpoint,) = stored["checkpoints"]
    checkpoint["subtasks"] = [["task-1", 0, 1.5, 2.5, 3.5, 4.5, 5, 6, 7]]
    for name in ("notified_ms", "clean_up_ms", "shape"):
        del checkpoint[name]
    del stored["shapes"]
    (read,) = read_statistics(stored).checkpoints
    assert read.subtasks == {SubtaskId("task-1", 0): METRICS}
    assert (read.shape, read.subtask_name(SubtaskId("task-1", 0))) == ({}, "task-1#0")
