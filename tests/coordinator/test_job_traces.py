"""Traces as the coordinator puts them together: restarts, clean-up, and tasks whose clocks are wrong."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from tidegate.protocol import task_events as events
from tidegate.protocol.checkpoints.checkpoint import SubtaskAcknowledged, SubtaskMetrics
from tidegate.protocol.ids import CheckpointId, SubtaskId
from tidegate.telemetry import FinishedSpan, create_tracer
from tidegate.telemetry.spans import (
    ALIGNMENT,
    ASYNC_PART,
    CLOCK_SKEW_MS,
    NOTIFY,
    START_DELAY,
    SYNC_PART,
    UPLOAD,
)

from .fakes import SOURCE, SUBTASKS, TOTALS, FakeCluster

MS = 1_000_000


class SkewedTask:
    """What one subtask sends, by a clock that is ahead of the coordinator's."""

    def __init__(self, cluster: FakeCluster, subtask: SubtaskId, ahead_ms: int) -> None:
        self._cluster = cluster
        self._subtask = subtask
        self._ahead_ms = ahead_ms

    def snapshot(self, delay_ms: int, part_ms: int, answer_ms: int) -> None:
        """Take a snapshot in parts that take a while each; time goes on meanwhile."""
        cluster, barrier = self._cluster, self._cluster.triggered()
        first_ms = barrier.timestamp_ms + delay_ms + self._ahead_ms
        spans: list[FinishedSpan] = []
        tracer = create_tracer("task", None, spans.append)
        triggered_ms = min(barrier.timestamp_ms, first_ms)
        edges_ns = [(first_ms + number * part_ms) * MS for number in range(4)]
        parent = barrier.trace_context
        tracer.record_span(START_DELAY, parent, triggered_ms * MS, edges_ns[0])
        tracer.record_span(ALIGNMENT, parent, edges_ns[0], edges_ns[1])
        tracer.record_span(SYNC_PART, parent, edges_ns[1], edges_ns[2])
        stored = tracer.record_span(ASYNC_PART, parent, edges_ns[2], edges_ns[3])
        tracer.record_span(UPLOAD, stored, edges_ns[2], edges_ns[3])
        metrics = SubtaskMetrics(
            start_delay_ms=first_ms - barrier.timestamp_ms,
            alignment_ms=part_ms,
            sync_ms=part_ms,
            async_ms=part_ms,
            taken_ms=first_ms + part_ms - barrier.timestamp_ms,
        )
        cluster.time_ms = max(cluster.time_ms, barrier.timestamp_ms + delay_ms + 3 * part_ms + answer_ms)
        self._send(spans)
        stored_part = replace(cluster.stored(self._subtask, barrier.checkpoint_id), metrics=metrics)
        cluster.coordinator.handle(
            SubtaskAcknowledged(cluster.attempt, self._subtask, barrier.checkpoint_id, stored_part)
        )

    def notified(self, took_ms: int) -> None:
        """Commit what the newest checkpoint covers."""
        mails = self._cluster.mails(events.CheckpointCompleted)
        mail = [mail for subtask, mail in mails if subtask == self._subtask][-1]
        began_ns = (self._cluster.time_ms + self._ahead_ms) * MS
        spans: list[FinishedSpan] = []
        tracer = create_tracer("task", None, spans.append)
        tracer.record_span(NOTIFY, mail.trace_context, began_ns, began_ns + took_ms * MS)
        self._cluster.time_ms += took_ms
        self._send(spans, mail.checkpoint_id)

    def _send(self, spans: list[FinishedSpan], notified: CheckpointId | None = None) -> None:
        cluster = self._cluster
        cluster.coordinator.handle(
            events.SpansRecorded(cluster.attempt, self._subtask, tuple(spans), notified)
        )


def traced() -> tuple[FakeCluster, list[FinishedSpan]]:
    spans: list[FinishedSpan] = []
    return FakeCluster(sink=spans.append).run(), spans


def assert_nested(spans: list[FinishedSpan]) -> None:
    by_id = {span["span_id"]: span for span in spans}
    for span in spans:
        assert span["start_unix_ns"] <= span["end_unix_ns"], span["name"]
        if span["parent_span_id"] is not None:
            parent = by_id[span["parent_span_id"]]
            assert parent["start_unix_ns"] <= span["start_unix_ns"], span["name"]
            assert span["end_unix_ns"] <= parent["end_unix_ns"], span["name"]


def named(spans: list[FinishedSpan], *names: str) -> list[FinishedSpan]:
    return [span for span in spans if span["name"] in names]


def skews_ms(spans: list[FinishedSpan]) -> list[float]:
    return [
        value
        for span in named(spans, SYNC_PART)
        if isinstance(value := span["attributes"].get(CLOCK_SKEW_MS, 0.0), float)
    ]


skews = st.integers(-10_000_000, 10_000_000)
durations = st.integers(0, 150)


@settings(max_examples=30)
@given(st.tuples(skews, skews, skews), st.lists(durations, min_size=18, max_size=18))
def test_spans_nest_whatever_the_clocks_of_the_tasks_say(aheads: tuple[int, ...], takes: list[int]) -> None:
    cluster, spans = traced()
    tasks = [SkewedTask(cluster, subtask, ahead) for subtask, ahead in zip(SUBTASKS, aheads)]
    for number in range(2):
        cluster.pass_ms(200)
        for index, task in enumerate(tasks):
            task.snapshot(*takes[9 * number + 3 * index :][:3])
        for task in tasks:
            task.notified(1)
    roots = named(spans, "checkpoint")
    assert len(roots) == 2
    assert len(named(spans, SYNC_PART, UPLOAD, START_DELAY, ALIGNMENT, NOTIFY)) == 2 * 5 * 3
    assert_nested(spans)
    for checkpoint in cluster.coordinator.statistics.checkpoints:
        for metrics in checkpoint.subtasks.values():
            assert metrics.start_delay_ms >= 0.0
            assert metrics.taken_ms is not None
            assert metrics.acknowledged_ms is not None
            assert metrics.taken_ms >= 0.0


def test_a_clock_is_corrected_to_within_what_the_messages_took() -> None:
    cluster, spans = traced()
    task = SkewedTask(cluster, SOURCE, 90_000)
    cluster.pass_ms(200)
    task.snapshot(delay_ms=3, part_ms=10, answer_ms=4)
    (skew_ms,) = skews_ms(spans)
    assert 90_000 - 4 <= skew_ms <= 90_000 + 3
    (metrics,) = (one.subtasks[SOURCE] for one in cluster.coordinator.statistics.in_progress.values())
    assert metrics.skew_ms == skew_ms
    assert 0 <= metrics.start_delay_ms <= 3 + 4


def test_clocks_that_agree_are_left_alone() -> None:
    cluster, spans = traced()
    for subtask in SUBTASKS:
        SkewedTask(cluster, subtask, 0)
    cluster.pass_ms(200)
    for subtask in SUBTASKS:
        SkewedTask(cluster, subtask, 0).snapshot(delay_ms=3, part_ms=10, answer_ms=4)
    assert skews_ms(spans) == [0.0, 0.0, 0.0]


def test_a_trace_ends_when_every_subtask_has_committed() -> None:
    cluster, spans = traced()
    tasks = [SkewedTask(cluster, subtask, 0) for subtask in SUBTASKS]
    cluster.pass_ms(200)
    for task in tasks:
        task.snapshot(1, 1, 1)
    for task in tasks[:2]:
        task.notified(5)
    assert named(spans, "checkpoint") == []
    tasks[2].notified(7)
    (root,) = named(spans, "checkpoint")
    assert root["end_unix_ns"] == cluster.now_ns()
    (checkpoint,) = cluster.coordinator.statistics.checkpoints
    assert checkpoint.notified_ms == 17.0
    assert cluster.coordinator.statistics.latest_completed == checkpoint
    steps = root["attributes"]["critical_path.steps"]
    assert isinstance(steps, tuple)
    assert steps[-1].startswith("checkpoint.notify 17 ms: ")


def test_a_trace_does_not_wait_for_ever_for_a_subtask_that_is_silent() -> None:
    cluster, spans = traced()
    cluster.complete_checkpoint()
    assert named(spans, "checkpoint") == []
    cluster.complete_checkpoint()
    assert len(named(spans, "checkpoint")) == 1
    cluster.fail()
    assert len(named(spans, "checkpoint")) == 2
    assert [span["error"] for span in named(spans, "checkpoint")] == [None, None]


def test_a_recovery_is_one_trace_from_the_failure_until_all_run() -> None:
    cluster, spans = traced()
    checkpoint_id = cluster.complete_checkpoint()
    failed_ns = cluster.now_ns()
    cluster.fail(TOTALS[0], "the disk is full")
    cluster.time_ms += 30
    cluster.stop_tasks()
    stopped_ns = cluster.now_ns()
    cluster.pass_ms(50)
    deployed_ns = cluster.now_ns()
    cluster.time_ms += 200
    contexts = {deployment.trace_context for deployment in cluster.deployments[-1]}
    cluster.initialized()
    (root,) = named(spans, "recovery")
    assert contexts == {f"00-{root['trace_id']}-{root['span_id']}-01"}
    assert (root["start_unix_ns"], root["end_unix_ns"]) == (failed_ns, cluster.now_ns())
    assert root["error"] is None
    assert root["attributes"]["restart.cause"] == "the disk is full"
    assert root["attributes"]["restored.checkpoint_id"] == checkpoint_id
    assert root["attributes"]["restart.subtasks"] == 3
    (cancel,) = named(spans, "restart.cancel")
    (delay,) = named(spans, "restart.delay")
    assert (cancel["start_unix_ns"], cancel["end_unix_ns"]) == (failed_ns, stopped_ns)
    assert (delay["start_unix_ns"], delay["end_unix_ns"]) == (stopped_ns, deployed_ns)


def test_a_recovery_that_fails_is_an_error_and_the_next_one_a_trace_of_its_own() -> None:
    cluster, spans = traced()
    cluster.fail(cause="first")
    cluster.stop_tasks()
    cluster.pass_ms(50)
    cluster.fail(cause="second")
    cluster.stop_tasks()
    cluster.pass_ms(50)
    cluster.initialized()
    first, second = named(spans, "recovery")
    assert (first["error"], second["error"]) == ("second", None)
    assert first["trace_id"] != second["trace_id"]
    assert second["attributes"]["restart.cause"] == "second"


def test_a_new_coordinator_traces_how_it_took_over() -> None:
    cluster, _ = traced()
    cluster.complete_checkpoint()
    spans: list[FinishedSpan] = []
    FakeCluster(storage=cluster.storage, sink=spans.append).run()
    (root,) = named(spans, "recovery")
    assert root["attributes"]["restart.cause"] == "the coordinator was started again"


def test_a_rescale_is_one_trace_too() -> None:
    cluster, spans = traced()
    cluster.complete_checkpoint()
    assert cluster.requests.rescale({"totals": 4}) == ""
    assert cluster.ready is not None
    cluster.ready("")
    cluster.acknowledge()
    cluster.stop_tasks()
    cluster.pass_ms(1)
    cluster.initialized()
    (root,) = named(spans, "rescale")
    assert root["error"] is None
    assert root["attributes"]["restart.subtasks"] == 5
    assert root["attributes"]["restart.cause"]
    assert named(spans, "recovery") == []
