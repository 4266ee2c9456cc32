"""What recoveries record: the first failure of an outage, what was restored, and its real length."""

from __future__ import annotations

from dataclasses import replace

from tidegate.coordinator.monitoring.statistics import RecoveryStatistics
from tidegate.coordinator.monitoring.stored_statistics import read_statistics, stored_statistics
from tidegate.coordinator.restore.latest_checkpoint import secure_restored
from tidegate.protocol.ids import SubtaskId
from tidegate.protocol.task_metrics import ProcessMetrics, TaskMetrics

from .fakes import SOURCE, TOTALS, FakeCluster, job_spec


def results(cluster: FakeCluster, first_ms: int, last_ms: int, subtask: SubtaskId = TOTALS[0]) -> None:
    """The process of a subtask reports its first and its last result in this attempt."""
    metrics = TaskMetrics(first_result_ms=first_ms, last_result_ms=last_ms)
    taken = ProcessMetrics(cluster.attempt, "host", 4711, {subtask: metrics})
    cluster.coordinator.measured(taken, cluster.time_ms)


def recover(cluster: FakeCluster) -> None:
    cluster.stop_tasks()
    cluster.pass_ms(50)
    cluster.initialized()


def recoveries(cluster: FakeCluster) -> list[RecoveryStatistics]:
    return list(cluster.coordinator.statistics.recoveries)


def test_an_outage_lasts_from_the_last_result_before_it_to_the_first_after_it() -> None:
    cluster = FakeCluster().run()
    results(cluster, 1_000, 4_000)
    cluster.time_ms = 5_000
    cluster.fail()
    cluster.pass_ms(1_000)
    recover(cluster)
    assert recoveries(cluster)[0].outage_ms is None, "there is no result yet"
    cluster.pass_ms(2_000)
    results(cluster, 7_500, 8_000)
    results(cluster, 7_200, 7_900, TOTALS[1])
    results(cluster, 7_500, 9_000)
    (recovery,) = recoveries(cluster)
    assert (recovery.failed_ms, recovery.running_ms, recovery.duration_ms) == (5_000, 6_050, 1_050)
    assert (recovery.last_result_ms, recovery.first_result_ms) == (4_000, 7_200)
    assert recovery.outage_ms == 3_200


def test_a_failure_during_a_recovery_does_not_hide_the_first() -> None:
    cluster = FakeCluster().run()
    cluster.fail(TOTALS[0], "the disk burns")
    cluster.stop_tasks()
    cluster.pass_ms(10_000)
    cluster.fail(TOTALS[1], "the next disk burns")
    recover(cluster)
    (recovery,) = recoveries(cluster)
    assert (recovery.cause, recovery.failed_ms, recovery.duration_ms) == ("the disk burns", 1_000, 10_050)
    assert recovery.failures == 2


def test_restarts_without_a_result_between_them_are_one_outage() -> None:
    cluster = FakeCluster().run()
    results(cluster, 500, 900)
    cluster.fail(cause="first")
    recover(cluster)
    cluster.pass_ms(100)
    cluster.fail(cause="second")
    recover(cluster)
    results(cluster, 14_900, 15_000)
    assert [(each.cause, each.outage_ms) for each in recoveries(cluster)] == [
        ("first", 14_000),
        ("second", 14_000),
    ]


def test_an_outage_ends_once() -> None:
    cluster = FakeCluster().run()
    results(cluster, 500, 900)
    for number in range(2):
        cluster.fail()
        recover(cluster)
        results(cluster, 2_000 + number * 10_000, 5_000 + number * 10_000)
    assert [each.outage_ms for each in recoveries(cluster)] == [1_100, 7_000]


def test_only_subtasks_at_the_end_of_the_graph_give_results() -> None:
    cluster = FakeCluster().run()
    results(cluster, 500, 900, SOURCE)
    cluster.fail()
    recover(cluster)
    assert recoveries(cluster)[0].last_result_ms is None


def test_a_coordinator_that_is_started_again_continues_the_history() -> None:
    cluster = FakeCluster().run()
    results(cluster, 500, 900)
    cluster.fail(cause="the disk burns")
    recover(cluster)
    results(cluster, 1_200, 1_300)
    checkpoint_id = cluster.complete_checkpoint()
    second = FakeCluster(job_spec(), cluster.storage)
    second.time_ms = 9_000
    second.start()
    second.pass_ms(700)
    second.initialized()
    results(second, 9_900, 10_000)
    first, loss = recoveries(second)
    assert (first.cause, first.outage_ms) == ("the disk burns", 300)
    assert loss.cause == "the coordinator was started again"
    assert loss.restored_checkpoint == checkpoint_id
    assert (loss.failed_ms, loss.running_ms, loss.outage_ms) == (9_000, 9_700, 8_600)
    assert second.coordinator.statistics.restarts == 2


def test_a_coordinator_that_is_lost_before_the_first_checkpoint_counts_too() -> None:
    cluster = FakeCluster().run()
    second = FakeCluster(job_spec(), cluster.storage).run()
    assert second.coordinator.statistics.restarts == 1
    (loss,) = recoveries(second)
    assert loss.restored_checkpoint is None


def test_the_first_start_of_a_job_is_no_recovery() -> None:
    cluster = FakeCluster().run()
    assert cluster.coordinator.statistics.restarts == 0
    assert recoveries(cluster) == []


def test_recoveries_are_stored_shortened_and_statistics_of_earlier_releases_are_read() -> None:
    cluster = FakeCluster().run()
    cluster.fail(cause="password=secret " + 10_000 * "x")
    recover(cluster)
    cluster.complete_checkpoint()
    statistics = cluster.coordinator.statistics
    newest = statistics.checkpoints[-1]
    stored = stored_statistics(statistics, newest)
    (recovery,) = read_statistics(stored).recoveries
    assert len(recovery.cause) < 1_000
    assert "secret" not in recovery.cause
    assert replace(recovery, cause="") == replace(statistics.recoveries[0], cause="")
    for name in ("recoveries", "restarts", "last_result_ms"):
        del stored[name]
    assert not read_statistics(stored).recoveries


def test_the_savepoint_that_a_job_falls_back_to_is_named() -> None:
    first = FakeCluster().run()
    checkpoint_id = first.complete_checkpoint()
    store = first.coordinator.store
    assert store is not None
    second = FakeCluster(secure_restored(job_spec(restore_path=store.directory_of(checkpoint_id)))).run()
    second.fail()
    recover(second)
    (recovery,) = recoveries(second)
    assert recovery.restored_checkpoint == checkpoint_id
