from __future__ import annotations

import json
import logging
import pickle
import subprocess
import sys

import pytest
from tidegate.telemetry import FinishedSpan, create_tracer
from tidegate.telemetry.spans import parse_traceparent


def test_a_root_and_its_children_share_a_trace_through_the_text_in_the_barrier() -> None:
    at_coordinator: list[FinishedSpan] = []
    at_task: list[FinishedSpan] = []
    coordinator = create_tracer("coordinator", {"host.name": "head"}, at_coordinator.append)
    task = create_tracer("task", {"host.name": "worker"}, at_task.append)

    root = coordinator.start_root("checkpoint", {"checkpoint.id": 7}, start_unix_ns=1_000)
    barrier_context = root.context
    task.record_span("checkpoint.sync", barrier_context, 2_000, 3_000, {"subtask.index": 1})
    coordinator.forward(pickle.loads(pickle.dumps(at_task)))
    root.set_attribute("checkpoint.size_bytes", 42)
    root.end(end_unix_ns=9_000)

    child, parent = at_coordinator
    assert barrier_context == f"00-{parent['trace_id']}-{parent['span_id']}-01"
    assert child["trace_id"] == parent["trace_id"]
    assert child["parent_span_id"] == parent["span_id"]
    assert parent["parent_span_id"] is None
    assert child["service_name"] == "task"
    assert child["resource"] == {"host.name": "worker"}
    assert (child["start_unix_ns"], child["end_unix_ns"]) == (2_000, 3_000)
    assert parent["attributes"] == {"checkpoint.id": 7, "checkpoint.size_bytes": 42}
    assert json.loads(json.dumps(at_coordinator)) == at_coordinator


def test_an_aborted_checkpoint_ends_with_its_reason_and_only_once() -> None:
    spans: list[FinishedSpan] = []
    root = create_tracer("coordinator", sink=spans.append).start_root("checkpoint")

    root.end(error="expired before completing")
    root.end()

    assert [span["error"] for span in spans] == ["expired before completing"]


def test_every_root_starts_a_trace_of_its_own() -> None:
    spans: list[FinishedSpan] = []
    tracer = create_tracer("coordinator", sink=spans.append)
    for _ in range(100):
        tracer.start_root("checkpoint").end()
    assert len({span["trace_id"] for span in spans}) == 100


def test_a_clock_that_steps_back_gives_no_negative_duration() -> None:
    spans: list[FinishedSpan] = []
    create_tracer("coordinator", sink=spans.append).start_root("checkpoint", None, 5_000).end(
        end_unix_ns=4_000
    )
    assert spans[0]["end_unix_ns"] == spans[0]["start_unix_ns"]


def test_without_listeners_there_is_no_context_and_nothing_is_recorded() -> None:
    silent = create_tracer("coordinator")
    root = silent.start_root("checkpoint")
    assert not silent.is_recording
    assert root.context is None
    root.end()

    spans: list[FinishedSpan] = []
    create_tracer("task", sink=spans.append).record_span("checkpoint.sync", root.context, 1, 2)
    assert spans == []


@pytest.mark.parametrize(
    "traceparent",
    [
        "",
        "00-00000000000000000000000000000000-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
    ],
)
def test_a_malformed_context_records_nothing_and_is_reported(
    traceparent: str, caplog: pytest.LogCaptureFixture
) -> None:
    spans: list[FinishedSpan] = []
    create_tracer("task", sink=spans.append).record_span("checkpoint.sync", traceparent, 1, 2)
    assert spans == []
    assert "no W3C traceparent" in caplog.text


def test_a_context_of_a_later_version_of_the_standard_is_understood() -> None:
    ids = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331")
    assert parse_traceparent(f"01-{ids[0]}-{ids[1]}-01-more") == ids


def test_a_failing_listener_is_reported_once_and_gets_no_more(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(span: FinishedSpan) -> None:
        raise RuntimeError("listener broke")

    tracer = create_tracer("coordinator", sink=broken)
    tracer.start_root("checkpoint").end()
    tracer.start_root("checkpoint").end()
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert not tracer.is_recording


def test_a_task_that_only_collects_spans_does_not_import_opentelemetry() -> None:
    program = (
        "import sys\n"
        "from tidegate.telemetry import create_tracer\n"
        "create_tracer('task', sink=list().append).start_root('checkpoint').end()\n"
        "sys.exit(any(name.startswith('opentelemetry') for name in sys.modules))\n"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
