"""What a real job emits is what docs/telemetry.md says, and each trace hangs together."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from .traced_job import run_traced_job, tags

DOCUMENT = Path(__file__).parents[2] / "docs" / "telemetry.md"

ELSEWHERE = {"spark.epoch", "spark.input", "spark.run", "spark.output", "spark.job", "rescale"}
"""What needs more than this job; see tests/spark_bridge and tests/coordinator."""

ELSEWHERE_ATTRIBUTES = re.compile(r"spark\..*|epochs\..*|clock\.skew_ms")
PERHAPS = {"checkpoint.abort_reason"}
"""Where the failure hits a checkpoint."""

TYPES = {"string": "string", "int": "int64", "float": "float64", "list of strings": "string"}

JAEGER = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$defs": {
        "traceID": {"type": "string", "pattern": "^[0-9a-f]{32}$"},
        "spanID": {"type": "string", "pattern": "^[0-9a-f]{16}$"},
        "tag": {
            "type": "object",
            "required": ["key", "type", "value"],
            "additionalProperties": False,
            "properties": {"key": {"type": "string"}, "type": {"type": "string"}, "value": {}},
            "oneOf": [
                {"properties": {"type": {"const": "string"}, "value": {"type": "string"}}},
                {"properties": {"type": {"const": "bool"}, "value": {"type": "boolean"}}},
                {"properties": {"type": {"const": "int64"}, "value": {"type": "integer"}}},
                {"properties": {"type": {"const": "float64"}, "value": {"type": "number"}}},
                {"properties": {"type": {"const": "binary"}, "value": {"type": "string"}}},
            ],
        },
        "warnings": {"type": ["array", "null"], "items": {"type": "string"}},
    },
    "type": "object",
    "required": ["data"],
    "properties": {
        "data": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["traceID", "spans", "processes"],
                "properties": {
                    "traceID": {"$ref": "#/$defs/traceID"},
                    "warnings": {"$ref": "#/$defs/warnings"},
                    "processes": {
                        "type": "object",
                        "additionalProperties": {
                            "type": "object",
                            "required": ["serviceName"],
                            "properties": {
                                "serviceName": {"type": "string", "minLength": 1},
                                "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}},
                            },
                        },
                    },
                    "spans": {
                        "type": "array",
                        "minItems": 1,
                        "items": {
                            "type": "object",
                            "required": [
                                "traceID", "spanID", "operationName", "references", "startTime", "duration",
                                "tags", "logs", "processID",
                            ],
                            "properties": {
                                "traceID": {"$ref": "#/$defs/traceID"},
                                "spanID": {"$ref": "#/$defs/spanID"},
                                "processID": {"type": "string", "pattern": "^p[1-9][0-9]*$"},
                                "operationName": {"type": "string", "minLength": 1},
                                "startTime": {"type": "integer", "minimum": 1_500_000_000_000_000},
                                "duration": {"type": "integer", "minimum": 0},
                                "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}},
                                "logs": {"type": "array"},
                                "warnings": {"$ref": "#/$defs/warnings"},
                                "references": {
                                    "type": "array",
                                    "items": {
                                        "type": "object",
                                        "required": ["refType", "traceID", "spanID"],
                                        "properties": {
                                            "refType": {"enum": ["CHILD_OF", "FOLLOWS_FROM"]},
                                            "traceID": {"$ref": "#/$defs/traceID"},
                                            "spanID": {"$ref": "#/$defs/spanID"},
                                        },
                                    },
                                },
                            },
                        },
                    },
                },
            },
        }
    },
}  # fmt: skip
"""`structuredResponse` of Jaeger's query service with `Trace`, `Span`, `Reference`, `Process` and `KeyValue`
of its UI model (jaegertracing/jaeger, internal/uimodel/model.go): what its UI reads from an uploaded file."""


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return run_traced_job(tmp_path_factory.mktemp("traced"))


def documented(heading: str) -> dict[str, list[str]]:
    """The rows of the table under a heading, by their first cell."""
    section = DOCUMENT.read_text("utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    rows = [line.strip("|").split(" | ") for line in section.splitlines() if line.startswith("| `")]
    return {cells[0].strip(" `"): [cell.strip() for cell in cells[1:]] for cells in rows}


def spans_of(traces: list[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], dict[str, Any] | None, str]]:
    """Each span with its parent and the service that made it."""
    for trace in traces:
        by_id = {span["spanID"]: span for span in trace["spans"]}
        for span in trace["spans"]:
            parents = [by_id[reference["spanID"]] for reference in span["references"]]
            service = trace["processes"][span["processID"]]["serviceName"]
            yield span, parents[0] if parents else None, service


def test_the_file_has_the_form_that_jaegers_user_interface_reads(traces: list[dict[str, Any]]) -> None:
    jsonschema.Draft202012Validator(JAEGER).validate({"data": traces})


def test_a_real_job_emits_exactly_the_documented_spans(traces: list[dict[str, Any]]) -> None:
    rows = documented("Spans")
    emitted = {span["operationName"] for span, _, _ in spans_of(traces)}
    assert emitted == rows.keys() - ELSEWHERE
    for span, parent, service in spans_of(traces):
        made_by, within = rows[span["operationName"]][:2]
        assert service == ("tidegate-coordinator" if made_by.startswith("coordinator") else "tidegate-task")
        if within == "none":
            assert parent is None
        else:
            assert parent is not None
            assert within == ("root" if not parent["references"] else f"`{parent['operationName']}`")


def test_a_real_job_emits_exactly_the_documented_attributes(traces: list[dict[str, Any]]) -> None:
    rows = documented("Attributes")
    known = {"span.kind", "otel.status_code", "otel.status_description", "error"}
    found = set()
    for span, _, _ in spans_of(traces):
        for tag in span["tags"]:
            if tag["key"] not in known:
                assert tag["type"] == TYPES[rows[tag["key"]][0]], tag
                found.add(tag["key"])
    assert found | PERHAPS == {name for name in rows if not ELSEWHERE_ATTRIBUTES.fullmatch(name)}


def test_attributes_are_on_the_spans_that_the_table_says(traces: list[dict[str, Any]]) -> None:
    for name, (_, where, _) in documented("Attributes").items():
        on = set(re.findall(r"`([a-z_.]+)`", where))
        if on and "parts" not in where:
            carriers = {span["operationName"] for span, _, _ in spans_of(traces) if name in tags(span)}
            assert carriers <= on, name


def test_every_span_lies_within_its_parent(traces: list[dict[str, Any]]) -> None:
    for span, parent, _ in spans_of(traces):
        if parent is not None:
            # Jaeger's times are whole microseconds.
            end, parent_end = (each["startTime"] + each["duration"] for each in (span, parent))
            assert parent["startTime"] <= span["startTime"], span["operationName"]
            assert end <= parent_end + 1, span["operationName"]


def test_every_trace_has_one_root_and_every_subtask_its_parts(traces: list[dict[str, Any]]) -> None:
    completed = 0
    for trace in traces:
        (root,) = [span for span in trace["spans"] if not span["references"]]
        if root["operationName"] != "checkpoint" or tags(root).get("error"):
            continue
        completed += 1
        parts = [
            (span["operationName"], tags(span)["operator.name"], tags(span)["subtask.index"])
            for span in trace["spans"]
            if "subtask.index" in tags(span)
        ]
        operators = {(operator, index) for _, operator, index in parts}
        assert len(operators) == tags(root)["checkpoint.subtasks"] == 6
        for name in ("start_delay", "sync", "async", "acknowledge", "notify"):
            for operator, index in operators:
                assert parts.count((f"checkpoint.{name}", operator, index)) == 1
        assert len([one for one in trace["spans"] if one["operationName"] == "checkpoint.commit"]) == 1
    assert completed


def test_the_recovery_says_why_and_how_every_subtask_came_back(traces: list[dict[str, Any]]) -> None:
    (trace,) = [each for each in traces if any(s["operationName"] == "recovery" for s in each["spans"])]
    spans: dict[str, list[dict[str, Any]]] = {}
    for span in trace["spans"]:
        spans.setdefault(span["operationName"], []).append(span)
    (root,) = spans["recovery"]
    assert "on purpose" in tags(root)["restart.cause"]
    assert tags(root)["restored.checkpoint_id"] >= 1
    assert {name: len(each) for name, each in spans.items()} == {
        "recovery": 1,
        "restart.cancel": 1,
        "restart.delay": 1,
        "restart.initialize": 6,
        "restart.restore": 6,
        "restart.open": 6,
    }
    # The delay of 30 ms counts from the failure, in whole milliseconds, as the span of the recovery does.
    # Stopping the tasks takes a part of it.
    delay = spans["restart.delay"][0]
    assert delay["startTime"] + delay["duration"] - root["startTime"] >= 30_000
    assert sum(tags(span)["restored.size_bytes"] for span in spans["restart.restore"]) > 0


def test_the_steps_of_the_critical_path_are_as_long_as_the_checkpoint(traces: list[dict[str, Any]]) -> None:
    import json

    seen = 0
    for span, parent, _ in spans_of(traces):
        steps = tags(span).get("critical_path.steps")
        if parent is None and steps is not None:
            names = [step.split(" ", 1)[0] for step in json.loads(steps)]
            assert names[0] == "checkpoint.start_delay"
            ranks = [ORDER.index(name) for name in names]
            last_barrier = max(i for i, name in enumerate(names) if ORDER.index(name) <= 2)
            assert all(before <= after for before, after in pairwise(ranks[last_barrier:]))
            assert tags(span)["critical_path.cause"]
            seen += 1
    assert seen


ORDER = [
    f"checkpoint.{name}"
    for name in (
        "start_delay",
        "alignment",
        "prepare",
        "sync",
        "async",
        "upload",
        "acknowledge",
        "commit",
        "notify",
        "clean_up",
    )
]
