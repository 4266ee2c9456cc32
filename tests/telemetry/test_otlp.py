"""A real OTLP receiver, as small as can be, gets what the tracer sends."""

from __future__ import annotations

import logging
import socket
import time

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, Span, Status
from tidegate.telemetry import FinishedSpan, OtlpSettings, create_tracer

from .receiver import grpc_receiver, http_receiver


def spans_by_service(resource_spans: list[ResourceSpans]) -> dict[tuple[str, str], Span]:
    """Each received span under (service name, span name)."""
    found = {}
    for group in resource_spans:
        attributes = {item.key: item.value for item in group.resource.attributes}
        for scope in group.scope_spans:
            for span in scope.spans:
                found[attributes["service.name"].string_value, span.name] = span
    return found


def settings_for(endpoint: str, protocol: str = "http/protobuf") -> OtlpSettings:
    settings = OtlpSettings.from_environment(
        {
            "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint,
            "OTEL_EXPORTER_OTLP_PROTOCOL": protocol,
            "OTEL_EXPORTER_OTLP_HEADERS": "x-token=a%20b",
        }
    )
    assert settings is not None
    return settings


def run_one_checkpoint(settings: OtlpSettings) -> list[FinishedSpan]:
    """A root at the coordinator, a part of a task, a failed end; returns what the sink got."""
    local: list[FinishedSpan] = []
    from_task: list[FinishedSpan] = []
    coordinator = create_tracer("coordinator", {"process.pid": 1}, local.append, settings)
    task = create_tracer("task", {"process.pid": 2}, from_task.append)
    root = coordinator.start_root("checkpoint", {"checkpoint.id": 3}, start_unix_ns=10)
    task.record_span("checkpoint.sync", root.context, 20, 30, {"operator.uid": "map-1"})
    coordinator.forward(from_task)
    root.end(error="declined by map (1/2)", end_unix_ns=50)
    coordinator.close()
    return local


def assert_one_checkpoint(resource_spans: list[ResourceSpans]) -> None:
    received = spans_by_service(resource_spans)
    root, child = received["coordinator", "checkpoint"], received["task", "checkpoint.sync"]
    assert len(received) == 2
    assert root.parent_span_id == b""
    assert child.parent_span_id == root.span_id
    assert child.trace_id == root.trace_id
    assert (child.start_time_unix_nano, child.end_time_unix_nano) == (20, 30)
    assert [(item.key, item.value.string_value) for item in child.attributes] == [("operator.uid", "map-1")]
    assert root.status.code == Status.STATUS_CODE_ERROR
    assert root.status.message == "declined by map (1/2)"
    assert child.status.code == Status.STATUS_CODE_OK


def test_a_collector_over_http_gets_the_spans_under_the_right_parents() -> None:
    with http_receiver() as receiver:
        local = run_one_checkpoint(settings_for(receiver.url))
        assert_one_checkpoint(receiver.resource_spans)
    assert set(receiver.paths) == {"/v1/traces"}
    assert set(receiver.tokens) == {"a b"}
    assert [span["name"] for span in local] == ["checkpoint.sync", "checkpoint"]


def test_a_collector_over_grpc_gets_the_spans_under_the_right_parents() -> None:
    with grpc_receiver() as receiver:
        run_one_checkpoint(settings_for(receiver.url, "grpc"))
    assert_one_checkpoint(receiver.resource_spans)


def test_a_failing_local_listener_keeps_nothing_from_the_collector() -> None:
    def broken(span: FinishedSpan) -> None:
        raise RuntimeError("listener broke")

    with http_receiver() as receiver:
        tracer = create_tracer("coordinator", None, broken, settings_for(receiver.url))
        tracer.start_root("checkpoint").end()
        tracer.close()
        assert len(spans_by_service(receiver.resource_spans)) == 1


def test_a_dead_collector_delays_nothing_and_loses_nothing_else() -> None:
    with socket.socket() as listener:
        # Bound but not listening: connections are refused, and nobody else can take the port.
        listener.bind(("127.0.0.1", 0))
        local: list[FinishedSpan] = []
        endpoint = f"http://127.0.0.1:{listener.getsockname()[1]}"
        tracer = create_tracer("coordinator", None, local.append, settings_for(endpoint))

        started = time.monotonic()
        for _ in range(5_000):
            tracer.start_root("checkpoint").end()
        recorded = time.monotonic()
        tracer.close(timeout_ms=200)
        closed = time.monotonic()

    assert len(local) == 5_000
    # A single attempt with its retries lasts up to ten seconds, so these bounds are far from both.
    assert recorded - started < 4
    assert closed - recorded < 4


def test_a_collector_that_refuses_is_reported_once_and_its_return_too(
    caplog: pytest.LogCaptureFixture,
) -> None:
    from opentelemetry.sdk.trace.export import SpanExportResult
    from tidegate.telemetry.otlp import create_otlp_exporter, to_readable_span

    spans: list[FinishedSpan] = []
    create_tracer("coordinator", sink=spans.append).start_root("checkpoint").end()
    batch = [to_readable_span(spans[0])]
    with http_receiver() as receiver, caplog.at_level(logging.INFO, "tidegate.telemetry"):
        otlp = create_otlp_exporter(settings_for(receiver.url))
        assert otlp is not None
        receiver.status = 400
        results = [otlp.collector.export(batch), otlp.collector.export(batch)]
        receiver.status = 200
        results.append(otlp.collector.export(batch))
        otlp.close(timeout_ms=2_000)

    failure, success = SpanExportResult.FAILURE, SpanExportResult.SUCCESS
    assert results == [failure, failure, success]
    assert caplog.text.count(f"{receiver.url}/v1/traces takes no spans") == 1
    assert caplog.text.count(f"{receiver.url}/v1/traces takes spans again") == 1


def test_an_unknown_protocol_is_one_warning_that_names_the_choices(
    caplog: pytest.LogCaptureFixture,
) -> None:
    local: list[FinishedSpan] = []
    settings = settings_for("http://127.0.0.1:9", "http/json")
    tracer = create_tracer("coordinator", None, local.append, settings)
    tracer.start_root("checkpoint").end()
    tracer.close()
    assert len(local) == 1
    (message,) = (text for text in caplog.messages if settings.endpoint in text)
    assert "'http/json' is not supported" in message
    assert "'grpc'" in message


def test_the_variables_for_traces_win_over_the_general_ones() -> None:
    settings = OtlpSettings.from_environment(
        {
            "OTEL_EXPORTER_OTLP_ENDPOINT": "http://general:4318/",
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://traces:4318/custom",
            "OTEL_EXPORTER_OTLP_TRACES_HEADERS": "Authorization=Bearer%20x",
        }
    )
    assert settings == OtlpSettings(
        "http://traces:4318/custom", "http/protobuf", {"authorization": "Bearer x"}
    )
    assert "Bearer" not in repr(settings)


@pytest.mark.parametrize(
    "environ",
    [{}, {"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://somewhere:4318"}],
)
def test_nothing_is_exported_unless_an_endpoint_is_set(environ: dict[str, str]) -> None:
    assert OtlpSettings.from_environment(environ) is None
