"""What is exposed of a job, with which names, labels and values."""

from __future__ import annotations

import logging
import urllib.request
from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tidegate.coordinator.monitoring.job_metric_families import JobMetricFamilies
from tidegate.coordinator.monitoring.job_reporters import JobReporters
from tidegate.protocol.elements import MAX_WATERMARK_MS
from tidegate.protocol.stages.stage_reports import PhaseTotals, RunTotals, StageReport
from tidegate.protocol.task_metrics import MetricScope, ProcessMetrics, TaskMetrics
from tidegate.telemetry.metric_families import MetricFamily
from tidegate.telemetry.metric_settings import OtlpMetricSettings, PrometheusSettings
from tidegate.telemetry.settings import OtlpSettings

from ..telemetry.receiver import http_receiver
from .fakes import TOTALS, FakeCluster

JOB = "tidegate_jobmanager_job_"
TASK = "tidegate_taskmanager_job_task_"


def say(cluster: FakeCluster, metrics: TaskMetrics) -> None:
    taken = ProcessMetrics(cluster.attempt, "host-1", 4711, {TOTALS[1]: metrics})
    cluster.coordinator.metrics.update(taken, cluster.time_ms)


def take(cluster: FakeCluster) -> dict[str, MetricFamily]:
    return {family.prometheus_name: family for family in JobMetricFamilies(cluster.coordinator).take()}


def value(cluster: FakeCluster, name: str) -> float | None:
    family = take(cluster).get(name)
    return None if family is None else family.samples[0][1]


def test_a_subtask_is_told_by_its_labels() -> None:
    cluster = FakeCluster().run()
    say(cluster, TaskMetrics(records_in=7))
    (sample,) = take(cluster)[TASK + "numRecordsIn"].samples
    assert sample == (
        {
            "job_id": "job",
            "job_name": "flights",
            "host": "host-1",
            "task_id": "task-2",
            "task_name": "Totals",
            "subtask_index": "1",
            "task_attempt_num": "0",
        },
        7,
    )


def test_counts_times_and_rates_of_a_subtask() -> None:
    cluster = FakeCluster().run()
    first = TaskMetrics(
        records_in=7, busy_ms=100, backpressured_ms=300, idle_ms=600, timers=2, late_records=1
    )
    say(cluster, first)
    say(
        cluster, replace(first, records_in=107, bytes_out=50, busy_ms=1_100, state_bytes=4_096, input_bytes=9)
    )
    found = {name: family.samples[0][1] for name, family in take(cluster).items() if name.startswith(TASK)}
    wanted = {
        "numRecordsIn": 107,
        "numRecordsInPerSecond": 100.0,
        "numBytesOutPerSecond": 50.0,
        "busyTimeMsPerSecond": 1_000.0,
        "backPressuredTimeMsPerSecond": 0.0,
        "accumulateBackPressuredTimeMs": 300,
        "stateSize": 4_096,
        "inputQueueSize": 9,
        "numRegisteredTimers": 2,
        "numLateRecordsDropped": 1,
    }
    assert {name: found[TASK + name] for name in wanted} == wanted


def test_the_lag_of_a_watermark_is_that_behind_the_clock_while_there_is_one() -> None:
    cluster = FakeCluster().run()
    for watermark_ms in (None, MAX_WATERMARK_MS):
        say(cluster, TaskMetrics(watermark_ms=watermark_ms))
        assert value(cluster, TASK + "currentInputWatermark") is None
    say(cluster, TaskMetrics(watermark_ms=200))
    assert value(cluster, TASK + "currentInputWatermark") == 200
    assert value(cluster, TASK + "watermarkLag") == cluster.time_ms - 200


def test_checkpoints_have_the_names_of_flink() -> None:
    cluster = FakeCluster().run()
    assert value(cluster, JOB + "totalNumberOfCheckpoints") == 0
    assert value(cluster, JOB + "lastCheckpointDuration") is None
    cluster.pass_ms(100)
    assert value(cluster, JOB + "numberOfInProgressCheckpoints") == 1
    cluster.acknowledge()
    completed = cluster.coordinator.statistics.latest_completed
    assert completed is not None
    assert value(cluster, JOB + "lastCompletedCheckpointId") == completed.checkpoint_id
    assert value(cluster, JOB + "lastCheckpointDuration") == completed.duration_ms
    assert value(cluster, JOB + "lastCheckpointFullSize") == completed.size_bytes > 0
    cluster.pass_ms(100)
    cluster.pass_ms(1_000)
    assert value(cluster, JOB + "numberOfCompletedCheckpoints") == 1
    assert value(cluster, JOB + "numberOfFailedCheckpoints") == 1


def test_a_restart_counts_and_its_subtasks_are_of_the_next_attempt() -> None:
    cluster = FakeCluster().run()
    assert value(cluster, JOB + "runningState") == 1
    cluster.time_ms += 500
    assert value(cluster, JOB + "uptime") == 500
    say(cluster, TaskMetrics(records_in=7))
    cluster.fail()
    assert (value(cluster, JOB + "runningState"), value(cluster, JOB + "uptime")) == (0, 0)
    cluster.stop_tasks()
    cluster.pass_ms(50)
    cluster.initialized()
    assert value(cluster, JOB + "numRestarts") == 1
    assert value(cluster, TASK + "numRecordsIn") is None
    say(cluster, TaskMetrics(records_in=1))
    (labels, count) = take(cluster)[TASK + "numRecordsIn"].samples[0]
    assert (labels["task_attempt_num"], count) == ("1", 1)


def test_a_users_metric_has_the_labels_of_its_operator_and_a_doubled_name_is_one_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = FakeCluster().run()
    scope = MetricScope("Sum", "totals", ("orders", "new ones"), {"orders": "fr"})
    twin = MetricScope("Sum", "totals", ("orders", "new_ones"), {"orders": "fr"})
    user = {"Sum.orders.fr.new ones": 3, "Sum.orders.fr.new_ones": 4}
    say(cluster, TaskMetrics(user=user, scopes=dict(zip(user, (scope, twin), strict=True))))
    families = JobMetricFamilies(cluster.coordinator)
    with caplog.at_level(logging.WARNING, "tidegate"):
        for _ in range(2):
            found = {family.prometheus_name: family for family in families.take()}
    ((labels, number),) = found[TASK + "operator_orders_new_ones"].samples
    assert number == 3
    assert (labels["operator_name"], labels["operator_id"], labels["orders"]) == ("Sum", "totals", "fr")
    (message,) = caplog.messages
    assert "orders_new_ones" in message


def test_the_page_of_a_job_is_told_and_closed_with_it() -> None:
    cluster = FakeCluster().run()
    say(cluster, TaskMetrics(records_in=7))
    with http_receiver() as receiver:
        collector = OtlpSettings(f"{receiver.url}/v1/metrics")
        reporters = JobReporters(
            cluster.coordinator, PrometheusSettings((0,)), OtlpMetricSettings(collector, 3_600_000)
        )
        url = cluster.coordinator.metrics.url
        with urllib.request.urlopen(url, timeout=120) as answer:
            page = {family.name for family in text_string_to_metric_families(answer.read().decode())}
        reporters.close()
        (received,) = receiver.resource_metrics
    sent = {metric.name for scope in received.scope_metrics for metric in scope.metrics}
    assert page == set(take(cluster)) == {name.replace(".", "_") for name in sent}
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(url, timeout=120)


def test_a_job_without_reporters_has_no_page() -> None:
    cluster = FakeCluster().run()
    JobReporters(cluster.coordinator, None, None).close()
    assert cluster.coordinator.metrics.url == ""


def test_the_epochs_of_a_stage_are_metrics_of_its_operator() -> None:
    cluster = FakeCluster().run()
    stage = StageReport(
        "uid-join",
        "join",
        gathering=PhaseTotals(1, 12, 96, 5),
        waiting=PhaseTotals(2, 20, 160, 3),
        running=PhaseTotals(1, 10, 80, 2),
        emitting=PhaseTotals(1, 10, 0, 1),
        buffered_bytes=336,
        buffer_limit_bytes=1_000,
        records_in=52,
        records_out=4,
        runs=RunTotals(1, 250, 250),
    )
    before_a_run = replace(stage, operator_uid="uid-other", operator_name="other", runs=RunTotals())
    say(cluster, TaskMetrics(stages=(stage, before_a_run)))
    families = take(cluster)
    prefix = TASK + "operator_"
    found = {name.removeprefix(prefix): family for name, family in families.items() if prefix in name}
    assert {name: family.samples[0][1] for name, family in found.items()} == {
        "numRecordsIn": 52,
        "numRecordsOut": 4,
        "numRecordsGathered": 12,
        "numBytesGathered": 96,
        "numEpochsWaiting": 2,
        "numEpochsRunning": 1,
        "numEpochsEmitting": 1,
        "bufferSize": 336,
        "maxBufferSize": 1_000,
        "numEpochsRun": 1,
        "lastEpochTimeMs": 250,
        "accumulateEpochTimeMs": 250,
    }
    labels = found["numEpochsRunning"].samples[0][0]
    assert (labels["operator_id"], labels["operator_name"]) == ("uid-join", "join")
    assert labels["subtask_index"] == "1"
    # A stage that has run nothing has no time of its last epoch.
    counts = {name: len(family.samples) for name, family in found.items()}
    assert counts.pop("lastEpochTimeMs") == 1
    assert set(counts.values()) == {2}
