"""What made a checkpoint long: the path, its causes in words, and what is not known of older history."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from tidegate.coordinator.monitoring.critical_path import CriticalPath, critical_path, explain_lines
from tidegate.coordinator.monitoring.statistics import CheckpointOutcome, CheckpointStatistics, TaskShape
from tidegate.protocol.checkpoints.checkpoint import SubtaskMetrics
from tidegate.protocol.ids import CheckpointId, SubtaskId

SOURCE, ENRICH, OTHER, SINK = (
    SubtaskId("task-1", 0),
    SubtaskId("task-2", 1),
    SubtaskId("task-2", 0),
    SubtaskId("task-3", 0),
)
SHAPE = {
    "task-1": TaskShape("parse", 1),
    "task-2": TaskShape("enrich", 2),
    "task-3": TaskShape("sink", 1),
}

QUICK = SubtaskMetrics(
    1.0, 0.0, 1.0, 3.0, 100, taken_ms=1.0, upload_ms=2.0, report_ms=0.5, acknowledged_ms=6.0
)
SUBTASKS = {
    SOURCE: QUICK,
    OTHER: replace(QUICK, taken_ms=2.0, last_channel=0, upstream=SOURCE, acknowledged_ms=8.0),
    ENRICH: SubtaskMetrics(
        1_803.0, 0.0, 2.0, 30.0, 4_096, taken_ms=1_803.0, upload_ms=20.0, last_channel=2, queued_ms=1_800.0,
        busy_ms=1_790.0, upstream=SOURCE, acknowledged_ms=1_840.0,
    ),
    SINK: SubtaskMetrics(
        4.0, 1_800.0, 5.0, 100.0, 1 << 20, taken_ms=1_804.0, prepare_ms=10.0, waiting_ms=10.0, upload_ms=60.0,
        report_ms=4.0, last_channel=1, upstream=ENRICH, acknowledged_ms=1_930.0,
    ),
}  # fmt: skip


def checkpoint(**changed: object) -> CheckpointStatistics:
    whole = CheckpointStatistics(
        CheckpointId(7),
        CheckpointOutcome.COMPLETED,
        1_000_000,
        1_950.0,
        1 << 21,
        1 << 20,
        subtasks=SUBTASKS,
        subtask_count=4,
        notified_ms=30.0,
        clean_up_ms=45.0,
        shape=SHAPE,
    )
    return replace(whole, **changed)  # type: ignore[arg-type]


def assert_without_gaps(path: CriticalPath, end_ms: float) -> None:
    assert path.steps[0].start_ms == 0.0
    for before, after in pairwise(path.steps):
        assert after.start_ms == before.start_ms + before.duration_ms
    assert all(step.duration_ms > 0 for step in path.steps)
    assert abs(path.steps[-1].start_ms + path.steps[-1].duration_ms - end_ms) < 1e-6


def test_the_path_leads_from_the_trigger_over_the_slowest_barrier_to_the_last_clean_up() -> None:
    path = critical_path(checkpoint())
    assert_without_gaps(path, 1_995.0)
    assert [(step.subtask_name, step.name) for step in path.steps] == [
        ("parse (1/1)", "checkpoint.start_delay"),
        ("enrich (2/2)", "checkpoint.start_delay"),
        ("enrich (2/2)", "checkpoint.start_delay"),
        ("sink (1/1)", "checkpoint.alignment"),
        ("sink (1/1)", "checkpoint.prepare"),
        ("sink (1/1)", "checkpoint.sync"),
        ("sink (1/1)", "checkpoint.async"),
        ("sink (1/1)", "checkpoint.async"),
        ("sink (1/1)", "checkpoint.upload"),
        ("sink (1/1)", "checkpoint.acknowledge"),
        ("sink (1/1)", "checkpoint.acknowledge"),
        ("coordinator", "checkpoint.commit"),
        ("coordinator", "checkpoint.notify"),
        ("coordinator", "checkpoint.clean_up"),
    ]


def test_the_cause_names_the_operator_and_what_it_did() -> None:
    path = critical_path(checkpoint())
    assert path.cause == ("waited 1.8 s for channel 3 of enrich (2/2), which was busy in user code")
    assert path.longest is not None
    assert path.longest.subtask == ENRICH


def test_a_task_without_credit_is_not_blamed_for_its_own_work() -> None:
    held_back = replace(SUBTASKS[ENRICH], busy_ms=300.0, backpressured_ms=1_500.0)
    path = critical_path(checkpoint(subtasks={**SUBTASKS, ENRICH: held_back}))
    assert path.cause == (
        "waited 1.8 s for channel 3 of enrich (2/2), which was backpressured for 1.5 s and was busy in user "
        "code for 300 ms: nothing downstream took its output"
    )


def test_a_task_that_only_shares_its_thread_points_at_the_busiest() -> None:
    waiting = replace(SUBTASKS[ENRICH], busy_ms=0.0)
    busy = replace(SUBTASKS[OTHER], worked_ms=1_700.0)
    path = critical_path(checkpoint(subtasks={**SUBTASKS, ENRICH: waiting, OTHER: busy}))
    assert "waited for its thread" in path.cause
    assert path.cause.endswith("(the busiest beside it was enrich (1/2))")


def test_a_slow_storage_is_the_cause_where_it_is() -> None:
    slow = replace(SUBTASKS[SOURCE], async_ms=4_000.0, upload_ms=3_900.0, acknowledged_ms=4_010.0)
    path = critical_path(checkpoint(subtasks={**SUBTASKS, SOURCE: slow}, duration_ms=4_020.0))
    assert_without_gaps(path, 4_065.0)
    assert path.cause == "parse (1/1): 100 B took 3.9 s to write to checkpoint storage"


def test_clocks_that_disagree_never_make_time_go_back() -> None:
    ahead = replace(SUBTASKS[ENRICH], taken_ms=5_000.0, queued_ms=9_000.0)
    path = critical_path(checkpoint(subtasks={**SUBTASKS, ENRICH: ahead}))
    for before, after in pairwise(path.steps):
        assert after.start_ms == before.start_ms + before.duration_ms
        assert after.duration_ms > 0


def test_history_of_before_these_times_were_measured_has_no_path() -> None:
    old = checkpoint(subtasks={SOURCE: SubtaskMetrics(1.0, 2.0, 3.0, 4.0, 5)}, shape={})
    assert critical_path(old) == CriticalPath((), "")
    assert explain_lines(old)[-1] == "Nothing is known of its parts."


def test_the_explanation_marks_the_longest_step() -> None:
    lines = explain_lines(checkpoint())
    assert lines[0] == "checkpoint 7: completed in 1.9 s, 1.0 MiB new of 2.0 MiB"
    (marked,) = [line for line in lines if line.startswith(">")]
    assert "enrich (2/2)" in marked
    assert "1.8 s" in marked


def test_of_an_aborted_checkpoint_it_says_who_did_not_acknowledge() -> None:
    lines = explain_lines(
        checkpoint(
            outcome=CheckpointOutcome.ABORTED,
            reason="it did not complete within its timeout",
            subtasks={SOURCE: QUICK, OTHER: SUBTASKS[OTHER]},
        )
    )
    assert lines[0] == "checkpoint 7: aborted after 1.9 s: it did not complete within its timeout"
    assert lines[-1] == "2 of 4 subtasks have not acknowledged: enrich (2/2), sink (1/1)"
