"""Nothing that is recorded for people controls the job: without it, everything works as before."""

from __future__ import annotations

from typing import Any, cast

from tidegate.common.job_status import JobStatus
from tidegate.coordinator.monitoring.job_observer import JobObserver
from tidegate.protocol import task_events as events
from tidegate.protocol.checkpoints.abort_reasons import AbortReason
from tidegate.protocol.checkpoints.checkpoint import SubtaskDeclined
from tidegate.protocol.checkpoints.trigger import TriggerPolicy
from tidegate.protocol.elements import SavepointFormatType, SnapshotKind
from tidegate.protocol.scheduling.rescaling import parallelism_of
from tidegate.protocol.task_metrics import TaskMetrics

from .fakes import SOURCE, SUBTASKS, FakeCluster, UnreliableStorage, job_spec

TOLERANT = TriggerPolicy(interval_ms=100, timeout_ms=1_000, tolerable_failures=5)


class Removed:
    """In place of the room that records things for people: it takes everything and knows nothing."""

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments, **named: None


def unobserved(storage: UnreliableStorage | None = None, **settings: Any) -> FakeCluster:
    spec = job_spec(trigger=TOLERANT, **settings)
    return FakeCluster(spec, storage, observer=cast(JobObserver, Removed()))


def newest(cluster: FakeCluster) -> int:
    store = cluster.coordinator.store
    assert store is not None
    return 0 if store.newest is None else store.newest.checkpoint_id


def test_checkpoints_complete_abort_and_are_deleted() -> None:
    cluster = unobserved(num_retained=1).run()
    assert cluster.complete_checkpoint() == 1
    cluster.pass_ms(100)
    declined = SubtaskDeclined(
        cluster.attempt,
        SOURCE,
        cluster.triggered().checkpoint_id,
        "its disk is full",
        AbortReason.ASYNC_FAILED,
    )
    cluster.coordinator.handle(declined)
    assert [mail.checkpoint_id for _, mail in cluster.mails(events.CheckpointAborted)] == [2] * 3
    assert cluster.complete_checkpoint() == 3
    assert newest(cluster) == 3
    assert [mail.checkpoint_id for _, mail in cluster.mails(events.CheckpointCompleted)][-3:] == [3] * 3
    assert [path for path in cluster.files() if path.startswith("chk-")] == ["chk-3/MANIFEST"]


def test_a_failed_task_restarts_the_job_from_its_newest_checkpoint() -> None:
    cluster = unobserved().run()
    cluster.complete_checkpoint()
    cluster.fail()
    assert cluster.coordinator.status is JobStatus.RESTARTING
    cluster.stop_tasks()
    cluster.pass_ms(50)
    assert [each.restored_checkpoint_id for each in cluster.deployments[-1]] == [1] * 3
    cluster.initialized()
    assert cluster.coordinator.status is JobStatus.RUNNING
    assert cluster.complete_checkpoint() == 2


def test_the_next_coordinator_resumes_the_job() -> None:
    storage = UnreliableStorage("nothing")
    unobserved(storage).run().complete_checkpoint()
    successor = unobserved(storage).run()
    assert [each.restored_checkpoint_id for each in successor.deployments[-1]] == [1] * 3
    completed = successor.complete_checkpoint()
    assert newest(successor) == completed > 1


def test_a_rescale_succeeds() -> None:
    cluster = unobserved().run()
    assert cluster.requests.rescale({"totals": 4}) == ""
    assert cluster.ready is not None
    cluster.ready("")
    cluster.acknowledge()
    cluster.stop_tasks()
    cluster.initialized()
    cluster.pass_ms(0)
    assert cluster.coordinator.status is JobStatus.RUNNING
    assert cluster.coordinator.rescaling is None
    assert parallelism_of(cluster.coordinator.graph)["totals"] == 4


def test_a_rescale_whose_checkpoint_fails_leaves_the_job_as_it_was() -> None:
    cluster = unobserved().run()
    cluster.requests.rescale({"totals": 4})
    assert cluster.ready is not None
    cluster.ready("")
    declined = SubtaskDeclined(cluster.attempt, SOURCE, cluster.triggered().checkpoint_id, "its disk is full")
    cluster.coordinator.handle(declined)
    assert cluster.coordinator.rescaling is None
    assert cluster.coordinator.status is JobStatus.RUNNING
    assert not cluster.stopped


def test_acknowledgements_complete_a_checkpoint_that_the_statistics_have_lost() -> None:
    cluster = FakeCluster().run()
    cluster.pass_ms(100)
    cluster.coordinator.statistics.in_progress.clear()
    cluster.acknowledge()
    assert newest(cluster) == 1


def test_a_stop_with_a_savepoint_ends_the_job() -> None:
    cluster = unobserved().run()
    cluster.requests.trigger_savepoint(
        SnapshotKind.STOP, "memory://unobserved", SavepointFormatType.CANONICAL
    )
    cluster.acknowledge()
    assert cluster.coordinator.ownership.stopped_with == "memory://unobserved/savepoint-job-1"
    for subtask in SUBTASKS:
        cluster.coordinator.handle(events.TaskFinished(cluster.attempt, subtask, TaskMetrics()))
    assert cluster.coordinator.status is JobStatus.FINISHED
