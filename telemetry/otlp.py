"""Finished spans over OTLP, through OpenTelemetry's own batching and exporters."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from functools import lru_cache
from importlib import import_module
from typing import Any

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


MAX_QUEUED_SPANS = 8_192
"""A checkpoint of a thousand subtasks has about as many."""

_HANGS_AFTER_S = 1.0
"""A request without an answer for so long is not waited for at the end of the job."""


class OtlpSpanExporter:
    """Queues spans (8,192 at most, then the oldest go) and sends them on a thread of its own."""

    def __init__(self, collector: CollectorExporter) -> None:
        self.collector = collector
        self._processor = BatchSpanProcessor(collector, max_queue_size=MAX_QUEUED_SPANS)

    def export(self, span: FinishedSpan) -> None:
        """Queue one span; never waits for the collector."""
        self._processor.on_end(to_readable_span(span))

    def close(self, timeout_ms: int) -> None:
        """Send what is queued; a collector that is out of order is given up, others after `timeout_ms`."""
        is_hopeless = self.collector.is_out_of_order
        # The processor waits up to 30 s and takes no timeout.
        closing = threading.Thread(target=self._processor.shutdown, daemon=True)
        closing.start()
        closing.join(0 if is_hopeless else timeout_ms / 1_000)
        if closing.is_alive():
            self.collector.give_up()


class CollectorExporter(SpanExporter):
    """Says once that the collector takes no spans, and once that it does again."""

    def __init__(self, exporter: SpanExporter, endpoint: str) -> None:
        self._exporter = exporter
        self._endpoint = endpoint
        self._lock = threading.Lock()
        self._is_failing = False
        self._is_shut_down = False
        self._sending_since_s = 0.0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self._sending_since_s = time.monotonic()
        try:
            result = self._exporter.export(spans)
        finally:
            self._sending_since_s = 0.0
        if result is not SpanExportResult.SUCCESS:
            self._failed()
        elif self._is_failing:
            self._is_failing = False
            logger.info("The OTLP collector at %s takes spans again", self._endpoint)
        return result

    def _failed(self) -> None:
        with self._lock:
            was_failing, self._is_failing = self._is_failing, True
        if not was_failing:
            logger.warning(
                "The OTLP collector at %s takes no spans; the job and its trace file go on without "
                "it. The logger 'opentelemetry.exporter.otlp' at level ERROR shows the cause.",
                self._endpoint,
            )

    @property
    def is_out_of_order(self) -> bool:
        """Whether the last request failed, or one has waited for its answer for a while."""
        since_s = self._sending_since_s
        return self._is_failing or (since_s > 0 and time.monotonic() - since_s > _HANGS_AFTER_S)

    def give_up(self) -> None:
        """End what is under way; what is queued is lost."""
        self._failed()
        self.shutdown()

    def shutdown(self) -> None:
        if not self._is_shut_down:
            self._is_shut_down = True
            self._exporter.shutdown()


def create_otlp_exporter(settings: OtlpSettings) -> OtlpSpanExporter | None:
    """An exporter for `settings`, or None, with a warning, where it cannot be had."""
    exporter = protocol_exporter(settings, "Spans", "trace_exporter", "OTLPSpanExporter")
    return None if exporter is None else OtlpSpanExporter(CollectorExporter(exporter, settings.endpoint))


def protocol_exporter(settings: OtlpSettings, what: str, module: str, name: str) -> Any:
    """OpenTelemetry's exporter for the protocol of `settings`; None, with a warning, if there is none.

    Args:
        settings: The collector and the protocol.
        what: The data, for the warning.
        module: The exporter's module in the package of each protocol.
        name: Its class.
    """
    try:
        if settings.protocol not in (DEFAULT_PROTOCOL, "grpc"):
            raise ValueError(
                f"the OTLP protocol {settings.protocol!r} is not supported; "
                f"set OTEL_EXPORTER_OTLP_PROTOCOL to '{DEFAULT_PROTOCOL}' or 'grpc'"
            )
        package = "http" if settings.protocol == DEFAULT_PROTOCOL else "grpc"
        exporters = import_module(f"opentelemetry.exporter.otlp.proto.{package}.{module}")
        exporter = getattr(exporters, name)(endpoint=settings.endpoint, headers=dict(settings.headers))
    except ImportError as error:
        logger.warning(
            "%s are not exported to %s: %s. Install the extra: pip install 'tidegate[otlp]'",
            what,
            settings.endpoint,
            error,
        )
        return None
    except ValueError as error:
        logger.warning("%s are not exported to %s: %s", what, settings.endpoint, error)
        return None
    quieten_exporters()
    return exporter


def quieten_exporters() -> None:
    """Without this, every batch that finds no collector adds a handful of lines to the job's log."""
    for name, level in (
        ("opentelemetry.exporter.otlp", logging.CRITICAL),
        # Says once a minute that its queue is full.
        ("opentelemetry.sdk", logging.ERROR),
    ):
        library_logger = logging.getLogger(name)
        if library_logger.level == logging.NOTSET:
            library_logger.setLevel(level)


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
