"""What a failure leads to: a restart from the newest checkpoint, or the end of the job."""

from __future__ import annotations

import pytest
from tidegate.common.job_status import JobStatus
from tidegate.common.restart_strategy import RestartStrategies
from tidegate.protocol import task_events as events
from tidegate.protocol.checkpoints.checkpoint import (
    SubtaskAcknowledged,
)
from tidegate.protocol.ids import CheckpointId, SubtaskId

from .fakes import SOURCE, SUBTASKS, TOTALS, FakeCluster, job_spec, position_handle


def test_a_failed_task_stops_the_others_and_restarts_all_with_the_newest_checkpoint() -> None:
    cluster = FakeCluster().run()
    cluster.complete_checkpoint()
    first = cluster.attempt
    cluster.fail(TOTALS[0], "the disk burns")
    assert cluster.coordinator.status is JobStatus.RESTARTING
    assert cluster.stopped == [(first, [SOURCE, TOTALS[1]])]
    cluster.pass_ms(1_000)
    assert len(cluster.deployments) == 1, "the old tasks may still write"
    cluster.stop_tasks()
    assert len(cluster.deployments) == 2
    assert cluster.attempt == first + 1
    for deployment in cluster.deployments[1]:
        assert deployment.attempt == cluster.attempt
        assert deployment.attempt_number == 1
        assert deployment.restored is not None
        assert deployment.restored_is_owned
    restored = {d.subtask_id: d.restored for d in cluster.deployments[1]}
    assert restored[SOURCE]["numbers"].lists[0] == position_handle(1)  # type: ignore[index]
    cluster.initialized()
    assert cluster.coordinator.status is JobStatus.RUNNING
    (recovery,) = cluster.coordinator.statistics.recoveries
    assert (recovery.cause, recovery.restored_checkpoint) == ("the disk burns", 1)
    assert recovery.duration_ms == 1_000
    assert cluster.coordinator.statistics.restarts == 1


def test_a_restart_waits_for_its_delay() -> None:
    cluster = FakeCluster(job_spec(restart_strategy=RestartStrategies.fixed_delay_restart(1, 500))).run()
    cluster.fail()
    cluster.stop_tasks()
    assert cluster.coordinator.next_due_ms() == cluster.time_ms + 500
    cluster.pass_ms(499)
    assert len(cluster.deployments) == 1
    cluster.pass_ms(1)
    assert len(cluster.deployments) == 2


def test_without_a_checkpoint_the_job_starts_afresh() -> None:
    cluster = FakeCluster().run()
    cluster.fail()
    cluster.stop_tasks()
    cluster.pass_ms(50)
    assert all(deployment.restored is None for deployment in cluster.deployments[1])


def test_a_checkpoint_that_was_under_way_is_aborted_and_its_files_are_removed() -> None:
    cluster = FakeCluster().run()
    cluster.complete_checkpoint()
    cluster.pass_ms(100)
    for subtask in SUBTASKS[:2]:
        stored = cluster.stored(subtask, CheckpointId(2))
        cluster.coordinator.handle(SubtaskAcknowledged(cluster.attempt, subtask, CheckpointId(2), stored))
    assert "shared/op-totals/0-2" in cluster.files()
    cluster.fail()
    cluster.stop_tasks()
    cluster.pass_ms(50)
    assert "shared/op-totals/0-2" not in cluster.files()
    assert "shared/op-totals/0-1" in cluster.files()
    cluster.initialized()
    assert cluster.complete_checkpoint() == 3


def test_a_second_failure_while_the_tasks_stop_is_part_of_the_first() -> None:
    cluster = FakeCluster(job_spec(restart_strategy=RestartStrategies.fixed_delay_restart(1, 50))).run()
    cluster.fail(SOURCE, "first")
    cluster.fail(TOTALS[0], "second")
    cluster.stop_tasks(TOTALS[1])
    cluster.pass_ms(50)
    assert len(cluster.deployments) == 2
    assert cluster.coordinator.failure is not None
    assert cluster.coordinator.failure.cause == "first"


def test_a_failure_while_restarting_counts() -> None:
    cluster = FakeCluster(job_spec(restart_strategy=RestartStrategies.fixed_delay_restart(1, 50))).run()
    cluster.fail()
    cluster.stop_tasks()
    cluster.pass_ms(50)
    cluster.fail(SOURCE, "not again")
    assert cluster.coordinator.status is JobStatus.FAILING
    cluster.stop_tasks()
    assert cluster.coordinator.status is JobStatus.FAILED
    assert cluster.coordinator.failure is not None
    assert (
        cluster.coordinator.failure.cause == "not again (all 1 restarts of the fixed-delay strategy are used)"
    )
    assert cluster.coordinator.failure.details == "details"


def test_an_error_that_a_restart_cannot_mend_ends_the_job() -> None:
    cluster = FakeCluster().run()
    cluster.fail(is_recoverable=False)
    assert cluster.coordinator.status is JobStatus.FAILING
    cluster.stop_tasks()
    assert cluster.coordinator.status is JobStatus.FAILED
    assert len(cluster.deployments) == 1


MISTAKE = "task Totals (1/2): UserCodeError: operator Totals (1/2): open() raised TypeError: Gauge at 0x7f01"


def start_and_fail(*failures: tuple[SubtaskId, str, bool]) -> FakeCluster:
    """A job with any number of restarts, of which each attempt fails before it runs."""
    cluster = FakeCluster(job_spec(restart_strategy=RestartStrategies.fixed_delay_restart(100, 50))).start()
    for subtask, cause, is_start_error in failures:
        cluster.fail(subtask, cause, is_start_error=is_start_error)
        cluster.stop_tasks()
        cluster.pass_ms(50)
    return cluster


def test_an_error_of_the_program_that_repeats_before_the_first_record_ends_the_job() -> None:
    again = MISTAKE.replace("(1/2)", "(2/2)").replace("0x7f01", "0x3b40")
    cluster = start_and_fail((TOTALS[0], MISTAKE, True), (TOTALS[1], again, True))
    assert cluster.coordinator.status is JobStatus.FAILED
    assert len(cluster.deployments) == 2
    failure = cluster.coordinator.failure
    assert failure is not None
    assert failure.cause.startswith(again)
    assert "an earlier attempt ended in the same way before its first record" in failure.cause


@pytest.mark.parametrize(
    "failures",
    [
        [(SOURCE, "no broker", False)] * 9,
        [(TOTALS[0], MISTAKE, True)],
        [(TOTALS[0], MISTAKE, True), (TOTALS[0], MISTAKE.replace("TypeError", "NameError"), True)],
        [(TOTALS[0], MISTAKE, True), (SOURCE, MISTAKE, True)],
        [(TOTALS[0], MISTAKE, True), (TOTALS[0], MISTAKE, False)],
    ],
)
def test_other_failures_before_the_first_record_restart_the_job(
    failures: list[tuple[SubtaskId, str, bool]],
) -> None:
    cluster = start_and_fail(*failures)
    assert cluster.coordinator.status is JobStatus.RESTARTING
    assert len(cluster.deployments) == 1 + len(failures)


def test_an_error_of_the_program_does_not_count_after_the_job_has_run() -> None:
    cluster = start_and_fail((TOTALS[0], MISTAKE, True)).initialized()
    assert cluster.coordinator.status is JobStatus.RUNNING
    for cause, is_start_error in (("its node is gone", False), (MISTAKE, True)):
        cluster.fail(TOTALS[0], cause, is_start_error=is_start_error)
        cluster.stop_tasks()
        cluster.pass_ms(50)
    assert cluster.coordinator.status is JobStatus.RESTARTING


def test_the_strategy_of_the_job_has_no_memory_of_other_jobs() -> None:
    strategy = RestartStrategies.fixed_delay_restart(1, 0)
    for _ in range(2):
        cluster = FakeCluster(job_spec(restart_strategy=strategy)).run()
        cluster.fail()
        assert cluster.coordinator.status is JobStatus.RESTARTING


def test_a_finished_subtask_does_not_hold_up_the_restart() -> None:
    cluster = FakeCluster(job_spec(trigger=None, checkpoint_dir=None)).run()
    cluster.coordinator.handle(events.TaskFinished(cluster.attempt, SOURCE))
    cluster.fail(TOTALS[0])
    assert cluster.stopped[-1][1] == [TOTALS[1]]
    cluster.stop_tasks()
    cluster.pass_ms(50)
    assert len(cluster.deployments) == 2
