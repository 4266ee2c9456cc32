"""A real job's traces reach a real collector; one that is out of order costs the job nothing."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, Span, Status
from tidegate.telemetry import create_tracer
from tidegate.telemetry.otlp import MAX_QUEUED_SPANS

from .receiver import grpc_receiver, http_receiver
from .test_otlp import settings_for
from .traced_job import run_traced_job

pytestmark = pytest.mark.slow

PATIENCE_S = 20.0
"""Far less than a collector that hangs would take: each request waits 10 s for its answer."""


@contextmanager
def collector_at(endpoint: str, protocol: str = "http/protobuf") -> Iterator[None]:
    """The driver's environment names a collector, as a user's would."""
    variables = {
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": endpoint,
        "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": protocol,
    }
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables:
            del os.environ[name]


def spans_of(resource_spans: list[ResourceSpans]) -> list[Span]:
    return [span for group in resource_spans for scope in group.scope_spans for span in scope.spans]


def assert_traces_of_a_job(resource_spans: list[ResourceSpans]) -> None:
    """Whole traces, each with one root, linked, with the attributes of their job."""
    services = {
        item.value.string_value
        for group in resource_spans
        for item in group.resource.attributes
        if item.key == "service.name"
    }
    assert services == {"tidegate-coordinator", "tidegate-task"}
    spans = spans_of(resource_spans)
    by_id = {span.span_id: span for span in spans}
    roots = [span for span in spans if not span.parent_span_id]
    assert {"checkpoint", "savepoint", "recovery"} <= {root.name for root in roots}
    assert len({root.trace_id for root in roots}) == len(roots)
    for span in spans:
        if span.parent_span_id:
            parent = by_id[span.parent_span_id]
            assert span.trace_id == parent.trace_id
            assert parent.start_time_unix_nano <= span.start_time_unix_nano
            assert span.start_time_unix_nano <= span.end_time_unix_nano <= parent.end_time_unix_nano
    names = {(item.key) for span in spans for item in span.attributes}
    assert {"job.id", "checkpoint.id", "operator.name", "critical_path.cause"} <= names
    (steps, *_) = [
        item.value.array_value.values
        for root in roots
        for item in root.attributes
        if item.key == "critical_path.steps"
    ]
    assert steps[0].string_value.startswith("checkpoint.start_delay ")
    (recovery,) = [root for root in roots if root.name == "recovery"]
    assert recovery.status.code == Status.STATUS_CODE_OK


def test_the_traces_of_a_job_arrive_over_http(tmp_path: Path) -> None:
    with http_receiver() as receiver, collector_at(f"{receiver.url}/v1/traces"):
        traces = run_traced_job(tmp_path)
        assert_traces_of_a_job(receiver.resource_spans)
    assert len(spans_of(receiver.resource_spans)) == sum(len(trace["spans"]) for trace in traces)


def test_the_traces_of_a_job_arrive_over_grpc(tmp_path: Path) -> None:
    with grpc_receiver() as receiver, collector_at(receiver.url, "grpc"):
        traces = run_traced_job(tmp_path)
        assert_traces_of_a_job(receiver.resource_spans)
    assert len(spans_of(receiver.resource_spans)) == sum(len(trace["spans"]) for trace in traces)


def assert_unharmed(directory: Path, url: str, caplog: pytest.LogCaptureFixture) -> None:
    """The job ends as it does without a collector, soon, with its local traces, and one warning."""
    started_s = time.monotonic()
    with caplog.at_level(logging.INFO, "tidegate.telemetry"):
        traces = run_traced_job(directory, fails=False)
    assert time.monotonic() - started_s < PATIENCE_S
    assert {span["operationName"] for trace in traces for span in trace["spans"]} >= {
        "checkpoint",
        "savepoint",
    }
    assert [record.levelname for record in caplog.records if "opentelemetry" in record.name] == []
    assert caplog.text.count(f"collector at {url} takes no spans") == 1


def test_a_collector_that_hangs_over_http_costs_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with http_receiver() as receiver, collector_at(f"{receiver.url}/v1/traces"):
        receiver.may_answer.clear()
        assert_unharmed(tmp_path, f"{receiver.url}/v1/traces", caplog)


def test_a_collector_that_hangs_over_grpc_costs_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with grpc_receiver() as receiver, collector_at(receiver.url, "grpc"):
        receiver.may_answer.clear()
        assert_unharmed(tmp_path, receiver.url, caplog)


def test_a_collector_that_is_down_costs_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with socket.socket() as listener:
        # Bound but not listening: connections are refused, and nobody else can take the port.
        listener.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1/traces"
        with collector_at(url):
            assert_unharmed(tmp_path, url, caplog)


def test_a_collector_that_refuses_costs_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with http_receiver() as receiver, collector_at(f"{receiver.url}/v1/traces"):
        receiver.status = 403
        assert_unharmed(tmp_path, f"{receiver.url}/v1/traces", caplog)
    assert receiver.paths


def test_while_a_collector_hangs_only_the_newest_spans_are_kept() -> None:
    with http_receiver() as receiver:
        receiver.may_answer.clear()
        tracer = create_tracer("coordinator", otlp=settings_for(receiver.url))
        count = 3 * MAX_QUEUED_SPANS
        for number in range(count):
            tracer.start_root("checkpoint", {"checkpoint.id": number}).end()
        receiver.may_answer.set()
        for _ in range(2):
            # After the second one the first has come back: the collector is in order again.
            assert receiver.answered.acquire(timeout=60)
        tracer.close(timeout_ms=60_000)
    kept = [item.value.int_value for span in spans_of(receiver.resource_spans) for item in span.attributes]
    # The queue, and the requests that were under way when it filled.
    assert MAX_QUEUED_SPANS <= len(kept) <= MAX_QUEUED_SPANS + 1_024
    assert kept[-1] == count - 1
