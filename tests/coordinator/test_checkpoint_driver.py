"""What the coordinator does around its state machine: files, answers, history, notifications."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import pytest
from tidegate.common.errors import CheckpointStorageError
from tidegate.common.job_status import JobStatus
from tidegate.coordinator.job_coordinator import JobCoordinator
from tidegate.coordinator.monitoring.job_view import report_of
from tidegate.coordinator.monitoring.statistics import SUMMARISED, CheckpointOutcome, Summary
from tidegate.protocol import task_events as events
from tidegate.protocol.checkpoints.abort_reasons import AbortReason
from tidegate.protocol.checkpoints.checkpoint import (
    Acknowledgement,
    SubtaskAcknowledged,
    SubtaskDeclined,
    SubtaskMetrics,
)
from tidegate.protocol.checkpoints.handles import (
    FileHandle,
    KeyedStateHandle,
    OperatorSnapshot,
    SegmentHandle,
)
from tidegate.protocol.checkpoints.trigger import TriggerPolicy
from tidegate.protocol.ids import Attempt, CheckpointId, SubtaskId
from tidegate.protocol.key_groups import key_group_range_of_subtask

from .fakes import SOURCE, SUBTASKS, TOTALS, FakeCluster, UnreliableStorage, job_spec

MANUAL = TriggerPolicy(interval_ms=None, timeout_ms=50, tolerable_failures=9)
PERIODIC = TriggerPolicy(interval_ms=100, timeout_ms=50, tolerable_failures=9)


def tolerant(policy: TriggerPolicy = PERIODIC) -> FakeCluster:
    return FakeCluster(job_spec(trigger=policy)).run()


class Log:
    """The segments of a subtask of the keyed operator, as its acknowledgements name them."""

    def __init__(self, cluster: FakeCluster, subtask: SubtaskId) -> None:
        self._cluster, self._subtask = cluster, subtask
        self.files: list[FileHandle] = []

    def write(self, name: str) -> Log:
        path = f"shared/op-totals/{self._subtask.index}-{name}"
        self.files.append(self._cluster.storage.sub("job").write_file(path, name.encode()))
        return self

    def acknowledge(self, checkpoint_id: int, attempt: int | None = None) -> None:
        groups = key_group_range_of_subtask(self._subtask.index, 128, 2)
        segments = tuple(SegmentHandle("total", file, groups, 1) for file in self.files)
        answer = Acknowledgement({"totals": OperatorSnapshot(KeyedStateHandle(segments))})
        of = self._cluster.attempt if attempt is None else Attempt(attempt)
        self._cluster.coordinator.handle(
            SubtaskAcknowledged(of, self._subtask, CheckpointId(checkpoint_id), answer)
        )


def segments(cluster: FakeCluster) -> list[str]:
    return [path.rpartition("/")[2] for path in cluster.files() if path.startswith("shared")]


# ---------------------------------------------------------------- files of what did not complete


def test_an_increment_of_an_aborted_checkpoint_stays_while_the_task_refers_to_it() -> None:
    cluster = tolerant()
    log = Log(cluster, TOTALS[0])
    cluster.pass_ms(100)
    log.write("first").acknowledge(1)
    cluster.pass_ms(50)
    assert segments(cluster) == ["0-first"], "the next increment builds on it"
    cluster.pass_ms(50)
    log.write("second").acknowledge(2)
    cluster.pass_ms(50)
    assert segments(cluster) == ["0-first", "0-second"]


def test_what_a_task_no_longer_refers_to_goes_while_the_job_runs() -> None:
    cluster = tolerant()
    log = Log(cluster, TOTALS[0])
    cluster.pass_ms(100)
    log.write("first").acknowledge(1)
    cluster.pass_ms(50)
    cluster.pass_ms(50)
    log.files.clear()
    log.write("merged").acknowledge(2)
    cluster.pass_ms(50)
    assert cluster.coordinator.status is JobStatus.RUNNING
    assert segments(cluster) == ["0-merged"]


def test_a_late_acknowledgement_keeps_its_files_for_the_next_one() -> None:
    cluster = tolerant()
    log = Log(cluster, TOTALS[0])
    cluster.pass_ms(100)
    cluster.pass_ms(50)
    log.write("late").acknowledge(1)
    cluster.pass_ms(50)
    log.write("next").acknowledge(2)
    cluster.pass_ms(50)
    assert segments(cluster) == ["0-late", "0-next"]


def test_the_files_of_a_foreign_acknowledgement_are_deleted() -> None:
    cluster = tolerant()
    cluster.complete_checkpoint()
    cluster.pass_ms(100)
    zombie = Log(cluster, TOTALS[0]).write("zombie")
    zombie.files.append(FileHandle("shared/op-totals/0-1", 7, ""))
    zombie.acknowledge(2, attempt=99)
    cluster.pass_ms(50)
    assert segments(cluster) == ["0-1", "1-1"], "what a complete checkpoint needs stays"


class Doubtful(UnreliableStorage):
    """The answer to the creation of a manifest is lost, the file is there. Lists may fail too."""

    answers_are_lost = False
    cannot_be_listed = False

    def create_exclusive(self, path: str, data: bytes) -> bool:
        created = super().create_exclusive(path, data)
        if self.answers_are_lost and path.startswith("chk-"):
            raise CheckpointStorageError("no answer")
        return created

    def list_files(self, prefix: str) -> list[str]:
        if self.cannot_be_listed:
            raise CheckpointStorageError("no list")
        return super().list_files(prefix)


def test_files_of_a_manifest_that_may_exist_stay_until_a_newer_one_does() -> None:
    storage = Doubtful("nothing")
    cluster = FakeCluster(job_spec(trigger=PERIODIC), storage).run()
    storage.answers_are_lost = True
    assert cluster.complete_checkpoint() == 1
    assert cluster.coordinator.statistics.latest_aborted is not None
    assert segments(cluster) == ["0-1", "1-1"]
    cluster.fail()
    cluster.stop_tasks()
    cluster.pass_ms(50)
    assert segments(cluster) == ["0-1", "1-1"], "a later coordinator would find that checkpoint"
    cluster.initialized()
    storage.answers_are_lost = False
    assert cluster.complete_checkpoint() == 2
    assert segments(cluster) == ["0-2", "1-2"]
    assert [path for path in cluster.files() if path.startswith("chk-")] == ["chk-2/MANIFEST"]


def test_a_job_that_restarts_goes_back_to_a_checkpoint_that_exists_although_it_seemed_to_fail() -> None:
    # A sink throws away what it had begun at the checkpoint that it goes back to. A coordinator that found
    # the newer one later would commit that.
    storage = Doubtful("nothing")
    cluster = FakeCluster(job_spec(trigger=PERIODIC), storage).run()
    storage.answers_are_lost = True
    cluster.complete_checkpoint()
    cluster.fail()
    cluster.stop_tasks()
    storage.cannot_be_listed = True
    cluster.pass_ms(50)
    assert len(cluster.deployments) == 1, "nobody knows where to go back to"
    assert "no list" in cluster.coordinator.statistics.warnings[-1]
    storage.cannot_be_listed = False
    cluster.pass_ms(1_000)
    assert [each.restored_checkpoint_id for each in cluster.deployments[-1]] == [1] * 3


def test_a_failed_checkpoint_that_does_not_exist_leaves_nothing_when_the_job_ends() -> None:
    storage = UnreliableStorage("chk-2")
    cluster = FakeCluster(job_spec(trigger=PERIODIC, keep_on_cancel=True), storage).run()
    cluster.complete_checkpoint()
    storage.is_broken = True
    cluster.complete_checkpoint()
    cluster.coordinator.cancel()
    cluster.stop_tasks()
    assert segments(cluster) == ["0-1", "1-1"]


def test_what_could_not_be_deleted_is_deleted_the_next_time() -> None:
    class Sticky(UnreliableStorage):
        def delete(self, paths: Iterable[str]) -> None:
            if self.is_broken:
                raise CheckpointStorageError("nothing can be deleted")
            super().delete(paths)

    storage = Sticky("nothing")
    cluster = FakeCluster(job_spec(), storage).run()
    cluster.complete_checkpoint()
    storage.is_broken = True
    cluster.complete_checkpoint()
    assert "nothing can be deleted" in cluster.coordinator.statistics.warnings[0]
    storage.is_broken = False
    cluster.complete_checkpoint()
    assert segments(cluster) == ["0-3", "1-3"]


def test_a_fenced_coordinator_cleans_nothing_up() -> None:
    ends: list[bool] = []
    cluster = FakeCluster()
    cluster.coordinator = JobCoordinator(
        job_spec(), cluster, cluster.tracer, cluster.storage, before_clean_up=ends.append
    )
    cluster.run()
    cluster.complete_checkpoint()
    cluster.pass_ms(100)
    successor = FakeCluster(storage=cluster.storage).run()
    successor.complete_checkpoint()
    before = cluster.files()
    cluster.acknowledge()
    cluster.stop_tasks()
    assert cluster.coordinator.status is JobStatus.FAILED
    assert ends == [], "its end is not the job's end"
    assert set(before) <= set(cluster.files())


def test_a_coordinator_that_does_not_know_yet_that_it_was_replaced_records_no_end() -> None:
    ends: list[bool] = []
    cluster = FakeCluster()
    cluster.coordinator = JobCoordinator(
        job_spec(), cluster, cluster.tracer, cluster.storage, before_clean_up=ends.append
    )
    cluster.run()
    cluster.complete_checkpoint()
    FakeCluster(storage=cluster.storage).run()
    before = cluster.files()
    cluster.coordinator.cancel()
    cluster.stop_tasks()
    assert cluster.coordinator.status is JobStatus.CANCELED
    assert ends == []
    assert cluster.files() == before


# ---------------------------------------------------------------- requests


def test_every_request_gets_its_own_answer() -> None:
    cluster = tolerant(MANUAL)
    first, second = (cluster.requests.trigger_checkpoint() for _ in range(2))
    assert first is not None
    assert second is not None
    answers = cluster.coordinator.statistics.requests
    assert answers == {first: None, second: None}
    cluster.pass_ms(50)
    cluster.acknowledge()
    answers = cluster.coordinator.statistics.requests
    assert (answers[first].checkpoint_id, answers[first].reason) == (None, AbortReason.EXPIRED)  # type: ignore[union-attr]
    assert (answers[second].checkpoint_id, answers[second].reason) == (2, None)  # type: ignore[union-attr]


def test_requests_of_two_coordinators_have_different_numbers() -> None:
    cluster = tolerant(MANUAL)
    first = cluster.requests.trigger_checkpoint()
    successor = FakeCluster(job_spec(trigger=MANUAL), cluster.storage).run()
    assert successor.requests.trigger_checkpoint() != first


@pytest.mark.parametrize("ends", ["cancel", "fail"])
def test_a_request_that_waits_when_the_job_ends_is_refused(ends: str) -> None:
    cluster = tolerant(MANUAL)
    request = cluster.requests.trigger_checkpoint()
    if ends == "cancel":
        cluster.coordinator.cancel()
    else:
        cluster.fail(is_recoverable=False)
    answer = cluster.coordinator.statistics.requests[request]  # type: ignore[index]
    assert answer is not None
    assert answer.reason is AbortReason.SHUT_DOWN


# ---------------------------------------------------------------- history


def test_a_checkpoint_in_progress_shows_who_has_acknowledged() -> None:
    cluster = tolerant()
    cluster.pass_ms(100)
    cluster.time_ms += 20
    metrics = SubtaskMetrics(5.0, 10.0, 1.0, 4.0, 100, 30, 20)
    acknowledged = Acknowledgement({}, metrics)
    cluster.coordinator.handle(SubtaskAcknowledged(cluster.attempt, SOURCE, CheckpointId(1), acknowledged))
    (entry,) = cluster.coordinator.statistics.in_progress.values()
    assert entry.outcome is CheckpointOutcome.IN_PROGRESS
    assert entry.subtasks == {SOURCE: dataclasses.replace(metrics, acknowledged_ms=20.0)}
    assert entry.subtask_count == len(SUBTASKS)
    assert (entry.size_bytes, entry.duration_ms) == (100, 20.0)
    assert (entry.start_delay_ms, entry.async_ms) == (5.0, 4.0)
    assert (entry.processed_bytes, entry.persisted_bytes) == (30, 20)
    cluster.pass_ms(50)
    assert cluster.coordinator.statistics.in_progress == {}


def test_a_report_keeps_the_acknowledgements_of_its_moment() -> None:
    cluster = tolerant()
    cluster.pass_ms(100)
    before = report_of(cluster.coordinator).statistics
    acknowledged = SubtaskAcknowledged(cluster.attempt, SOURCE, CheckpointId(1), Acknowledgement({}))
    cluster.coordinator.handle(acknowledged)
    after = report_of(cluster.coordinator).statistics
    assert [list(one.subtasks) for one in before.in_progress.values()] == [[]]
    assert [list(one.subtasks) for one in after.in_progress.values()] == [[SOURCE]]


def test_counts_and_latest_checkpoints_are_kept() -> None:
    cluster = tolerant()
    cluster.complete_checkpoint()
    cluster.pass_ms(100)
    cluster.coordinator.handle(
        SubtaskDeclined(cluster.attempt, SOURCE, CheckpointId(2), "no", AbortReason.BARRIER_SUBSUMED)
    )
    cluster.fail()
    cluster.stop_tasks()
    cluster.pass_ms(50)
    statistics = cluster.coordinator.statistics
    assert statistics.counts == {CheckpointOutcome.COMPLETED: 1, CheckpointOutcome.ABORTED: 1}
    assert statistics.latest_completed is not None
    assert statistics.latest_completed.checkpoint_id == 1
    assert statistics.latest_aborted is not None
    assert statistics.latest_aborted.abort_reason is AbortReason.BARRIER_SUBSUMED
    assert statistics.latest_savepoint is None
    assert statistics.restored_count == 1
    assert statistics.latest_restored is not None
    assert (statistics.latest_restored.checkpoint_id, statistics.latest_restored.is_own) == (1, True)


def test_summaries_spread_over_the_completed_checkpoints() -> None:
    cluster = tolerant()
    assert cluster.coordinator.statistics.summaries() == {}
    for _ in range(3):
        cluster.complete_checkpoint()
    cluster.pass_ms(100)
    cluster.pass_ms(50)
    summaries = cluster.coordinator.statistics.summaries()
    assert set(summaries) == set(SUMMARISED)
    assert summaries["new_bytes"].count == 3


def test_percentiles_are_by_nearest_rank() -> None:
    summary = Summary.of([float(value) for value in range(100, 0, -1)])
    assert summary is not None
    assert dataclasses.astuple(summary) == (100, 1.0, 50.5, 50.0, 90.0, 95.0, 99.0, 100.0)
    assert dataclasses.astuple(Summary.of([7.0])) == (1, *[7.0] * 7)  # type: ignore[call-overload]
    assert Summary.of([]) is None


# ---------------------------------------------------------------- notifications


def test_a_failure_in_a_notification_does_not_revoke_the_checkpoint() -> None:
    cluster = FakeCluster().run()
    assert cluster.complete_checkpoint() == 1
    cluster.fail(TOTALS[0], "task totals: notify_checkpoint_complete() raised ValueError")
    cluster.stop_tasks()
    cluster.pass_ms(50)
    statistics = cluster.coordinator.statistics
    assert statistics.latest_restored is not None
    assert statistics.latest_restored.checkpoint_id == 1
    assert statistics.counts == {CheckpointOutcome.COMPLETED: 1}
    assert "chk-1/MANIFEST" in cluster.files()


def test_a_notification_that_nobody_hears_changes_nothing() -> None:
    cluster = FakeCluster().run()
    cluster.complete_checkpoint()
    cluster.complete_checkpoint()
    told = [mail.checkpoint_id for to, mail in cluster.mails(events.CheckpointCompleted) if to == SOURCE]
    assert told == [1, 2]
    assert cluster.coordinator.status is JobStatus.RUNNING
