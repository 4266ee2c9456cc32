"""Lines of the coordinator's log about a checkpoint carry its trace."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

from tidegate.protocol.checkpoints.checkpoint import SubtaskDeclined
from tidegate.protocol.checkpoints.trigger import TriggerPolicy
from tidegate.telemetry.logs import LogContext, LogSettings, ProcessLog
from tidegate.telemetry.spans import parse_traceparent

from ..telemetry.log_files import log_files
from .fakes import SOURCE, FakeCluster, job_spec


def trace_of_newest(cluster: FakeCluster) -> str:
    context = cluster.triggered().trace_context
    assert context is not None
    ids = parse_traceparent(context)
    assert ids is not None
    return ids[0]


def test_the_lines_of_completed_and_aborted_checkpoints_carry_their_traces(tmp_path: Path) -> None:
    trigger = TriggerPolicy(interval_ms=100, timeout_ms=1_000, tolerable_failures=1)
    cluster = FakeCluster(job_spec(trigger=trigger), sink=lambda span: None).run()
    job = LogContext("job", "flights")
    with closing(ProcessLog(LogSettings(is_json=True), str(tmp_path), "coordinator", job)):
        completed = cluster.complete_checkpoint()
        traces = [trace_of_newest(cluster)]
        cluster.pass_ms(100)
        aborted = cluster.triggered().checkpoint_id
        traces.append(trace_of_newest(cluster))
        cluster.coordinator.handle(SubtaskDeclined(cluster.attempt, SOURCE, aborted, "full"))
    (path,) = log_files(str(tmp_path), "job")
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    texts = [f"Checkpoint {completed} is complete", f"Checkpoint {aborted} is aborted"]
    of_checkpoints = [line for line in lines if any(text in line["message"] for text in texts)]
    assert [line.get("trace_id") for line in of_checkpoints] == traces
    assert {(line["job_id"], line["job_name"]) for line in of_checkpoints} == {("job", "flights")}
