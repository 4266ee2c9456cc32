"""The tracer of coordinator and tasks: spans in, plain finished spans out.

A checkpoint is one trace. The coordinator starts its root span and puts the root's `context` (a
W3C `traceparent`) into the barrier; every task records its parts under that context from the times
it measured and sends them to the coordinator with its acknowledgement; the coordinator forwards
them to the trace file and, where a collector is configured, over OTLP. So one process exports.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from typing import Protocol

from .settings import OtlpSettings
from .spans import (
    Attributes,
    AttributeValue,
    FinishedSpan,
    SpanSink,
    format_traceparent,
    new_span_id,
    new_trace_id,
    parse_traceparent,
)

logger = logging.getLogger(__name__)


class SpanExporter(Protocol):
    """Takes finished spans without blocking, sends them in the background."""

    def export(self, span: FinishedSpan) -> None: ...

    def close(self, timeout_ms: int) -> None: ...


class Span:
    """An open root span. Its `end` hands it on; later calls of `end` do nothing."""

    def __init__(self, tracer: Tracer, name: str, attributes: Attributes, start_unix_ns: int) -> None:
        self._tracer = tracer
        self._name = name
        self._attributes = dict(attributes)
        self._start_unix_ns = start_unix_ns
        self._trace_id = new_trace_id()
        self._span_id = new_span_id()
        self._ended = False

    @property
    def trace_id(self) -> str:
        """The trace that it is the root of."""
        return self._trace_id

    @property
    def start_unix_ns(self) -> int:
        """When it began, in nanoseconds since the Unix epoch."""
        return self._start_unix_ns

    @property
    def context(self) -> str | None:
        """The W3C `traceparent` for the barrier; None where nothing records."""
        if not self._tracer.is_recording:
            return None
        return format_traceparent(self._trace_id, self._span_id)

    def set_attribute(self, name: str, value: AttributeValue) -> None:
        """Add or replace one attribute, up to the end of the span."""
        self._attributes[name] = value

    def end(self, error: str | None = None, end_unix_ns: int | None = None) -> None:
        """Finish the span.

        Args:
            error: why what the span stands for failed; None for success.
            end_unix_ns: when it ended, in nanoseconds since the Unix epoch; None for now.
        """
        if self._ended:
            return
        self._ended = True
        self._tracer._finish(
            (self._trace_id, self._span_id, None),
            self._name,
            (self._start_unix_ns, time.time_ns() if end_unix_ns is None else end_unix_ns),
            self._attributes,
            error,
        )


class Tracer:
    """Makes spans of one process and hands the finished ones to its listeners.

    Methods may be called from any thread as far as the sinks allow it, and never raise because of a
    listener: tracing must not fail what it watches. A sink that fails is dropped with one error in
    the log.
    """

    def __init__(
        self,
        service_name: str,
        resource: Attributes,
        sink: SpanSink | None,
        exporter: SpanExporter | None,
        closing: Callable[[], None] | None = None,
    ) -> None:
        self._closing = closing
        self._service_name = service_name
        self._resource = dict(resource)
        self._exporter = exporter
        sinks = (sink, exporter.export if exporter else None)
        self._sinks: tuple[SpanSink, ...] = tuple(each for each in sinks if each is not None)

    @property
    def is_recording(self) -> bool:
        """Whether anyone listens. Where not, no caller needs to measure for the tracer's sake."""
        return bool(self._sinks)

    def start_root(
        self, name: str, attributes: Attributes | None = None, start_unix_ns: int | None = None
    ) -> Span:
        """Open the root span of a new trace.

        Args:
            name: the span's name, see `telemetry.spans`.
            attributes: what is known at the start.
            start_unix_ns: nanoseconds since the Unix epoch; None for now.
        """
        start = time.time_ns() if start_unix_ns is None else start_unix_ns
        return Span(self, name, attributes or {}, start)

    def record_span(
        self,
        name: str,
        parent: str | None,
        start_unix_ns: int,
        end_unix_ns: int,
        attributes: Attributes | None = None,
        error: str | None = None,
    ) -> str | None:
        """Record a span whose start and end are known.

        Args:
            name: the span's name, see `telemetry.spans`.
            parent: the `traceparent` from the barrier. None or malformed records nothing: then no
                root exists that the span could hang from.
            start_unix_ns: nanoseconds since the Unix epoch.
            end_unix_ns: likewise.
            attributes: what is known about the span.
            error: why it failed; None for success.

        Returns:
            The `traceparent` for spans within this one; None where it was not recorded.
        """
        if parent is None or not self._sinks:
            return None
        ids = parse_traceparent(parent)
        if ids is None:
            logger.warning("Span %s is not recorded: %r is no W3C traceparent", name, parent)
            return None
        trace_id, parent_span_id = ids
        own_ids = (trace_id, new_span_id(), parent_span_id)
        self._finish(own_ids, name, (start_unix_ns, end_unix_ns), dict(attributes or {}), error)
        return format_traceparent(trace_id, own_ids[1])

    def forward(self, spans: Iterable[FinishedSpan]) -> None:
        """Hand on spans that another process finished, as they are."""
        for span in spans:
            self._emit(span)

    def close(self, timeout_ms: int = 2_000) -> None:
        """Send what is still waiting, for at most about `timeout_ms`; call it once, at the end."""
        self._sinks = ()
        if self._closing is not None:
            self._closing()
            self._closing = None
        if self._exporter is not None:
            self._exporter.close(timeout_ms)
            self._exporter = None

    def _finish(
        self,
        ids: tuple[str, str, str | None],
        name: str,
        times_unix_ns: tuple[int, int],
        attributes: dict[str, AttributeValue],
        error: str | None,
    ) -> None:
        trace_id, span_id, parent_span_id = ids
        start_unix_ns, end_unix_ns = times_unix_ns
        self._emit(
            {
                "trace_id": trace_id,
                "span_id": span_id,
                "parent_span_id": parent_span_id,
                "name": name,
                "start_unix_ns": start_unix_ns,
                # Wall clocks can step back between two readings; a span cannot.
                "end_unix_ns": max(start_unix_ns, end_unix_ns),
                "attributes": attributes,
                "error": error,
                "service_name": self._service_name,
                "resource": self._resource,
            }
        )

    def _emit(self, span: FinishedSpan) -> None:
        for sink in self._sinks:
            try:
                sink(span)
            except Exception:  # of whatever kind: a listener must not fail the job
                logger.exception("A listener for spans failed and gets no more of them")
                self._sinks = tuple(kept for kept in self._sinks if kept is not sink)


def create_tracer(
    service_name: str,
    resource_attributes: Attributes | None = None,
    sink: SpanSink | None = None,
    otlp: OtlpSettings | None = None,
    closing: Callable[[], None] | None = None,
) -> Tracer:
    """The tracer of one process.

    Args:
        service_name: what the process is called in a trace, for example `tidegate-coordinator`.
        resource_attributes: what describes the process, for example host and process id.
        sink: gets every finished span, on the thread that finishes it: a task collects them for
            its acknowledgement, the coordinator gives `JaegerJsonFile.add`.
        otlp: where a collector listens, for the coordinator only; see `OtlpSettings`. Where the
            extra `tidegate[otlp]` is not installed, a warning says so and nothing is exported.
        closing: called by `Tracer.close`, when `sink` has all spans.

    Returns:
        A tracer that does next to nothing where neither `sink` nor `otlp` is given.
    """
    exporter: SpanExporter | None = None
    if otlp is not None:
        # Here and not above: task processes never export and need no OpenTelemetry.
        from .otlp import create_otlp_exporter

        exporter = create_otlp_exporter(otlp)
    return Tracer(service_name, resource_attributes or {}, sink, exporter, closing)
