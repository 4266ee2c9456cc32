"""Telemetry: what a checkpoint did, as a trace.

`tracing` makes spans and hands the finished ones on as plain dicts; `jaeger_json` writes them to a
local file; `otlp` sends them to a collector. Only `otlp` imports OpenTelemetry, and only when a
collector is configured, so that task processes pay for neither the import nor an exporter thread.
Nothing in this room may fail or block a job.
"""

from __future__ import annotations

from .jaeger_json import JaegerJsonFile
from .settings import OtlpSettings
from .spans import AttributeValue, FinishedSpan, SpanSink
from .tracing import Span, Tracer, create_tracer

__all__ = [
    "AttributeValue",
    "FinishedSpan",
    "JaegerJsonFile",
    "OtlpSettings",
    "Span",
    "SpanSink",
    "Tracer",
    "create_tracer",
]
