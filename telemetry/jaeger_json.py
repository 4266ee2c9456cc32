"""A local trace file that Jaeger's UI opens ("Search" → "Upload"), without any server.

The format is the answer of Jaeger's query API: a list of traces, each with its spans and the
processes they refer to; times are microseconds.
"""

from __future__ import annotations

import json
import logging
import math
import os
import threading
import time
from collections import OrderedDict
from pathlib import Path

from .spans import AttributeValue, FinishedSpan

logger = logging.getLogger(__name__)

DEFAULT_MAX_TRACES = 200
DEFAULT_MAX_BYTES = 16 * 1024 * 1024

_PAUSE_S = 1.0
"""Every rewrite copies everything: 20 ms for 200 traces of ten subtasks."""

_Process = tuple[str, tuple[tuple[str, AttributeValue], ...]]


class _Trace:
    """One trace, its spans already as JSON text: a rewrite of the file costs no encoding."""

    def __init__(self, trace_id: str) -> None:
        self._trace_id = trace_id
        self._spans: list[str] = []
        self._process_ids: dict[_Process, str] = {}

    def add(self, span: FinishedSpan) -> int:
        process = (span["service_name"], tuple(sorted(span["resource"].items())))
        process_id = self._process_ids.setdefault(process, f"p{len(self._process_ids) + 1}")
        text = json.dumps(jaeger_span(span, process_id), separators=(",", ":"))
        self._spans.append(text)
        return len(text)

    def to_json(self) -> str:
        processes = {
            process_id: {"serviceName": service_name, "tags": _tags(dict(resource))}
            for (service_name, resource), process_id in self._process_ids.items()
        }
        return (
            f'{{"traceID":"{self._trace_id}","spans":[{",".join(self._spans)}],'
            f'"processes":{json.dumps(processes)},"warnings":null}}'
        )


class JaegerJsonFile:
    """Keeps the newest traces and rewrites the file with them, atomically.

    Memory and file are bounded: when there are more than `max_traces`, or their spans are longer
    than `max_bytes`, the oldest traces go (never the only one), and a later span of a trace that
    went starts that trace anew. A file that cannot be written is reported once in the log and never
    raises.

    Args:
        path: the file; its directory is created. An existing file is replaced at the first `flush`.
        max_traces: how many traces to keep, at least 1.
        max_bytes: how long the spans of all kept traces may be together, as JSON.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        max_traces: int = DEFAULT_MAX_TRACES,
        max_bytes: int = DEFAULT_MAX_BYTES,
    ) -> None:
        self.path = Path(path)
        self._max_traces = max_traces
        self._max_bytes = max_bytes
        self._traces: OrderedDict[str, _Trace] = OrderedDict()
        self._sizes_bytes: dict[str, int] = {}
        self._size_bytes = 0
        self._written_s = -math.inf
        self._is_dirty = False
        self._has_failed = False
        self._lock = threading.Lock()

    def add(self, span: FinishedSpan) -> None:
        """Keep one finished span; from any thread."""
        trace_id = span["trace_id"]
        with self._lock:
            trace = self._traces.setdefault(trace_id, _Trace(trace_id))
            size_bytes = trace.add(span)
            self._sizes_bytes[trace_id] = self._sizes_bytes.get(trace_id, 0) + size_bytes
            self._size_bytes += size_bytes
            self._is_dirty = True
            self._drop_oldest()

    def flush_if_due(self) -> None:
        """`flush`, unless that was less than a second ago; call it after each trace."""
        if time.monotonic() - self._written_s >= _PAUSE_S:
            self.flush()

    def flush(self) -> None:
        """Rewrite the file if spans came since the last time; call it at the end."""
        with self._lock:
            if not self._is_dirty:
                return
            try:
                self._write()
            except OSError as error:
                if not self._has_failed:
                    logger.warning("The trace file %s cannot be written: %s", self.path, error)
                self._has_failed = True
                return
            self._is_dirty = False
            self._has_failed = False
            self._written_s = time.monotonic()

    def _drop_oldest(self) -> None:
        while len(self._traces) > 1 and (
            len(self._traces) > self._max_traces or self._size_bytes > self._max_bytes
        ):
            trace_id, _ = self._traces.popitem(last=False)
            self._size_bytes -= self._sizes_bytes.pop(trace_id)

    def _write(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self.path.with_name(f".{self.path.name}.{os.getpid()}.tmp")
        try:
            with temporary.open("w", encoding="utf-8") as file:
                file.write('{"data":[')
                for index, trace in enumerate(self._traces.values()):
                    file.write((",\n" if index else "\n") + trace.to_json())
                file.write("\n]}\n")
            temporary.replace(self.path)
        finally:
            temporary.unlink(missing_ok=True)


def jaeger_span(span: FinishedSpan, process_id: str) -> dict[str, object]:
    """The span as Jaeger's query API has it; a failed one carries the tag `error`."""
    tags: dict[str, AttributeValue] = {**span["attributes"], "span.kind": "internal"}
    if span["error"] is None:
        tags["otel.status_code"] = "OK"
    else:
        tags |= {
            "error": True,
            "otel.status_code": "ERROR",
            "otel.status_description": span["error"],
        }
    parent_span_id = span["parent_span_id"]
    references = []
    if parent_span_id is not None:
        references.append({"refType": "CHILD_OF", "traceID": span["trace_id"], "spanID": parent_span_id})
    return {
        "traceID": span["trace_id"],
        "spanID": span["span_id"],
        "operationName": span["name"],
        "references": references,
        "startTime": span["start_unix_ns"] // 1_000,
        "duration": (span["end_unix_ns"] - span["start_unix_ns"]) // 1_000,
        "tags": _tags(tags),
        "logs": [],
        "processID": process_id,
        "warnings": None,
    }


def _tags(attributes: dict[str, AttributeValue]) -> list[dict[str, object]]:
    return [
        {"key": key, "type": _jaeger_type(value), "value": value}
        for key, value in map(_as_json, attributes.items())
    ]


def _as_json(item: tuple[str, AttributeValue]) -> tuple[str, AttributeValue]:
    key, value = item
    if isinstance(value, tuple):
        # Jaeger has no lists; it shows those of OpenTelemetry as JSON.
        return key, json.dumps(value, ensure_ascii=False)
    # JSON has no NaN and no infinity, and a browser refuses the whole file for one of them.
    if isinstance(value, float) and not math.isfinite(value):
        return key, str(value)
    return key, value


def _jaeger_type(value: AttributeValue) -> str:
    match value:
        case bool():
            return "bool"
        case int():
            return "int64"
        case float():
            return "float64"
        case _:
            return "string"
