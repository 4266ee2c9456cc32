"""Savepoints and stops in the coordinator, also where it is lost on the way; tasks are only names."""

from __future__ import annotations

from tidegate.common.job_status import JobStatus
from tidegate.coordinator.barrier_mode import BarrierMode
from tidegate.coordinator.monitoring.job_view import report_of
from tidegate.protocol import task_events as events
from tidegate.protocol.elements import CheckpointingMode, SavepointFormatType, SnapshotKind
from tidegate.state.storage.checkpoint_storage import open_storage

from .fakes import SUBTASKS, FakeCluster, job_spec

CANONICAL = SavepointFormatType.CANONICAL


def stopping(name: str, kind: SnapshotKind = SnapshotKind.STOP) -> FakeCluster:
    """A job that was asked for a savepoint or a stop, in a directory of this name."""
    cluster = FakeCluster().run()
    cluster.requests.trigger_savepoint(kind, f"memory://{name}", CANONICAL)
    return cluster


def test_a_stop_is_a_savepoint_and_then_a_checkpoint_before_anybody_commits() -> None:
    cluster = stopping("stop-is-both")
    ((_, trigger),) = cluster.mails(events.TriggerCheckpoint)
    assert trigger.barrier.kind is SnapshotKind.STOP
    assert trigger.barrier.savepoint is not None
    path = trigger.barrier.savepoint.directory
    assert path == "memory://stop-is-both/savepoint-job-1"
    cluster.acknowledge()
    assert open_storage(path).list_files("") == ["MANIFEST"]
    assert "chk-1/MANIFEST" in cluster.files()
    assert [to for to, _ in cluster.mails(events.CheckpointCompleted)] == SUBTASKS
    (answer,) = cluster.coordinator.statistics.requests.values()
    assert answer is not None
    assert answer.savepoint_path == path


def test_a_coordinator_lost_after_the_stop_lets_tasks_commit_and_nothing_else() -> None:
    before = stopping("lost-after")
    before.acknowledge()
    after = FakeCluster(storage=before.storage).run()
    assert all(deployment.is_stopped for deployment in after.deployments[0])
    assert report_of(after.coordinator).stopped_with == "memory://lost-after/savepoint-job-1"
    after.pass_ms(10_000)
    assert not after.mails(events.TriggerCheckpoint)
    for subtask in SUBTASKS:
        after.coordinator.handle(events.TaskFinished(after.attempt, subtask))
    assert after.coordinator.status is JobStatus.FINISHED
    assert report_of(after.coordinator).stopped_with == "memory://lost-after/savepoint-job-1", "also then"


def test_who_asks_the_next_coordinator_again_for_the_stop_gets_its_savepoint() -> None:
    before = stopping("asked-again")
    before.acknowledge()
    after = FakeCluster(storage=before.storage).run()
    asked = after.requests.trigger_savepoint(SnapshotKind.STOP, "memory://asked-again", CANONICAL)
    other = after.requests.trigger_savepoint(SnapshotKind.STOP, "memory://elsewhere", CANONICAL)
    assert asked is not None
    assert other is not None
    answer = after.coordinator.statistics.requests[asked]
    assert answer is not None
    assert (answer.checkpoint_id, answer.reason) == (1, None)
    assert answer.savepoint_path == "memory://asked-again/savepoint-job-1"
    assert after.coordinator.statistics.requests[other] is None, "that is refused when the job has ended"


def test_a_coordinator_lost_before_the_stop_was_complete_runs_the_job_on() -> None:
    before = stopping("lost-before")
    after = FakeCluster(storage=before.storage).run()
    assert not any(deployment.is_stopped for deployment in after.deployments[0])
    assert after.coordinator.status is JobStatus.RUNNING


def test_a_savepoint_leaves_no_checkpoint_behind_and_announces_nothing() -> None:
    cluster = stopping("only-a-savepoint", SnapshotKind.SAVEPOINT)
    cluster.acknowledge()
    assert open_storage("memory://only-a-savepoint/savepoint-job-1").list_files("") == ["MANIFEST"]
    assert not [path for path in cluster.files() if path.startswith("chk-")]
    assert not cluster.mails(events.CheckpointCompleted)
    assert cluster.coordinator.status is JobStatus.RUNNING


def test_a_failed_savepoint_leaves_nothing_in_the_directory_of_the_user() -> None:
    cluster = stopping("failed", SnapshotKind.SAVEPOINT)
    storage = open_storage("memory://failed/savepoint-job-1")
    storage.write_file("totals/0-0-total.parquet", b"of a task that was in time")
    cluster.pass_ms(1_000)
    assert storage.list_files("") == []
    assert cluster.coordinator.status is JobStatus.RUNNING


def test_a_change_of_mode_holds_from_the_next_checkpoint_on_and_for_the_next_coordinator() -> None:
    cluster = FakeCluster().run()
    assert cluster.requests.set_barrier_mode(BarrierMode(CheckpointingMode.AT_LEAST_ONCE)) == ""
    cluster.requests.trigger_checkpoint()
    ((_, trigger),) = cluster.mails(events.TriggerCheckpoint)
    assert trigger.barrier.mode is CheckpointingMode.AT_LEAST_ONCE
    after = FakeCluster(storage=cluster.storage).run()
    after.requests.trigger_checkpoint()
    ((_, trigger),) = after.mails(events.TriggerCheckpoint)
    assert trigger.barrier.mode is CheckpointingMode.AT_LEAST_ONCE


def test_a_savepoint_does_not_overtake_records_where_checkpoints_do() -> None:
    cluster = FakeCluster().run()
    unaligned = BarrierMode(CheckpointingMode.EXACTLY_ONCE, aligned_timeout_ms=0)
    assert cluster.requests.set_barrier_mode(unaligned) == ""
    cluster.requests.trigger_savepoint(SnapshotKind.SAVEPOINT, "memory://aligned", CANONICAL)
    ((_, trigger),) = cluster.mails(events.TriggerCheckpoint)
    assert trigger.barrier.aligned_timeout_ms is None
    cluster.acknowledge()
    cluster.requests.trigger_checkpoint()
    (_, (_, trigger)) = cluster.mails(events.TriggerCheckpoint)
    assert trigger.barrier.aligned_timeout_ms == 0


def test_a_savepoint_starts_beside_a_checkpoint_that_is_under_way() -> None:
    cluster = FakeCluster().run()
    cluster.pass_ms(100)
    cluster.requests.trigger_savepoint(SnapshotKind.SAVEPOINT, "memory://beside", CANONICAL)
    triggers = [mail.barrier for _, mail in cluster.mails(events.TriggerCheckpoint)]
    assert [barrier.kind for barrier in triggers] == [SnapshotKind.CHECKPOINT, SnapshotKind.SAVEPOINT]


def test_a_savepoint_waits_for_a_checkpoint_that_may_overtake_records() -> None:
    cluster = FakeCluster(job_spec(aligned_timeout_ms=0)).run()
    cluster.pass_ms(100)
    cluster.requests.trigger_savepoint(SnapshotKind.SAVEPOINT, "memory://waits", CANONICAL)
    assert cluster.triggered().kind is SnapshotKind.CHECKPOINT
    cluster.acknowledge()
    assert cluster.triggered().kind is SnapshotKind.SAVEPOINT
