"""The task's loop, driven by hand: barriers, snapshots, notifications and stops."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tidegate.common.typeinfo import Types
from tidegate.connectors.collection import CollectionSource
from tidegate.operators.base import FrozenOperator, OperatorContext
from tidegate.operators.keyed.keyed import KeyedProcessOperator
from tidegate.operators.output import Output
from tidegate.operators.sources.sources import SourceOperator
from tidegate.protocol import task_events as events
from tidegate.protocol.checkpoints.checkpoint import SubtaskAcknowledged, SubtaskDeclined
from tidegate.protocol.elements import (
    MAX_WATERMARK_MS,
    Batch,
    CancelCheckpointMarker,
    CheckpointBarrier,
    CheckpointingMode,
    EndOfInput,
    SnapshotKind,
    Watermark,
)
from tidegate.protocol.ids import CheckpointId, JobId
from tidegate.runtime.ports import TaskDeployment
from tidegate.runtime.tasks.task import StreamTask, TaskPhase
from tidegate.state.lmdb_backend import LmdbStateBackend
from tidegate.telemetry.metrics import PROCESS_METRICS

from .diary import MY_ID, Diary, complete, diary_task, trigger
from .fakes import ATTEMPT, FakePorts, TaskUnderTest, barrier, subtask_of, task_settings

# ---------------------------------------------------------------- checkpoints


def test_a_snapshot_covers_exactly_what_came_before_the_barrier_on_every_channel() -> None:
    test = diary_task(channels=2).start()
    test.receive(Batch(["a"]), barrier(1), channel=0)
    test.receive(Batch(["behind the barrier"]), channel=0)
    test.receive(Batch(["b"]), channel=1)
    assert test.ports.records() == ["a@0", "b@0"]
    test.receive(barrier(1), channel=1)
    test.ports.run_background()
    test.run()
    elements = test.ports.elements()
    at = elements.index(barrier(1))
    before = [record for e in elements[:at] if isinstance(e, Batch) for record in e.values]
    after = [record for e in elements[at:] if isinstance(e, Batch) for record in e.values]
    assert before == ["a@0", "b@0", "before barrier 1"]
    assert after == ["behind the barrier@0"]
    assert restored_count(test) == 2


def restored_count(test: TaskUnderTest) -> int:
    """What a diary that starts from the newest acknowledged snapshot has counted."""
    acknowledged = test.ports.reported(SubtaskAcknowledged)[-1]
    again = TaskUnderTest(test.subtask, restored=acknowledged.acknowledgement.snapshots)
    again.task.initialize()
    assert again.task._loop is not None
    (operator,) = again.task._loop._chain._in_order()
    assert isinstance(operator, Diary)
    return operator.count


def test_the_acknowledgement_comes_after_the_asynchronous_part() -> None:
    test = diary_task().start()
    test.receive(barrier(4))
    assert not test.ports.reported(SubtaskAcknowledged)
    test.ports.pass_ms(30)
    test.ports.run_background()
    test.run()
    (acknowledged,) = test.ports.reported(SubtaskAcknowledged)
    assert (acknowledged.attempt, acknowledged.subtask) == (ATTEMPT, MY_ID)
    assert acknowledged.checkpoint_id == 4
    assert acknowledged.acknowledgement.metrics.async_ms == 30


def test_the_alignment_is_measured_from_the_first_barrier() -> None:
    test = diary_task(channels=2).start()
    test.ports.pass_ms(5)
    test.receive(barrier(1), channel=0)
    test.ports.pass_ms(40)
    test.receive(barrier(1), channel=1)
    test.ports.run_background()
    test.run()
    (acknowledged,) = test.ports.reported(SubtaskAcknowledged)
    assert acknowledged.acknowledgement.metrics.alignment_ms == 40
    assert acknowledged.acknowledgement.metrics.start_delay_ms == 5


def test_at_least_once_takes_records_from_a_channel_that_delivered_its_barrier() -> None:
    test = diary_task(channels=2, mode=CheckpointingMode.AT_LEAST_ONCE).start()
    test.receive(barrier(1), Batch(["behind the barrier"]), channel=0)
    assert test.ports.records() == ["behind the barrier@0"]
    test.receive(barrier(1), channel=1)
    assert test.ports.records()[-1] == "before barrier 1"
    assert test.ports.elements()[-1] == barrier(1)


def test_a_failing_snapshot_declines_and_the_task_goes_on() -> None:
    test = diary_task(failing="snapshot").start()
    test.receive(barrier(1), Batch(["a"]))
    (declined,) = test.ports.reported(SubtaskDeclined)
    assert (declined.attempt, declined.subtask, declined.checkpoint_id) == (ATTEMPT, MY_ID, 1)
    assert declined.cause == "task 'Diary': ValueError: no more paper"
    assert test.ports.records()[-1] == "a@0"
    assert test.task.phase is TaskPhase.RUNNING
    assert barrier(1) in test.ports.elements()


class FullDisk(Diary):
    def snapshot_state(self, barrier: CheckpointBarrier) -> FrozenOperator:
        frozen = super().snapshot_state(barrier)

        class Failing:
            def persist(self) -> Any:
                raise OSError("no space left on device")

        return FrozenOperator(Failing(), frozen.frozen_lists)  # type: ignore[arg-type]


class BrokenSetUp(Diary):
    def setup(self, context: OperatorContext, output: Output) -> None:
        context.metrics.counter("pages")
        raise ValueError("no more paper")


def test_the_metrics_of_an_operator_that_cannot_be_set_up_are_dropped() -> None:
    test = TaskUnderTest(subtask_of([BrokenSetUp()]))
    test.task.initialize()
    assert not [name for name in PROCESS_METRICS.values() if name.endswith("pages")]


def test_what_a_chain_opened_is_closed_when_its_next_operator_cannot_be_set_up(tmp_path: Path) -> None:
    keyed = KeyedProcessOperator(str, int, Types.LONG(), "map")
    test = TaskUnderTest(
        subtask_of([keyed, BrokenSetUp()]), state_backend=LmdbStateBackend(), local_dir=str(tmp_path)
    )
    test.task.initialize()
    (failed,) = test.ports.reported(events.TaskFailed)
    assert "no more paper" in failed.cause
    assert not [path for path in tmp_path.rglob("*") if path.is_file()], "the LMDB environment is left"


def test_state_that_outgrows_the_memory_backend_declines_the_checkpoint() -> None:
    source = SourceOperator(CollectionSource(range(10)))
    test = TaskUnderTest(subtask_of([source], channels=0), max_inline_state_bytes=100).start()
    test.put(trigger(1))
    test.ports.run_background()
    test.run()
    (declined,) = test.ports.reported(SubtaskDeclined)
    for words in (
        "operator 'SourceOperator', subtask 0",
        "'_source_splits' takes",
        "max_state_size of 100 bytes",
        "state.backend.type: filesystem",
    ):
        assert words in declined.cause
    assert not test.ports.reported(SubtaskAcknowledged)
    assert not test.task.phase.is_terminal


def test_a_failing_asynchronous_part_declines() -> None:
    test = TaskUnderTest(subtask_of([FullDisk()])).start()
    test.receive(barrier(1))
    test.ports.run_background()
    test.run()
    (declined,) = test.ports.reported(SubtaskDeclined)
    assert "no space left on device" in declined.cause
    assert test.task.phase is TaskPhase.RUNNING
    assert not test.ports.reported(SubtaskAcknowledged)


def test_a_cancel_marker_releases_the_channels_and_is_passed_on() -> None:
    test = diary_task(channels=2).start()
    test.receive(barrier(1), Batch(["held"]), channel=0)
    test.receive(CancelCheckpointMarker(CheckpointId(1)), channel=1)
    (declined,) = test.ports.reported(SubtaskDeclined)
    assert declined.checkpoint_id == 1
    assert test.ports.elements()[0] == CancelCheckpointMarker(CheckpointId(1))
    assert test.ports.records() == ["held@0"]


def test_a_newer_barrier_gives_the_older_checkpoint_up() -> None:
    test = diary_task(channels=2).start()
    test.receive(barrier(1), barrier(2), channel=0)
    test.receive(barrier(2), channel=1)
    assert [event.checkpoint_id for event in test.ports.reported(SubtaskDeclined)] == [1]
    assert barrier(2) in test.ports.elements()
    assert barrier(1) not in test.ports.elements()


@pytest.mark.parametrize("mode", list(CheckpointingMode))
def test_markers_of_checkpoints_that_are_over_elsewhere_do_not_pile_up(mode: CheckpointingMode) -> None:
    test = diary_task(channels=2, channel_credit_bytes=10, batch_size=1, mode=mode).start()
    test.receive(Batch(["first"]))
    # No credit: what arrives waits, and meanwhile the coordinator gives one checkpoint up after the other.
    test.receive(Batch(["waits"]))
    before = len(test.ports.credits)
    for checkpoint_id in range(1, 101):
        test.receive(replace(barrier(checkpoint_id), oldest_pending=CheckpointId(checkpoint_id)))
    assert len(test.ports.credits) - before == 99, "it holds more than the barrier of what is under way"
    told = [each for each in test.ports.elements() if isinstance(each, CancelCheckpointMarker)]
    assert told[-1] == CancelCheckpointMarker(CheckpointId(99)), "others may have begun to align"
    test.put(events.CreditReturned(test.subtask.outputs[0].channels[0], 10_000))
    assert test.ports.records() == ["first@0", "waits@0"]


def test_notifications_reach_the_operators() -> None:
    test = diary_task().start()
    test.put(complete(1))
    test.put(events.CheckpointAborted(CheckpointId(2)))
    assert test.ports.records() == ["complete 1", "aborted 2"]


def test_a_source_snapshots_its_position_when_triggered_and_goes_on_from_there() -> None:
    source = SourceOperator(CollectionSource(range(10)))
    subtask = subtask_of([source], channels=0)
    test = TaskUnderTest(subtask, batch_size=4, channel_credit_bytes=30).start()
    assert test.ports.records() == [0, 1, 2, 3]
    test.put(trigger(1))
    test.ports.run_background()
    test.run()
    (acknowledged,) = test.ports.reported(SubtaskAcknowledged)
    again = TaskUnderTest(subtask, restored=acknowledged.acknowledgement.snapshots).start()
    assert again.ports.records() == [4, 5, 6, 7, 8, 9]


def test_a_task_with_open_channels_leaves_direct_triggers_alone() -> None:
    test = diary_task().start()
    test.put(trigger(1))
    test.receive(barrier(1))
    test.ports.run_background()
    test.run()
    assert len(test.ports.reported(SubtaskAcknowledged)) == 1
    assert test.ports.elements().count(barrier(1)) == 1


# ---------------------------------------------------------------- stop with savepoint


def stop(checkpoint_id: int) -> CheckpointBarrier:
    return barrier(checkpoint_id, SnapshotKind.STOP)


def aborted(checkpoint_id: int) -> events.CheckpointAborted:
    return events.CheckpointAborted(CheckpointId(checkpoint_id))


def test_nothing_is_processed_after_the_barrier_of_a_stop() -> None:
    test = diary_task().start()
    test.receive(Batch(["before"]), stop(1), Batch(["after"]))
    assert test.task.phase is TaskPhase.STOPPING
    assert "after@0" not in test.ports.records()
    assert test.ports.elements()[-1] == stop(1)
    test.ports.run_background()
    test.run()
    assert test.ports.reported(SubtaskAcknowledged)
    test.put(complete(1))
    assert test.task.phase is TaskPhase.FINISHED
    assert "after@0" not in test.ports.records()
    assert EndOfInput() not in test.ports.elements()


def test_a_task_goes_on_where_it_stands_when_the_stop_is_given_up() -> None:
    test = diary_task().start()
    test.receive(stop(1), Batch(["after"]))
    test.put(aborted(1))
    assert test.task.phase is TaskPhase.RUNNING
    assert test.ports.records()[-1] == "after@0"
    test.put(complete(2))
    assert test.task.phase is TaskPhase.RUNNING


def test_a_stop_that_was_given_up_before_its_barrier_came_stops_nothing() -> None:
    test = diary_task().start()
    test.put(aborted(1))
    test.receive(stop(1), Batch(["after"]))
    assert test.task.phase is TaskPhase.RUNNING
    assert test.ports.records()[-1] == "after@0"


def test_a_stop_that_is_given_up_does_not_end_a_task_without_input() -> None:
    test = diary_task().start()
    test.receive(EndOfInput())
    test.put(events.TriggerCheckpoint(stop(1)))
    test.put(aborted(1), complete(2))
    assert test.task.phase is TaskPhase.COMMITTING


def test_a_stopped_source_that_is_told_of_the_next_checkpoint_first_sends_its_barrier_and_goes_on() -> None:
    test = TaskUnderTest(subtask_of([SourceOperator(CollectionSource(range(1_000)))], channels=0)).start()
    test.put(events.TriggerCheckpoint(stop(1)))
    assert test.task.phase is TaskPhase.STOPPING
    test.put(trigger(2), aborted(1))
    assert test.ports.elements()[-1] == barrier(2)
    assert test.task.phase is TaskPhase.RUNNING


def test_a_stopped_source_that_is_told_to_end_before_it_hears_of_the_failed_stop_does_so() -> None:
    test = TaskUnderTest(subtask_of([SourceOperator(CollectionSource(range(1_000)))], channels=0)).start()
    test.put(events.TriggerCheckpoint(stop(1)))
    test.put(events.EndSource(), aborted(1))
    assert test.task.phase is TaskPhase.COMMITTING
    assert test.ports.elements()[-1] == EndOfInput()


def test_a_task_without_input_is_not_ended_by_a_checkpoint_after_a_stop_of_whose_failure_it_never_heard() -> (
    None
):
    test = diary_task().start()
    test.receive(EndOfInput())
    test.put(events.TriggerCheckpoint(stop(1)), trigger(2), complete(2))
    assert test.task.phase is TaskPhase.COMMITTING


def test_a_source_that_is_told_so_ends_its_input() -> None:
    source = SourceOperator(CollectionSource(range(1_000)))
    test = TaskUnderTest(subtask_of([source], channels=0)).start()
    test.put(events.EndSource())
    assert test.ports.elements()[-2:] == [Watermark(MAX_WATERMARK_MS), EndOfInput()]
    assert test.task.phase is TaskPhase.COMMITTING


def test_a_task_of_a_stopped_job_only_commits() -> None:
    subtask = subtask_of([Diary()])
    ports = FakePorts()
    deployment = TaskDeployment(JobId("job"), ATTEMPT, 1, subtask, task_settings(), {}, is_stopped=True)
    task = StreamTask(deployment, ports)
    task.initialize()
    task.put(events.StartRunning())
    assert task.step().is_over
    assert task.phase is TaskPhase.FINISHED
    assert ports.records() == []
