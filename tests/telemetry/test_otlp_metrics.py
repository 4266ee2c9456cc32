"""Metrics reach a real receiver of OTLP, and one that is down or hangs costs the job nothing."""

from __future__ import annotations

import logging
import socket
import time

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import ResourceMetrics
from tidegate.telemetry.metric_families import MetricFamilies, MetricFamily
from tidegate.telemetry.metric_settings import OtlpMetricSettings
from tidegate.telemetry.otlp_metrics import OtlpMetricReader, open_otlp_metric_reader
from tidegate.telemetry.settings import OtlpSettings

from .receiver import http_receiver

NEVER_MS = 3_600_000


def families() -> list[MetricFamily]:
    found = MetricFamilies()
    found.add(("jobmanager", "job", "numRestarts"), "Restarts.", {"job_id": "j1"}, 3)
    found.add(("taskmanager", "job", "task", "busyTimeMsPerSecond"), "Busy.", {"subtask_index": "0"}, 12.5)
    return found.all()


def reader(endpoint: str, interval_ms: int = NEVER_MS) -> OtlpMetricReader:
    settings = OtlpMetricSettings(OtlpSettings(endpoint, headers={"x-token": "secret"}), interval_ms)
    opened = open_otlp_metric_reader(settings, {"service.name": "tidegate-coordinator"}, families)
    assert opened is not None
    return opened


def values(received: ResourceMetrics) -> dict[str, float]:
    """The value of each metric, by its name and labels."""
    found = {}
    for scope in received.scope_metrics:
        for metric in scope.metrics:
            for point in metric.gauge.data_points:
                labels = ",".join(f"{item.key}={item.value.string_value}" for item in point.attributes)
                number = point.as_int if point.HasField("as_int") else point.as_double
                found[f"{metric.name}{{{labels}}}"] = number
    return found


def test_a_collector_gets_the_last_metrics_when_the_job_ends() -> None:
    with http_receiver() as receiver:
        reader(f"{receiver.url}/v1/metrics").close()
        (received,) = receiver.resource_metrics
    assert values(received) == {
        "tidegate.jobmanager.job.numRestarts{job_id=j1}": 3,
        "tidegate.taskmanager.job.task.busyTimeMsPerSecond{subtask_index=0}": 12.5,
    }
    resource = {item.key: item.value.string_value for item in received.resource.attributes}
    assert resource["service.name"] == "tidegate-coordinator"
    assert receiver.paths == ["/v1/metrics"]
    assert receiver.tokens == ["secret"]


def test_metrics_are_sent_at_every_interval_and_an_outage_is_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with http_receiver() as receiver, caplog.at_level(logging.INFO, "tidegate.telemetry"):
        receiver.status = 400
        opened = reader(f"{receiver.url}/v1/metrics", interval_ms=5)
        for _ in range(3):
            assert receiver.answered.acquire(timeout=60)
        receiver.status = 200
        for _ in range(2):
            assert receiver.answered.acquire(timeout=60)
        opened.close()
    assert receiver.resource_metrics
    assert caplog.text.count("takes no metrics") == 1
    assert caplog.text.count("takes metrics again") == 1
    assert "secret" not in caplog.text


def test_a_collector_that_hangs_is_given_up_at_the_end() -> None:
    with http_receiver() as receiver:
        receiver.may_answer.clear()
        opened = reader(f"{receiver.url}/v1/metrics", interval_ms=1)
        started = time.monotonic()
        opened.close(timeout_ms=100)
        # The exporter itself would wait for 10 s, and try again.
        assert time.monotonic() - started < 5


def test_a_collector_that_is_down_is_given_up_at_the_end() -> None:
    with socket.socket() as listener:
        # Bound but not listening: connections are refused, and nobody else can take the port.
        listener.bind(("127.0.0.1", 0))
        opened = reader(f"http://127.0.0.1:{listener.getsockname()[1]}/v1/metrics", interval_ms=1)
        started = time.monotonic()
        opened.close(timeout_ms=100)
        assert time.monotonic() - started < 5


def test_an_unknown_protocol_is_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    settings = OtlpMetricSettings(OtlpSettings("http://127.0.0.1:9", "http/json"))
    assert open_otlp_metric_reader(settings, {}, families) is None
    (message,) = (text for text in caplog.messages if "127.0.0.1:9" in text)
    assert "'http/json' is not supported" in message
