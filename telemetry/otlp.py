"""Finished spans over OTLP, through OpenTelemetry's own batching and exporters."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from functools import lru_cache

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from .settings import DEFAULT_PROTOCOL, OtlpSettings
from .spans import Attributes, AttributeValue, FinishedSpan

logger = logging.getLogger(__name__)

_SCOPE = InstrumentationScope("tidegate")
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)


class OtlpSpanExporter:
    """Queues spans (2,048 at most, then the oldest go) and sends them on a thread of its own."""

    def __init__(self, span_exporter: SpanExporter) -> None:
        self.span_exporter = span_exporter
        self._processor = BatchSpanProcessor(span_exporter)

    def export(self, span: FinishedSpan) -> None:
        """Queue one span; never waits for the collector."""
        self._processor.on_end(to_readable_span(span))

    def close(self, timeout_ms: int) -> None:
        """Send what is queued; a collector that does not answer is given up after `timeout_ms`."""
        # The processor waits up to 30 s and takes no timeout; the exporter's own shutdown ends its
        # retries at once.
        closing = threading.Thread(target=self._processor.shutdown, daemon=True)
        closing.start()
        closing.join(timeout_ms / 1_000)
        if closing.is_alive():
            self.span_exporter.shutdown()
            closing.join(timeout_ms / 1_000)


class _OutageReporter(SpanExporter):
    """Says once that the collector takes no spans, and once that it does again."""

    def __init__(self, exporter: SpanExporter, endpoint: str) -> None:
        self._exporter = exporter
        self._endpoint = endpoint
        self._is_failing = False
        self._is_shut_down = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._exporter.export(spans)
        is_failing = result is not SpanExportResult.SUCCESS
        if is_failing and not self._is_failing:
            logger.warning(
                "The OTLP collector at %s takes no spans; the job and its trace file go on without "
                "it. The logger 'opentelemetry.exporter.otlp' at level ERROR shows the cause.",
                self._endpoint,
            )
        elif self._is_failing and not is_failing:
            logger.info("The OTLP collector at %s takes spans again", self._endpoint)
        self._is_failing = is_failing
        return result

    def shutdown(self) -> None:
        if not self._is_shut_down:
            self._is_shut_down = True
            self._exporter.shutdown()


def create_otlp_exporter(settings: OtlpSettings) -> OtlpSpanExporter | None:
    """An exporter for `settings`, or None, with a warning, where it cannot be had."""
    try:
        exporter = _create_protocol_exporter(settings)
    except ImportError as error:
        logger.warning(
            "Spans are not exported to %s: %s. Install the extra: pip install 'tidegate[otlp]'",
            settings.endpoint,
            error,
        )
        return None
    except ValueError as error:
        logger.warning("Spans are not exported to %s: %s", settings.endpoint, error)
        return None
    quieten_exporters()
    return OtlpSpanExporter(_OutageReporter(exporter, settings.endpoint))


def quieten_exporters() -> None:
    """Without this, every batch that finds no collector adds a handful of lines to the job's log."""
    otlp_logger = logging.getLogger("opentelemetry.exporter.otlp")
    if otlp_logger.level == logging.NOTSET:
        otlp_logger.setLevel(logging.CRITICAL)


def unsupported_protocol(settings: OtlpSettings) -> ValueError:
    """The error for a protocol that there is no exporter for."""
    return ValueError(
        f"the OTLP protocol {settings.protocol!r} is not supported; "
        f"set OTEL_EXPORTER_OTLP_PROTOCOL to '{DEFAULT_PROTOCOL}' or 'grpc'"
    )


def _create_protocol_exporter(settings: OtlpSettings) -> SpanExporter:
    headers = dict(settings.headers)
    if settings.protocol == DEFAULT_PROTOCOL:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import (
            OTLPSpanExporter as HttpSpanExporter,
        )

        return HttpSpanExporter(endpoint=settings.endpoint, headers=headers)
    if settings.protocol == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import (
            OTLPSpanExporter as GrpcSpanExporter,
        )

        return GrpcSpanExporter(endpoint=settings.endpoint, headers=headers)
    raise unsupported_protocol(settings)


def to_readable_span(span: FinishedSpan) -> ReadableSpan:
    """The span as OpenTelemetry's SDK has it, with the ids and times it was finished with."""
    parent_span_id = span["parent_span_id"]
    error = span["error"]
    return ReadableSpan(
        name=span["name"],
        context=_span_context(span["trace_id"], span["span_id"], is_remote=False),
        parent=None
        if parent_span_id is None
        else _span_context(span["trace_id"], parent_span_id, is_remote=True),
        resource=_resource(span["service_name"], tuple(sorted(span["resource"].items()))),
        attributes=span["attributes"],
        kind=SpanKind.INTERNAL,
        instrumentation_scope=_SCOPE,
        status=Status(StatusCode.OK if error is None else StatusCode.ERROR, error),
        start_time=span["start_unix_ns"],
        end_time=span["end_unix_ns"],
    )


def _span_context(trace_id: str, span_id: str, *, is_remote: bool) -> SpanContext:
    return SpanContext(int(trace_id, 16), int(span_id, 16), is_remote, _SAMPLED)


@lru_cache(maxsize=1_024)
def _resource(service_name: str, items: tuple[tuple[str, AttributeValue], ...]) -> Resource:
    attributes: Attributes = dict(items)
    return Resource.create({**attributes, "service.name": service_name})
