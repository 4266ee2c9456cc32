"""Where the spans of a job's coordinator go."""

from __future__ import annotations

from pathlib import Path

from ...telemetry import (
    AttributeValue,
    FinishedSpan,
    JaegerJsonFile,
    OtlpSettings,
    SpanSink,
    Tracer,
    create_tracer,
)
from ..spec import JobSpec


def coordinator_tracer(spec: JobSpec, otlp: OtlpSettings | None) -> Tracer:
    """The tracer of a job's coordinator: a Jaeger file if the job wants one, and OTLP."""
    path = spec.settings.trace_file
    resource: dict[str, AttributeValue] = {"tidegate.job": spec.job_name}
    if path is None:
        return create_tracer("tidegate-coordinator", resource, None, otlp)
    file = JaegerJsonFile(_unused(Path(path)))
    return create_tracer("tidegate-coordinator", resource, _trace_file_sink(file), otlp, file.flush)


def _trace_file_sink(file: JaegerJsonFile) -> SpanSink:
    def add(span: FinishedSpan) -> None:
        file.add(span)
        if span["parent_span_id"] is None:
            # The root ends last: the trace is whole.
            file.flush_if_due()

    return add


def _unused(path: Path) -> Path:
    """`path`, or with a number if it is taken: a restarted coordinator must not overwrite traces."""
    candidate, number = path, 1
    while candidate.exists():
        number += 1
        candidate = path.with_stem(f"{path.stem}-{number}")
    return candidate
