"""Telemetry: what a checkpoint did, as a trace, and the metrics of user functions.

`metrics` keeps what functions count, in memory. `tracing` makes spans and hands the finished ones on as plain
dicts; `jaeger_json` writes them to a local file; `otlp` sends them to a collector. Only `otlp` imports
OpenTelemetry, and only when a collector is configured, so that task processes pay for neither the import nor
an exporter thread. Nothing in this room may fail or block a job.
"""

from __future__ import annotations

from .jaeger_json import JaegerJsonFile
from .metrics import Counter, Distribution, Meter, MetricGroup, metric_values
from .settings import OtlpSettings
from .spans import Attributes, AttributeValue, FinishedSpan, SpanSink
from .tracing import Span, Tracer, create_tracer

__all__ = [
    "AttributeValue",
    "Attributes",
    "Counter",
    "Distribution",
    "FinishedSpan",
    "JaegerJsonFile",
    "Meter",
    "MetricGroup",
    "OtlpSettings",
    "Span",
    "SpanSink",
    "Tracer",
    "create_tracer",
    "metric_values",
]
