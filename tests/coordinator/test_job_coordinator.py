"""The coordinator of a job, with tasks that are only names: every step from start to end."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from tidegate.common.errors import CheckpointStorageError, ConfigurationError
from tidegate.common.job_status import JobStatus
from tidegate.common.restart_strategy import RestartStrategies
from tidegate.coordinator.monitoring.statistics import CheckpointOutcome
from tidegate.coordinator.restore.latest_checkpoint import secure_restored
from tidegate.protocol import task_events as events
from tidegate.protocol.checkpoints.abort_reasons import AbortReason
from tidegate.protocol.checkpoints.checkpoint import (
    Acknowledgement,
    SubtaskAcknowledged,
    SubtaskDeclined,
    SubtaskInputEnded,
)
from tidegate.protocol.checkpoints.handles import OperatorSnapshot
from tidegate.protocol.checkpoints.trigger import TriggerPolicy
from tidegate.protocol.elements import SnapshotKind
from tidegate.protocol.ids import CheckpointId

from .fakes import SOURCE, SUBTASKS, TOTALS, FakeCluster, UnreliableStorage, job_spec, position_handle

# ---------------------------------------------------------------- start


def test_a_job_runs_when_every_subtask_is_initialised() -> None:
    cluster = FakeCluster().start()
    assert cluster.coordinator.status is JobStatus.INITIALIZING
    (deployed,) = cluster.deployments
    assert [deployment.subtask_id for deployment in deployed] == SUBTASKS
    assert all(deployment.restored is None for deployment in deployed)
    for subtask in SUBTASKS[:2]:
        cluster.coordinator.handle(events.TaskInitialized(cluster.attempt, subtask))
    assert cluster.sent == []
    cluster.coordinator.handle(events.TaskInitialized(cluster.attempt, SUBTASKS[2]))
    assert cluster.coordinator.status is JobStatus.RUNNING
    assert [to for to, _ in cluster.mails(events.StartRunning)] == SUBTASKS


def test_reports_of_another_attempt_are_not_heard() -> None:
    cluster = FakeCluster().start()
    for subtask in SUBTASKS:
        cluster.coordinator.handle(events.TaskInitialized(cluster.attempt - 1, subtask))  # type: ignore[arg-type]
        cluster.coordinator.handle(events.TaskFailed(cluster.attempt + 1, subtask, "zombie"))  # type: ignore[arg-type]
    assert cluster.coordinator.status is JobStatus.INITIALIZING


def test_checkpoints_need_a_place() -> None:
    with pytest.raises(ConfigurationError, match=r"set execution.checkpointing.dir"):
        job_spec(checkpoint_dir=None)


# ---------------------------------------------------------------- checkpoints


def test_a_checkpoint_is_triggered_collected_stored_and_announced() -> None:
    cluster = FakeCluster().run()
    cluster.pass_ms(99)
    assert not cluster.mails(events.TriggerCheckpoint)
    cluster.pass_ms(1)
    ((to, trigger),) = cluster.mails(events.TriggerCheckpoint)
    assert (to, trigger.barrier.checkpoint_id) == (SOURCE, 1)
    assert "chk-1/MANIFEST" not in cluster.files()
    cluster.acknowledge()
    assert "chk-1/MANIFEST" in cluster.files()
    assert cluster.mails(events.CheckpointCompleted) == [
        (subtask, events.CheckpointCompleted(CheckpointId(1))) for subtask in SUBTASKS
    ]
    (entry,) = cluster.coordinator.statistics.checkpoints
    assert entry.outcome is CheckpointOutcome.COMPLETED
    assert entry.size_bytes == entry.new_bytes == 2 * len(b"segment") + len(b"1")


def test_only_the_newest_checkpoint_is_kept() -> None:
    cluster = FakeCluster().run()
    for _ in range(3):
        cluster.complete_checkpoint()
    assert [path for path in cluster.files() if path.startswith(("chk", "shared"))] == [
        "chk-3/MANIFEST",
        "shared/op-totals/0-3",
        "shared/op-totals/1-3",
    ]


def test_the_first_checkpoint_is_delayed_at_random_unless_told_otherwise() -> None:
    spec = job_spec(random_initial_delay=True, trigger=TriggerPolicy(interval_ms=100, min_pause_ms=30))
    cluster = FakeCluster(spec).run()
    assert cluster.coordinator.next_due_ms() == cluster.time_ms + 30 + 70


def test_a_declined_checkpoint_fails_the_job_by_default() -> None:
    cluster = FakeCluster().run()
    cluster.pass_ms(100)
    decline = SubtaskDeclined(cluster.attempt, TOTALS[0], CheckpointId(1), "disk full")
    cluster.coordinator.handle(decline)
    assert cluster.coordinator.status is JobStatus.RESTARTING
    assert cluster.coordinator.failure is not None
    assert "task-2#0: disk full" in cluster.coordinator.failure.cause
    (entry,) = cluster.coordinator.statistics.checkpoints
    assert entry.outcome is CheckpointOutcome.ABORTED
    assert "a task declined it" in entry.reason


def test_a_tolerated_failure_is_announced_and_the_job_goes_on() -> None:
    spec = job_spec(trigger=TriggerPolicy(interval_ms=100, timeout_ms=50, tolerable_failures=1))
    cluster = FakeCluster(spec).run()
    cluster.pass_ms(100)
    cluster.pass_ms(50)
    assert cluster.coordinator.status is JobStatus.RUNNING
    aborted = events.CheckpointAborted(CheckpointId(1))
    assert cluster.mails(events.CheckpointAborted) == [(subtask, aborted) for subtask in SUBTASKS]
    assert cluster.complete_checkpoint() == 2


def test_a_manifest_that_cannot_be_written_fails_the_checkpoint_only() -> None:
    storage = UnreliableStorage("chk-")
    spec = job_spec(trigger=TriggerPolicy(interval_ms=100, tolerable_failures=1))
    cluster = FakeCluster(spec, storage).run()
    storage.is_broken = True
    cluster.complete_checkpoint()
    assert cluster.coordinator.status is JobStatus.RUNNING
    storage.is_broken = False
    cluster.complete_checkpoint()
    outcomes = [entry.outcome for entry in cluster.coordinator.statistics.checkpoints]
    assert outcomes == [CheckpointOutcome.ABORTED, CheckpointOutcome.COMPLETED]


def test_ids_that_cannot_be_reserved_fail_the_job_and_a_later_restart_recovers() -> None:
    storage = UnreliableStorage("ids/")
    cluster = FakeCluster(job_spec(), storage).run()
    for _ in range(255):
        cluster.complete_checkpoint()
    storage.is_broken = True
    cluster.complete_checkpoint()
    cluster.pass_ms(0)
    assert cluster.coordinator.status is JobStatus.RESTARTING
    storage.is_broken = False
    cluster.stop_tasks()
    cluster.pass_ms(50)
    cluster.initialized()
    assert cluster.coordinator.status is JobStatus.RUNNING
    assert cluster.complete_checkpoint() == 257


def test_orphans_that_cannot_be_removed_do_not_keep_a_job_from_restarting() -> None:
    class Sticky(UnreliableStorage):
        def delete(self, paths: Iterable[str]) -> None:
            if self.is_broken:
                raise CheckpointStorageError("nothing can be deleted")
            super().delete(paths)

    storage = Sticky("nothing")
    cluster = FakeCluster(job_spec(), storage).run()
    storage.write_file("shared/op/orphan", b"")
    storage.is_broken = True
    cluster.fail()
    cluster.stop_tasks()
    cluster.pass_ms(50)
    cluster.initialized()
    assert cluster.coordinator.status is JobStatus.RUNNING
    assert any("nothing can be deleted" in text for text in cluster.coordinator.statistics.warnings)


def test_a_checkpoint_can_be_asked_for() -> None:
    cluster = FakeCluster(job_spec(trigger=TriggerPolicy(interval_ms=None))).run()
    assert cluster.requests.trigger_checkpoint()
    cluster.acknowledge()
    assert "chk-1/MANIFEST" in cluster.files()


def test_without_checkpointing_a_request_is_refused() -> None:
    cluster = FakeCluster(job_spec(trigger=None, checkpoint_dir=None)).run()
    assert not cluster.requests.trigger_checkpoint()
    assert cluster.files() == []


def test_a_coordinator_that_was_replaced_ends_without_completing_anything() -> None:
    cluster = FakeCluster().run()
    cluster.pass_ms(100)
    FakeCluster(storage=cluster.storage).start()
    cluster.acknowledge()
    assert cluster.coordinator.status is JobStatus.FAILING
    assert cluster.coordinator.failure is not None
    assert "fenced" in cluster.coordinator.failure.cause
    suspended = cluster.coordinator.statistics.latest_aborted
    assert suspended is not None
    assert suspended.abort_reason is AbortReason.SUSPENDED
    assert "chk-1/MANIFEST" not in cluster.files()
    cluster.stop_tasks()
    assert cluster.coordinator.status is JobStatus.FAILED


# ---------------------------------------------------------------- another coordinator


def test_a_new_coordinator_resumes_from_the_newest_checkpoint_with_higher_numbers() -> None:
    old = FakeCluster().run()
    for _ in range(2):
        old.complete_checkpoint()
    new = FakeCluster(storage=old.storage).run()
    assert new.attempt > old.attempt + 1_000
    restored = {d.subtask_id: d.restored for d in new.deployments[0]}
    assert restored[SOURCE]["numbers"].lists[0] == position_handle(2)  # type: ignore[index]
    assert new.complete_checkpoint() > 2


def test_a_damaged_newest_checkpoint_stops_the_job() -> None:
    old = FakeCluster(job_spec(num_retained=2)).run()
    for _ in range(2):
        old.complete_checkpoint()
    job = old.storage.sub("job")
    job.write_file("chk-2/MANIFEST", job.read("chk-2/MANIFEST").replace(b"0", b"1", 1))
    new = FakeCluster(job_spec(num_retained=2), old.storage).start()
    assert new.coordinator.status is JobStatus.FAILED
    assert new.coordinator.failure is not None
    assert "chk-2/MANIFEST is damaged" in new.coordinator.failure.cause
    assert new.deployments == []


def test_a_missing_restore_path_fails_the_job_before_anything_runs(caplog: pytest.LogCaptureFixture) -> None:
    cluster = FakeCluster(job_spec(restore_path="memory://nowhere/chk-1")).start()
    assert cluster.coordinator.status is JobStatus.FAILED
    assert cluster.deployments == []
    assert cluster.coordinator.failure is not None
    assert cluster.coordinator.failure.cause in caplog.text


def test_a_local_path_that_only_the_driver_has_is_explained(tmp_path: Path) -> None:
    cluster = FakeCluster(job_spec(restore_path=f"{tmp_path}/chk-1")).start()
    assert cluster.coordinator.failure is not None
    host = socket.gethostname()
    assert f"The coordinator looked for it on host {host}. A local path" in cluster.coordinator.failure.cause


def test_state_of_another_job_is_not_owned_and_gives_way_to_own_checkpoints() -> None:
    first = FakeCluster(job_spec(num_retained=2)).run()
    for _ in range(2):
        first.complete_checkpoint()
    store = first.coordinator.store
    assert store is not None
    second = FakeCluster(secure_restored(job_spec(restore_path=store.directory_of(CheckpointId(1))))).run()
    assert not any(deployment.restored_is_owned for deployment in second.deployments[0])
    restored = {d.subtask_id: d.restored for d in second.deployments[0]}
    assert restored[SOURCE]["numbers"].lists[0] == position_handle(1)  # type: ignore[index]
    second.complete_checkpoint()
    second.fail()
    second.stop_tasks()
    second.pass_ms(50)
    assert all(deployment.restored_is_owned for deployment in second.deployments[1])


# ---------------------------------------------------------------- cancel


def cancel_before_start(cluster: FakeCluster) -> None:
    """Nothing has happened."""


def cancel_initialising(cluster: FakeCluster) -> None:
    cluster.start()


def cancel_running(cluster: FakeCluster) -> None:
    cluster.run()


def cancel_in_a_checkpoint(cluster: FakeCluster) -> None:
    cluster.run().pass_ms(100)


def cancel_while_tasks_stop_for_a_restart(cluster: FakeCluster) -> None:
    cluster.run().fail()


def cancel_while_waiting_for_a_restart(cluster: FakeCluster) -> None:
    cluster.run().fail()
    cluster.stop_tasks()


def cancel_in_a_restart(cluster: FakeCluster) -> None:
    cluster.run().fail()
    cluster.stop_tasks()
    cluster.pass_ms(50)


@pytest.mark.parametrize(
    "moment",
    [
        cancel_before_start,
        cancel_initialising,
        cancel_running,
        cancel_in_a_checkpoint,
        cancel_while_tasks_stop_for_a_restart,
        cancel_while_waiting_for_a_restart,
        cancel_in_a_restart,
    ],
)
def test_a_job_can_be_cancelled_at_each_moment(moment: Callable[[FakeCluster], None]) -> None:
    cluster = FakeCluster()
    moment(cluster)
    cluster.coordinator.cancel()
    deployments = len(cluster.deployments)
    if cluster.coordinator.status is JobStatus.CANCELLING:
        cluster.stop_tasks()
    assert cluster.coordinator.status is JobStatus.CANCELED
    cluster.pass_ms(10_000)
    cluster.coordinator.cancel()
    assert cluster.coordinator.status is JobStatus.CANCELED
    assert len(cluster.deployments) == deployments
    assert cluster.files() == []


@pytest.mark.parametrize("keep", [True, False])
def test_checkpoints_survive_a_cancellation_if_asked_to(keep: bool) -> None:
    cluster = FakeCluster(job_spec(keep_on_cancel=keep)).run()
    cluster.complete_checkpoint()
    cluster.coordinator.cancel()
    cluster.stop_tasks()
    assert ("chk-1/MANIFEST" in cluster.files()) == keep


@pytest.mark.parametrize(
    ("keep", "is_recoverable", "stays"), [(True, True, True), (False, True, False), (False, False, True)]
)
def test_checkpoints_of_a_failed_job_stay_if_asked_to_or_if_no_restart_could_help(
    keep: bool, is_recoverable: bool, stays: bool
) -> None:
    cluster = FakeCluster(job_spec(keep_on_fail=keep, restart_strategy=RestartStrategies.no_restart())).run()
    cluster.complete_checkpoint()
    cluster.fail(SOURCE, is_recoverable=is_recoverable)
    cluster.stop_tasks(*TOTALS)
    assert cluster.coordinator.status is JobStatus.FAILED
    assert ("chk-1/MANIFEST" in cluster.files()) == stays


def test_a_task_that_fails_while_it_is_being_cancelled_has_stopped() -> None:
    cluster = FakeCluster().run()
    cluster.coordinator.cancel()
    cluster.fail(SOURCE)
    cluster.stop_tasks(*TOTALS)
    assert cluster.coordinator.status is JobStatus.CANCELED


# ---------------------------------------------------------------- end of input


def finish_all(cluster: FakeCluster) -> None:
    for subtask in SUBTASKS:
        cluster.coordinator.handle(events.TaskFinished(cluster.attempt, subtask))


@pytest.mark.parametrize("keep", [True, False])
def test_a_job_finishes_after_its_final_checkpoint(keep: bool) -> None:
    cluster = FakeCluster(job_spec(keep_on_finish=keep)).run()
    for subtask in SUBTASKS:
        cluster.coordinator.handle(SubtaskInputEnded(cluster.attempt, subtask))
    barrier = cluster.triggered()
    assert barrier.kind is SnapshotKind.FINAL
    cluster.acknowledge()
    assert len(cluster.mails(events.CheckpointCompleted)) == 3
    finish_all(cluster)
    assert cluster.coordinator.status is JobStatus.FINISHED
    assert ("chk-1/MANIFEST" in cluster.files()) == keep
    cluster.pass_ms(10_000)
    assert cluster.coordinator.status is JobStatus.FINISHED


def test_a_coordinator_finishes_the_clean_up_that_its_predecessor_died_in() -> None:
    first = FakeCluster().run()
    first.pass_ms(100)
    first.acknowledge()
    assert first.files()
    successor = FakeCluster(storage=first.storage)
    successor.coordinator.claim()
    successor.coordinator.ownership.finish_clean_up(keep_checkpoints=False)
    assert successor.files() == []
    assert successor.deployments == []


def test_a_job_finishes_when_its_last_task_does() -> None:
    cluster = FakeCluster(job_spec(trigger=None, checkpoint_dir=None)).run()
    for subtask in SUBTASKS[:2]:
        cluster.coordinator.handle(events.TaskFinished(cluster.attempt, subtask))
    assert cluster.coordinator.status is JobStatus.RUNNING
    cluster.coordinator.handle(events.TaskFinished(cluster.attempt, SUBTASKS[2]))
    assert cluster.coordinator.status is JobStatus.FINISHED


def test_a_job_can_fail_between_its_final_checkpoint_and_its_end() -> None:
    cluster = FakeCluster().run()
    for subtask in SUBTASKS:
        cluster.coordinator.handle(SubtaskInputEnded(cluster.attempt, subtask))
    cluster.acknowledge()
    cluster.coordinator.handle(events.TaskFinished(cluster.attempt, SOURCE))
    cluster.fail(TOTALS[0], "the commit failed")
    cluster.stop_tasks()
    cluster.pass_ms(50)
    assert all(deployment.restored is not None for deployment in cluster.deployments[1])


def test_an_acknowledgement_of_an_old_attempt_completes_nothing() -> None:
    cluster = FakeCluster().run()
    cluster.pass_ms(100)
    old = cluster.attempt
    cluster.fail()
    cluster.stop_tasks()
    cluster.pass_ms(50)
    cluster.initialized()
    empty = Acknowledgement({"numbers": OperatorSnapshot()})
    for subtask in SUBTASKS:
        cluster.coordinator.handle(SubtaskAcknowledged(old, subtask, CheckpointId(1), empty))
    assert not [path for path in cluster.files() if path.startswith("chk-")]


def test_tasks_are_told_a_file_that_the_coordinator_has_written() -> None:
    cluster = FakeCluster().start()
    second = FakeCluster(storage=cluster.storage).start()
    probes = []
    for deployed in (cluster, second):
        probes += [deployment.settings.storage_probe for deployment in deployed.deployments[0]]
    assert set(probes) == {"epochs/1", "epochs/2"}
    assert set(probes) <= set(cluster.files())
