"""A rescale as the coordinator goes through it, step by step, and what may come in between."""

from __future__ import annotations

import pytest
from tidegate.common.job_status import JobStatus
from tidegate.common.restart_strategy import RestartStrategies
from tidegate.coordinator.monitoring.job_view import JobView, report_of
from tidegate.coordinator.monitoring.statistics import RescaleStatistics
from tidegate.protocol import task_events as events
from tidegate.protocol.checkpoints.checkpoint import SubtaskDeclined, SubtaskInputEnded
from tidegate.protocol.checkpoints.trigger import TriggerPolicy
from tidegate.protocol.elements import SavepointFormatType, SnapshotKind
from tidegate.protocol.ids import SubtaskId
from tidegate.protocol.key_groups import KeyGroupRange
from tidegate.protocol.scheduling.rescaling import parallelism_of
from tidegate.protocol.task_metrics import ProcessMetrics, TaskMetrics

from .fakes import SOURCE, SUBTASKS, TOTALS, FakeCluster, UnreliableStorage, job_graph, job_spec

FOUR = {"totals": 4}
TOLERANT = job_spec(trigger=TriggerPolicy(interval_ms=100, timeout_ms=1_000, tolerable_failures=5))


def asked(cluster: FakeCluster) -> FakeCluster:
    """A running job that is asked for four totals, and finds room for them."""
    cluster.run()
    assert cluster.requests.rescale(FOUR) == ""
    assert cluster.ready is not None
    cluster.ready("")
    return cluster


def stopped(cluster: FakeCluster) -> FakeCluster:
    """The same, with its checkpoint complete and its tasks stopped."""
    asked(cluster).acknowledge()
    cluster.stop_tasks()
    return cluster


def widths(cluster: FakeCluster) -> int:
    return sum(each.subtask_id.task_id == "task-2" for each in cluster.deployments[-1])


def last(cluster: FakeCluster) -> RescaleStatistics:
    return cluster.coordinator.statistics.rescales[-1]


def test_the_job_goes_on_from_its_checkpoint_with_more_subtasks() -> None:
    cluster = asked(FakeCluster())
    assert cluster.coordinator.status is JobStatus.RUNNING
    assert cluster.stopped == []
    cluster.pass_ms(30)
    cluster.acknowledge()
    assert cluster.stopped == [(cluster.attempt, SUBTASKS)]
    cluster.pass_ms(10)
    cluster.stop_tasks()
    assert widths(cluster) == 4
    (deployed,) = [each for each in cluster.deployments[-1] if each.subtask_id == SubtaskId("task-2", 3)]
    assert deployed.restored is not None
    segments = deployed.restored["totals"].keyed.segments
    assert [segment.key_groups for segment in segments] == [KeyGroupRange(96, 127)]
    cluster.pass_ms(5)
    cluster.initialized()
    assert cluster.coordinator.status is JobStatus.RUNNING
    assert parallelism_of(cluster.coordinator.graph) == {"numbers": 1, "totals": 4}
    cluster.pass_ms(0)
    done = last(cluster)
    assert (done.from_parallelism["totals"], done.to_parallelism["totals"]) == (2, 4)
    assert (done.cause, done.failure, done.checkpoint_id) == ("requested", "", 1)
    assert done.pause_ms == 15
    assert cluster.coordinator.rescaling is None


def test_a_rescale_is_not_a_failure() -> None:
    cluster = FakeCluster(job_spec(restart_strategy=RestartStrategies.no_restart()))
    stopped(cluster).initialized()
    assert cluster.coordinator.statistics.restarts == 0
    assert cluster.coordinator.failure is None
    assert not cluster.coordinator.statistics.recoveries


def test_the_next_coordinator_keeps_the_parallelism() -> None:
    cluster = stopped(FakeCluster()).initialized()
    cluster.pass_ms(0)
    assert last(cluster).failure == ""
    successor = FakeCluster(storage=cluster.storage).start()
    assert widths(successor) == 4


def test_a_program_with_another_parallelism_has_the_last_word() -> None:
    cluster = stopped(FakeCluster()).initialized()
    cluster.pass_ms(0)
    successor = FakeCluster(job_spec(job_graph(parallelism=3)), cluster.storage).start()
    assert widths(successor) == 3


def test_nobody_is_told_before_it_is_written_down() -> None:
    storage = UnreliableStorage("parallelism")
    cluster = stopped(FakeCluster(storage=storage))
    storage.is_broken = True
    cluster.initialized()
    cluster.pass_ms(0)
    assert cluster.coordinator.rescaling is not None
    assert "cannot be written down" in cluster.coordinator.statistics.warnings[-1]
    assert widths(FakeCluster(storage=storage).start()) == 2
    storage.is_broken = False


def test_it_is_written_down_again_until_that_succeeds() -> None:
    storage = UnreliableStorage("parallelism")
    cluster = stopped(FakeCluster(storage=storage))
    storage.is_broken = True
    cluster.initialized()
    cluster.pass_ms(0)
    storage.is_broken = False
    cluster.pass_ms(1_000)
    assert cluster.coordinator.rescaling is None
    assert last(cluster).failure == ""


def test_a_checkpoint_that_is_under_way_will_do() -> None:
    cluster = FakeCluster().run()
    cluster.pass_ms(100)
    cluster.requests.rescale(FOUR)
    assert cluster.ready is not None
    cluster.ready("")
    cluster.acknowledge()
    assert cluster.stopped
    assert last_restored(cluster) == 1


def last_restored(cluster: FakeCluster) -> int | None:
    cluster.stop_tasks()
    return cluster.deployments[-1][0].restored_checkpoint_id


def test_it_waits_for_a_savepoint(tmp_path_factory: pytest.TempPathFactory) -> None:
    cluster = FakeCluster().run()
    directory = str(tmp_path_factory.mktemp("savepoints"))
    cluster.requests.trigger_savepoint(SnapshotKind.SAVEPOINT, directory, SavepointFormatType.CANONICAL)
    cluster.requests.rescale(FOUR)
    assert cluster.ready is not None
    cluster.ready("")
    savepoint = cluster.triggered()
    cluster.pass_ms(100)
    assert cluster.triggered().kind is SnapshotKind.SAVEPOINT, "the checkpoint waits for its turn"
    declined = SubtaskDeclined(cluster.attempt, SOURCE, savepoint.checkpoint_id, "no")
    assert not cluster.stopped
    cluster.coordinator.handle(declined)
    cluster.acknowledge()
    assert cluster.stopped


# ---------------------------------------------------------------- what comes to nothing


def test_without_room_nothing_happens() -> None:
    cluster = FakeCluster().run()
    cluster.refusal = "the cluster has 2 CPUs"
    assert cluster.requests.rescale(FOUR) == "the cluster has 2 CPUs"
    assert cluster.coordinator.rescaling is None
    cluster.refusal = ""
    assert cluster.requests.rescale(FOUR) == ""
    assert cluster.ready is not None
    cluster.ready("no node came up")
    assert last(cluster).failure == "no node came up"
    assert cluster.coordinator.status is JobStatus.RUNNING
    assert not cluster.stopped


def test_a_checkpoint_that_fails_ends_it() -> None:
    cluster = asked(FakeCluster(TOLERANT))
    checkpoint_id = cluster.triggered().checkpoint_id
    cluster.coordinator.handle(SubtaskDeclined(cluster.attempt, SOURCE, checkpoint_id, "disk full"))
    assert "its checkpoint was aborted" in last(cluster).failure
    assert "disk full" in last(cluster).failure
    assert cluster.ready is None, "nothing is kept ready"


def test_tasks_that_do_not_come_to_run_bring_back_the_old_parallelism() -> None:
    cluster = stopped(FakeCluster(job_spec(restart_strategy=RestartStrategies.no_restart())))
    cluster.fail(TOTALS[1], "cannot be opened", is_recoverable=False)
    cluster.stop_tasks()
    assert widths(cluster) == 2
    cluster.initialized()
    assert cluster.coordinator.status is JobStatus.RUNNING
    assert last(cluster).failure == "its tasks did not start: cannot be opened"
    assert parallelism_of(cluster.coordinator.graph)["totals"] == 2
    assert widths(FakeCluster(storage=cluster.storage).start()) == 2


def test_a_failure_before_the_stop_ends_it() -> None:
    cluster = asked(FakeCluster())
    cluster.fail(TOTALS[0], "boom")
    assert last(cluster).failure == "the job failed in the meantime: boom"
    cluster.stop_tasks()
    cluster.pass_ms(50)
    assert widths(cluster) == 2


def test_a_failure_after_it_is_like_any_other() -> None:
    cluster = stopped(FakeCluster()).initialized()
    cluster.pass_ms(0)
    cluster.fail(TOTALS[0], "boom")
    cluster.stop_tasks()
    cluster.pass_ms(50)
    assert widths(cluster) == 4
    assert cluster.coordinator.statistics.restarts == 1


def test_cancelling_and_stopping_go_before() -> None:
    cancelled = asked(FakeCluster())
    cancelled.coordinator.cancel()
    cancelled.stop_tasks()
    assert cancelled.coordinator.status is JobStatus.CANCELED
    assert last(cancelled).failure == "the job is cancelled"
    late = asked(FakeCluster())
    late.acknowledge()
    late.coordinator.cancel()
    late.stop_tasks()
    assert late.coordinator.status is JobStatus.CANCELED
    stopping = asked(FakeCluster())
    stopping.requests.trigger_savepoint(SnapshotKind.STOP, "memory://x", SavepointFormatType.CANONICAL)
    assert last(stopping).failure == "the job is stopped with a savepoint"


def test_the_last_checkpoint_of_a_job_is_no_start_for_another() -> None:
    cluster = asked(FakeCluster(TOLERANT))
    first = cluster.triggered().checkpoint_id
    for subtask in SUBTASKS:
        cluster.coordinator.handle(SubtaskInputEnded(cluster.attempt, subtask))
    cluster.coordinator.handle(SubtaskDeclined(cluster.attempt, SOURCE, first, "late"))
    cluster.pass_ms(100)
    cluster.acknowledge()
    assert not cluster.stopped
    assert last(cluster).failure
    for subtask in SUBTASKS:
        cluster.coordinator.handle(events.TaskFinished(cluster.attempt, subtask))
    assert cluster.coordinator.status is JobStatus.FINISHED


# ---------------------------------------------------------------- what is refused


def test_what_is_refused_says_why() -> None:
    cluster = FakeCluster().start()
    assert cluster.requests.rescale(FOUR) == ("the job is INITIALIZING; only a running job can be rescaled")
    cluster.initialized()
    assert "no operator with uid or name 'x'" in cluster.requests.rescale({"x": 2})
    assert "max parallelism 128" in cluster.requests.rescale({"totals": 129})
    cluster.requests.trigger_savepoint(SnapshotKind.STOP, "memory://x", SavepointFormatType.CANONICAL)
    assert cluster.requests.rescale(FOUR) == "the job is being stopped with a savepoint"
    unsaved = FakeCluster(job_spec(trigger=None)).run()
    assert "takes no checkpoints" in unsaved.requests.rescale(FOUR)
    ending = FakeCluster().run()
    for subtask in SUBTASKS:
        ending.coordinator.handle(SubtaskInputEnded(ending.attempt, subtask))
    assert ending.requests.rescale(FOUR) == "all input of the job has ended"


def test_one_at_a_time_but_the_same_twice_is_once() -> None:
    cluster = FakeCluster().run()
    assert cluster.requests.rescale({"totals": 2}) == ""
    assert cluster.coordinator.rescaling is None, "nothing was to be done"
    cluster.requests.rescale(FOUR)
    assert cluster.requests.rescale(FOUR) == ""
    assert "being rescaled already: room is being made" in cluster.requests.rescale({"totals": 3})
    assert cluster.ready is not None
    cluster.ready("")
    assert "being rescaled already: its checkpoint is being taken" in cluster.requests.rescale({"totals": 2})


def test_whoever_was_replaced_cannot_rescale() -> None:
    cluster = stopped(FakeCluster())
    successor = FakeCluster(storage=cluster.storage).start()
    cluster.initialized()
    cluster.pass_ms(0)
    assert "fenced" in last(cluster).failure
    assert widths(successor) == 2


def test_a_late_answer_of_an_old_preparation_is_not_heard() -> None:
    cluster = FakeCluster().run()
    cluster.requests.rescale(FOUR)
    late = cluster.ready
    assert late is not None
    cluster.fail(TOTALS[0], "boom")
    cluster.stop_tasks()
    cluster.pass_ms(50)
    cluster.initialized()
    cluster.requests.rescale(FOUR)
    late("")
    late("no room")
    assert cluster.coordinator.rescaling is not None
    assert not cluster.mails(events.TriggerCheckpoint)


def test_a_failure_before_a_rescale_keeps_the_name_and_the_host_that_its_subtask_had() -> None:
    cluster = FakeCluster().run()
    view = JobView(job_spec(), cluster.coordinator)

    def failures() -> list[tuple[str, str]]:
        report = report_of(cluster.coordinator)
        exceptions = view.details(report, cluster.time_ms).exceptions
        return [(one.subtask_name, one.host) for one in exceptions]

    metrics = ProcessMetrics(cluster.attempt, "node-1", 1, {TOTALS[1]: TaskMetrics()})
    cluster.coordinator.metrics.update(metrics, cluster.time_ms)
    cluster.fail(TOTALS[1])
    cluster.stop_tasks()
    cluster.pass_ms(50)
    cluster.initialized()
    cluster.complete_checkpoint()
    assert failures() == [("Totals (2/2)", "node-1")]
    assert cluster.requests.rescale(FOUR) == ""
    assert cluster.ready is not None
    cluster.ready("")
    cluster.acknowledge()
    cluster.stop_tasks()
    cluster.initialized()
    metrics = ProcessMetrics(cluster.attempt, "node-2", 1, {TOTALS[1]: TaskMetrics()})
    cluster.coordinator.metrics.update(metrics, cluster.time_ms)
    assert parallelism_of(cluster.coordinator.graph)["totals"] == 4
    assert failures() == [("Totals (2/2)", "node-1")]
