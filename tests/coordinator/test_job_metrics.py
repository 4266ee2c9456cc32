"""The coordinator keeps the newest metrics of each subtask, and how fast they change."""

from __future__ import annotations

from tidegate.connectors.collection import CollectionSource
from tidegate.coordinator.monitoring.job_metrics import JobMetrics, SubtaskSample
from tidegate.operators.elementwise import MapOperator
from tidegate.protocol import task_events as events
from tidegate.protocol.ids import Attempt, SubtaskId
from tidegate.protocol.task_metrics import ProcessMetrics, TaskMetrics, TaskRates

from .fakes import SOURCE, FakeCluster
from .test_local_executor import executor

SUBTASK = SubtaskId("task-1", 0)


def said(attempt: int, metrics: TaskMetrics) -> ProcessMetrics:
    return ProcessMetrics(Attempt(attempt), "host-1", 4711, {SUBTASK: metrics})


def test_rates_are_those_between_the_last_two_samples() -> None:
    job = JobMetrics()
    job.begin(Attempt(1))
    assert job.of(SUBTASK) == SubtaskSample()
    job.update(said(1, TaskMetrics(records_in=100, busy_ms=500, idle_ms=500)), 1_000)
    assert (job.of(SUBTASK).rates, job.of(SUBTASK).taken_ms) == (TaskRates(), 1_000)
    newest = TaskMetrics(
        records_in=400, records_out=8, bytes_in=2_000, busy_ms=900, backpressured_ms=1_000, idle_ms=1_100
    )
    job.update(said(1, newest), 3_050)
    rates = TaskRates(
        records_in=150.0,
        records_out=4.0,
        bytes_in=1_000.0,
        busy_ms=200.0,
        backpressured_ms=500.0,
        idle_ms=300.0,
    )
    assert job.of(SUBTASK) == SubtaskSample(newest, rates, 3_050, "host-1", 4711)


def test_a_new_attempt_begins_without_rates_and_an_old_one_is_not_heard() -> None:
    job = JobMetrics()
    job.begin(Attempt(1))
    job.update(said(1, TaskMetrics(records_in=1_000, busy_ms=1_000)), 1_000)
    job.begin(Attempt(2))
    assert job.of(SUBTASK) == SubtaskSample()
    job.update(said(1, TaskMetrics(records_in=2_000, busy_ms=2_000)), 2_000)
    assert job.of(SUBTASK) == SubtaskSample()
    job.update(said(2, TaskMetrics(records_in=5, busy_ms=10)), 2_500)
    first = TaskMetrics(records_in=5, busy_ms=10)
    assert job.of(SUBTASK) == SubtaskSample(first, TaskRates(), 2_500, "host-1", 4711)


def test_two_samples_of_one_moment_give_no_rate() -> None:
    job = JobMetrics()
    job.begin(Attempt(1))
    for _ in range(2):
        job.update(said(1, TaskMetrics(records_in=100, busy_ms=500)), 1_000)
    assert job.of(SUBTASK).rates == TaskRates()


def test_a_restart_of_the_job_forgets_what_the_last_attempt_said() -> None:
    cluster = FakeCluster().run()
    taken = ProcessMetrics(cluster.attempt, "host-1", 4711, {SOURCE: TaskMetrics(records_in=7)})
    cluster.coordinator.metrics.update(taken, 1)
    assert cluster.coordinator.metrics.of(SOURCE).metrics.records_in == 7
    cluster.fail()
    cluster.stop_tasks()
    cluster.pass_ms(50)
    assert cluster.coordinator.metrics.of(SOURCE).metrics.records_in == 0


def test_what_a_subtask_said_at_its_end_stays_and_its_rates_are_nothing() -> None:
    cluster = FakeCluster().run()
    last = TaskMetrics(records_in=9, busy_ms=3)
    cluster.coordinator.handle(events.TaskFinished(cluster.attempt, SOURCE, last))
    assert cluster.coordinator.metrics.of(SOURCE) == SubtaskSample(last, TaskRates(), cluster.time_ms)


def test_a_job_in_the_local_shell_ends_with_the_counts_of_all_its_records() -> None:
    job = executor(CollectionSource(range(1_000)), MapOperator(str), parallelism=2)
    job.run()
    source, *maps, sink = (
        job.coordinator.metrics.of(SubtaskId(task, index)).metrics
        for task, index in [("task-0", 0), ("task-1", 0), ("task-1", 1), ("task-2", 0)]
    )
    assert (source.records_in, source.records_out) == (1_000, 1_000)
    assert sum(each.records_in for each in maps) == sum(each.records_out for each in maps) == 1_000
    assert all(each.records_in for each in maps)
    assert (sink.records_in, sink.records_out) == (1_000, 0)
    assert sum(each.bytes_out for each in maps) == sink.bytes_in > 0
    assert sink.input_bytes == 0
