from __future__ import annotations

import json
import logging
import math
from pathlib import Path
from typing import Any

import pytest
from tidegate.telemetry import FinishedSpan, JaegerJsonFile, create_tracer


def record_checkpoint(
    file: JaegerJsonFile, checkpoint_id: int, error: str | None = None, padding: str = ""
) -> None:
    """One trace: a root at the coordinator and a part of one task."""
    from_task: list[FinishedSpan] = []
    coordinator = create_tracer("coordinator", {"host.name": "head"}, file.add)
    task = create_tracer("task", {"host.name": "worker"}, from_task.append)
    attributes = {"checkpoint.id": checkpoint_id, "padding": padding}
    root = coordinator.start_root("checkpoint", attributes, 1_000_000_500)
    task.record_span("checkpoint.async", root.context, 1_000_001_000, 1_000_004_999, {"ratio": 0.5})
    coordinator.forward(from_task)
    root.end(error, end_unix_ns=1_000_010_500)


def read(file: JaegerJsonFile) -> list[dict[str, Any]]:
    """The traces of the file, read as strictly as a browser reads them."""

    def refuse(text: str) -> None:
        raise AssertionError(f"{text} is not JSON")

    traces: list[dict[str, Any]] = json.loads(file.path.read_text(encoding="utf-8"), parse_constant=refuse)[
        "data"
    ]
    return traces


def checkpoint_ids(file: JaegerJsonFile) -> list[object]:
    found = []
    for trace in read(file):
        (root,) = (span for span in trace["spans"] if not span["references"])
        found.append(tags(root)["checkpoint.id"])
    return found


def tags(owner: dict[str, Any]) -> dict[str, object]:
    return {tag["key"]: tag["value"] for tag in owner["tags"]}


def test_a_trace_has_the_structure_that_jaeger_reads(tmp_path: Path) -> None:
    file = JaegerJsonFile(tmp_path / "deep" / "traces.json")
    record_checkpoint(file, 7)
    file.flush()

    (trace,) = read(file)
    child, root = trace["spans"]
    assert set(trace) == {"traceID", "spans", "processes", "warnings"}
    assert root == {
        "traceID": trace["traceID"],
        "spanID": root["spanID"],
        "operationName": "checkpoint",
        "references": [],
        "startTime": 1_000_000,
        "duration": 10,
        "tags": [
            {"key": "checkpoint.id", "type": "int64", "value": 7},
            {"key": "padding", "type": "string", "value": ""},
            {"key": "span.kind", "type": "string", "value": "internal"},
            {"key": "otel.status_code", "type": "string", "value": "OK"},
        ],
        "logs": [],
        "processID": root["processID"],
        "warnings": None,
    }
    assert child["references"] == [
        {"refType": "CHILD_OF", "traceID": trace["traceID"], "spanID": root["spanID"]}
    ]
    assert (child["startTime"], child["duration"]) == (1_000_001, 3)
    assert {"key": "ratio", "type": "float64", "value": 0.5} in child["tags"]
    assert trace["processes"][child["processID"]] == {
        "serviceName": "task",
        "tags": [{"key": "host.name", "type": "string", "value": "worker"}],
    }
    assert trace["processes"][root["processID"]]["serviceName"] == "coordinator"


def test_a_failed_checkpoint_is_marked_as_an_error_with_its_reason(tmp_path: Path) -> None:
    file = JaegerJsonFile(tmp_path / "traces.json")
    record_checkpoint(file, 7, error="timed out")
    file.flush()
    (trace,) = read(file)
    child, root = trace["spans"]
    assert {"key": "error", "type": "bool", "value": True} in root["tags"]
    assert tags(root)["otel.status_code"] == "ERROR"
    assert tags(root)["otel.status_description"] == "timed out"
    assert "error" not in tags(child)


def test_only_the_newest_traces_are_kept(tmp_path: Path) -> None:
    file = JaegerJsonFile(tmp_path / "traces.json", max_traces=3)
    for checkpoint_id in range(10):
        record_checkpoint(file, checkpoint_id)
    file.flush()
    assert checkpoint_ids(file) == [7, 8, 9]


def test_long_spans_push_old_traces_out_too(tmp_path: Path) -> None:
    file = JaegerJsonFile(tmp_path / "traces.json", max_bytes=10_000)
    for checkpoint_id in range(10):
        record_checkpoint(file, checkpoint_id, padding="x" * 4_000)
    file.flush()
    assert checkpoint_ids(file) == [8, 9]
    assert file.path.stat().st_size < 12_000


def test_a_rewrite_leaves_one_whole_file_and_nothing_beside_it(tmp_path: Path) -> None:
    file = JaegerJsonFile(tmp_path / "traces.json")
    for checkpoint_id in range(3):
        record_checkpoint(file, checkpoint_id)
        file.flush()
        assert checkpoint_ids(file) == list(range(checkpoint_id + 1))
    assert list(tmp_path.iterdir()) == [file.path]


def test_an_unchanged_file_is_not_written_again(tmp_path: Path) -> None:
    file = JaegerJsonFile(tmp_path / "traces.json")
    record_checkpoint(file, 1)
    file.flush()
    file.path.unlink()
    file.flush()
    assert not file.path.exists()


def test_a_file_that_cannot_be_written_is_reported_once_and_raises_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "occupied").write_text("a file where a directory should be")
    file = JaegerJsonFile(tmp_path / "occupied" / "traces.json")
    record_checkpoint(file, 1)
    with caplog.at_level(logging.WARNING):
        file.flush()
        file.flush()
    assert caplog.text.count("cannot be written") == 1

    (tmp_path / "occupied").unlink()
    file.flush()
    assert checkpoint_ids(file) == [1]


def test_numbers_that_json_does_not_know_do_not_spoil_the_file(tmp_path: Path) -> None:
    file = JaegerJsonFile(tmp_path / "traces.json")
    tracer = create_tracer("coordinator", None, file.add)
    tracer.start_root("checkpoint", {"a": math.nan, "b": math.inf}).end()
    file.flush()
    (trace,) = read(file)
    assert (tags(trace["spans"][0])["a"], tags(trace["spans"][0])["b"]) == ("nan", "inf")


def test_a_file_that_was_just_written_waits_for_more(tmp_path: Path) -> None:
    file = JaegerJsonFile(tmp_path / "traces.json")
    record_checkpoint(file, 1)
    file.flush_if_due()
    record_checkpoint(file, 2)
    file.flush()
    assert checkpoint_ids(file) == [1, 2]
    for number in range(3, 50):
        record_checkpoint(file, number)
        file.flush_if_due()
    written = len(checkpoint_ids(file))
    file.flush()
    assert 2 <= written <= len(checkpoint_ids(file)) == 49
