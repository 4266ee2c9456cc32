"""The task's loop, driven by hand: life cycle, order, credit, barriers, the end of input and failures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tidegate.actors.ports import TaskDeployment
from tidegate.actors.task import StreamTask, TaskPhase
from tidegate.common.errors import (
    ConfigurationError,
    CorruptCheckpointError,
    KeyTypeError,
    SerializationError,
    StateMigrationError,
)
from tidegate.common.typeinfo import Types
from tidegate.connectors.collection import CollectionSource
from tidegate.operators.base import FrozenOperator, OperatorContext, StreamOperator
from tidegate.operators.elementwise import MapOperator
from tidegate.operators.functions import MapFunction
from tidegate.operators.keyed import KeyedProcessOperator
from tidegate.operators.output import Output
from tidegate.operators.sinks import Sink, SinkOperator, SinkWriter
from tidegate.operators.sources import SourceOperator
from tidegate.protocol import task_events as events
from tidegate.protocol.checkpoint import SubtaskAcknowledged, SubtaskDeclined, SubtaskInputEnded
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
from tidegate.protocol.ids import CheckpointId, JobId, SubtaskId
from tidegate.state.descriptors import ListStateDescriptor
from tidegate.state.lmdb_backend import LmdbStateBackend

from .fakes import ATTEMPT, FakePorts, TaskUnderTest, barrier, subtask_of, task_settings

MY_ID = SubtaskId("task-10", 0)


class Diary(StreamOperator):
    """Emits its life as records: what it saw, in order; counts records in operator state.

    Args:
        failing: Name of the moment in which it raises.
        error: What it raises then.
    """

    closed = 0
    """How often any diary was closed; tests look at the difference."""

    def __init__(self, failing: str = "", error: Exception | None = None) -> None:
        self._failing = failing
        self._error = error or ValueError("no more paper")

    def _reach(self, moment: str) -> None:
        if moment == self._failing:
            raise self._error

    def open(self) -> None:
        self._state = self.context.operator_state.get_list_state(ListStateDescriptor("count", None))
        self.count = sum(self._state.get())
        self._reach("open")

    def process_batch(self, batch: Batch, input_index: int) -> None:
        self._reach("process")
        self.count += len(batch)
        self.emit(Batch([f"{value}@{input_index}" for value in batch.values]))

    def advance_watermark(self, timestamp_ms: int) -> None:
        self.emit(Batch([f"watermark {timestamp_ms}"]))

    def prepare_snapshot(self, barrier: CheckpointBarrier) -> None:
        self._reach("prepare")
        self.emit(Batch([f"before barrier {barrier.checkpoint_id}"]))

    def snapshot_state(self, barrier: CheckpointBarrier) -> FrozenOperator:
        self._reach("snapshot")
        self._state.update([self.count])
        return super().snapshot_state(barrier)

    def notify_checkpoint_complete(self, checkpoint_id: CheckpointId) -> None:
        self._reach("notify")
        self.emit(Batch([f"complete {checkpoint_id}"]))

    def notify_checkpoint_aborted(self, checkpoint_id: CheckpointId) -> None:
        self.emit(Batch([f"aborted {checkpoint_id}"]))

    def finish(self) -> None:
        self._reach("finish")
        self.emit(Batch(["finish"]))

    def close(self) -> None:
        Diary.closed += 1
        self._reach("close")
        super().close()


def diary_task(channels: int = 1, failing: str = "", **settings: Any) -> TaskUnderTest:
    error = settings.pop("error", None)
    settings.setdefault("buffer_timeout_ms", 0)
    return TaskUnderTest(subtask_of([Diary(failing, error)], channels), **settings)


def complete(checkpoint_id: int) -> events.CheckpointCompleted:
    return events.CheckpointCompleted(CheckpointId(checkpoint_id))


def trigger(checkpoint_id: int, kind: SnapshotKind = SnapshotKind.CHECKPOINT) -> events.TriggerCheckpoint:
    return events.TriggerCheckpoint(barrier(checkpoint_id, kind))


# ---------------------------------------------------------------- life cycle


def test_a_task_reports_its_initialisation_and_waits_for_the_start() -> None:
    test = diary_task()
    test.task.initialize()
    assert test.task.phase is TaskPhase.INITIALIZED
    assert test.ports.reports == [events.TaskInitialized(ATTEMPT, MY_ID)]
    test.receive(Batch(["a"]))
    assert test.ports.sent == []
    test.put(events.StartRunning())
    assert test.task.phase is TaskPhase.RUNNING
    assert test.ports.records() == ["a@0"]


def test_records_and_watermarks_pass_in_order() -> None:
    test = diary_task().start()
    test.receive(Batch(["a"]), Watermark(5), Batch(["b"]), Watermark(4), Watermark(6))
    assert [type(element) for element in test.ports.elements() if not isinstance(element, Batch)] == [
        Watermark,
        Watermark,
    ]
    assert test.ports.records() == ["a@0", "watermark 5", "b@0", "watermark 6"]


def test_the_watermark_of_a_task_is_the_lowest_of_its_channels() -> None:
    test = diary_task(channels=2).start()
    test.receive(Watermark(10), channel=0)
    assert test.ports.records() == []
    test.receive(Watermark(7), channel=1)
    assert test.ports.records() == ["watermark 7"]
    test.receive(EndOfInput(), channel=1)
    assert test.ports.records() == ["watermark 7", "watermark 10"]


def test_cancelling_closes_the_operators_once_and_ends_the_loop() -> None:
    test, closed = diary_task().start(), Diary.closed
    test.put(events.CancelTask())
    test.task.cancel()
    test.task.abandon()
    assert test.task.phase is TaskPhase.CANCELED
    assert Diary.closed == closed + 1
    assert test.task.step().is_over
    assert test.ports.reports[1:] == [events.TaskStopped(ATTEMPT, MY_ID)]


def test_a_cancelled_task_processes_nothing_that_waits_behind_the_cancellation() -> None:
    test = diary_task().start()
    test.task.put(events.CancelTask())
    test.task.put(test.message(Batch(["late"])))
    test.run()
    assert test.ports.sent == []


def test_a_task_can_be_cancelled_before_it_runs() -> None:
    test = diary_task()
    test.task.initialize()
    test.put(events.CancelTask())
    assert test.ports.reported(events.TaskStopped)


def test_a_task_that_was_never_initialised_can_be_cancelled() -> None:
    test = diary_task()
    test.task.cancel()
    assert test.ports.reports == [events.TaskStopped(ATTEMPT, MY_ID)]


def test_an_abandoned_task_closes_without_a_word() -> None:
    test, closed = diary_task().start(), Diary.closed
    reports = len(test.ports.reports)
    test.task.abandon()
    assert Diary.closed == closed + 1
    assert len(test.ports.reports) == reports


def test_waiting_takes_mail_and_returns_when_there_is_none() -> None:
    test = diary_task().start()
    test.task.wait(1)
    test.task.put(test.message(Batch(["a"])))
    test.task.wait(10_000)
    test.run()
    assert test.ports.records() == ["a@0"]


# ---------------------------------------------------------------- failures


@pytest.mark.parametrize("moment", ["open", "process", "prepare", "finish", "close"])
def test_a_failure_at_any_moment_is_reported_with_the_task_and_closes_the_operators(moment: str) -> None:
    test, closed = diary_task(failing=moment, is_checkpointing=False), Diary.closed
    test.start()
    test.receive(Batch(["a"]), barrier(1), EndOfInput())
    assert test.task.phase is TaskPhase.FAILED
    assert Diary.closed > closed
    (failed,) = test.ports.reported(events.TaskFailed)
    assert (failed.attempt, failed.subtask) == (ATTEMPT, MY_ID)
    assert failed.cause == "task Diary (1/1): ValueError: no more paper"
    assert "Traceback" in failed.details
    assert failed.is_recoverable
    assert not test.ports.reported(events.TaskFinished)


def test_a_failing_commit_fails_the_task() -> None:
    test = diary_task(failing="notify").start()
    test.put(complete(1))
    assert test.ports.reported(events.TaskFailed)


def test_a_failed_task_does_nothing_more() -> None:
    test = diary_task(failing="process").start()
    test.receive(Batch(["a"]))
    test.receive(Batch(["b"]), EndOfInput())
    test.put(events.CancelTask())
    assert len(test.ports.reported(events.TaskFailed)) == 1
    assert not test.ports.reported(events.TaskStopped)


@pytest.mark.parametrize(
    "error",
    [
        ConfigurationError("x"),
        CorruptCheckpointError("x"),
        KeyTypeError("x"),
        SerializationError("x"),
        StateMigrationError("x"),
    ],
)
def test_what_a_restart_cannot_mend_is_marked(error: Exception) -> None:
    test = diary_task(failing="process", error=error).start()
    test.receive(Batch(["a"]))
    (failed,) = test.ports.reported(events.TaskFailed)
    assert not failed.is_recoverable


def test_an_operator_that_cannot_be_loaded_names_its_line() -> None:
    subtask = subtask_of([Diary()])
    subtask.task.nodes[0].operator = b"not a pickle"
    test = TaskUnderTest(subtask)
    test.task.initialize()
    (failed,) = test.ports.reported(events.TaskFailed)
    assert "SerializationError: operator 'Diary' (unknown line)" in failed.cause
    assert not failed.is_recoverable


def leave(value: Any) -> Any:
    raise SystemExit(value)


def test_a_function_that_exits_fails_its_task() -> None:
    test = TaskUnderTest(subtask_of([MapOperator(leave)])).start()
    test.receive(Batch([3]))
    (failed,) = test.ports.reported(events.TaskFailed)
    assert failed.cause == "task MapOperator (1/1): SystemExit: 3"


class Noisy(MapFunction):
    def map(self, value: Any) -> Any:
        return 1 // value

    def close(self) -> None:
        raise OSError("already gone")


def test_a_failing_close_does_not_hide_the_failure_before_it() -> None:
    test = TaskUnderTest(subtask_of([MapOperator(Noisy())])).start()
    test.receive(Batch([0]))
    (failed,) = test.ports.reported(events.TaskFailed)
    assert "map() raised ZeroDivisionError" in failed.cause
    assert "on the record 0" in failed.cause


# ---------------------------------------------------------------- flow control


def test_without_credit_nothing_is_taken_and_the_senders_keep_waiting() -> None:
    test = diary_task(channel_credit_bytes=15, batch_size=1).start()
    for number in range(4):
        test.receive(Batch([number]))
    # Two records overshoot 15 bytes; the other two stay in the gate with their credit.
    assert test.ports.records() == ["0@0", "1@0"]
    assert len(test.ports.credits) == 2
    channel = test.subtask.outputs[0].channels[0]
    test.put(events.CreditReturned(channel, 10))
    assert test.ports.records() == ["0@0", "1@0", "2@0"]
    test.put(events.CreditReturned(channel, 10), events.CreditReturned(channel, 10))
    assert test.ports.records() == ["0@0", "1@0", "2@0", "3@0"]


def test_a_source_without_credit_still_takes_its_trigger() -> None:
    source = SourceOperator(CollectionSource(range(10)))
    test = TaskUnderTest(subtask_of([source], channels=0), batch_size=1, channel_credit_bytes=10).start()
    assert test.ports.records() == [0]
    test.put(trigger(1))
    assert test.ports.elements()[-1] == barrier(1)


class SlowSink(Sink):
    def create_writer(self) -> SinkWriter:
        return SlowWriter()


class SlowWriter(SinkWriter):
    """Is not ready again after its first batch."""

    def __init__(self) -> None:
        self.values: list[Any] = []

    def write_batch(self, values: list[Any]) -> None:
        assert self.is_ready()
        self.values += values

    def is_ready(self) -> bool:
        return not self.values


def test_a_sink_that_is_not_ready_gets_nothing_and_is_asked_again_soon() -> None:
    test = TaskUnderTest(subtask_of([SinkOperator(SlowSink())], downstream=0)).start()
    test.receive(Batch(["a"]))
    test.receive(Batch(["b"]))
    assert len(test.ports.credits) == 1
    assert 0 < test.task.step().wait_ms < 100
    assert not test.ports.reported(events.TaskFailed)


def test_records_that_wait_are_sent_after_the_buffer_timeout() -> None:
    test = diary_task(buffer_timeout_ms=50).start()
    test.receive(Batch(["a"]))
    test.receive(Batch(["b"]))
    assert test.ports.records() == ["a@0"]
    assert test.task.step().wait_ms == 50
    test.ports.pass_ms(50)
    test.run()
    assert test.ports.records() == ["a@0", "b@0"]


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
    (operator,) = again.task._chain._in_order()
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
        raise ValueError("no more paper")


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


# ---------------------------------------------------------------- end of input


def test_without_checkpointing_the_end_of_input_ends_the_task() -> None:
    test, closed = diary_task(channels=2, is_checkpointing=False).start(), Diary.closed
    test.receive(Batch(["a"]), EndOfInput(), channel=0)
    assert test.task.phase is TaskPhase.RUNNING
    test.receive(Batch(["b"]), EndOfInput(), channel=1)
    assert test.task.phase is TaskPhase.FINISHED
    assert Diary.closed == closed + 1
    assert test.ports.records() == ["a@0", "b@0", f"watermark {MAX_WATERMARK_MS}", "finish"]
    assert test.ports.elements()[-1] == EndOfInput()
    assert test.ports.reports[-1] == events.TaskFinished(ATTEMPT, MY_ID)


def test_with_checkpointing_the_task_stays_until_the_final_checkpoint_is_complete() -> None:
    test = diary_task().start()
    test.receive(Batch(["a"]), EndOfInput())
    assert test.task.phase is TaskPhase.COMMITTING
    assert test.ports.elements()[-1] == EndOfInput()
    assert test.ports.reports[-1] == SubtaskInputEnded(ATTEMPT, MY_ID)
    test.put(trigger(5, SnapshotKind.FINAL))
    test.ports.run_background()
    test.run()
    assert test.ports.reported(SubtaskAcknowledged)
    assert test.task.phase is TaskPhase.COMMITTING
    test.put(complete(4))
    assert test.task.phase is TaskPhase.COMMITTING
    test.put(complete(5))
    assert test.task.phase is TaskPhase.FINISHED


def test_a_task_whose_input_ended_takes_part_in_the_checkpoints_of_the_others() -> None:
    test = diary_task().start()
    test.receive(EndOfInput())
    for checkpoint_id in (1, 2):
        test.put(trigger(checkpoint_id))
        test.ports.run_background()
        test.put(complete(checkpoint_id))
    assert [event.checkpoint_id for event in test.ports.reported(SubtaskAcknowledged)] == [1, 2]
    assert test.task.phase is TaskPhase.COMMITTING


def test_a_final_checkpoint_after_an_aborted_one_ends_the_task() -> None:
    test = diary_task().start()
    test.receive(EndOfInput())
    test.put(trigger(1, SnapshotKind.FINAL))
    test.put(events.CheckpointAborted(CheckpointId(1)))
    test.put(trigger(2, SnapshotKind.FINAL), complete(2))
    assert test.task.phase is TaskPhase.FINISHED


def test_no_barrier_follows_the_end_of_input() -> None:
    test = diary_task().start()
    test.receive(EndOfInput())
    test.put(trigger(1))
    elements = test.ports.elements()
    assert barrier(1) not in elements
    assert elements[elements.index(EndOfInput()) :] == [EndOfInput()]


def test_the_end_of_a_channel_completes_an_alignment() -> None:
    test = diary_task(channels=2).start()
    test.receive(barrier(1), Batch(["held"]), channel=0)
    test.receive(EndOfInput(), channel=1)
    assert barrier(1) in test.ports.elements()
    assert test.ports.records()[-1] == "held@0"


def test_a_source_ends_its_event_time_and_its_stream() -> None:
    source = SourceOperator(CollectionSource([]))
    test = TaskUnderTest(subtask_of([source], channels=0), is_checkpointing=False).start()
    assert test.ports.elements() == [Watermark(MAX_WATERMARK_MS), EndOfInput()]
    assert test.task.phase is TaskPhase.FINISHED


def test_a_chain_hands_records_on_from_operator_to_operator() -> None:
    test = TaskUnderTest(subtask_of([MapOperator(str), Diary(), MapOperator(str.upper)])).start()
    test.receive(Batch([1, 2]), EndOfInput())
    assert test.ports.records() == ["1@0", "2@0", f"WATERMARK {MAX_WATERMARK_MS}", "FINISH"]


def test_numbered_mail_is_taken_in_its_order_and_once() -> None:
    source = SourceOperator(CollectionSource(range(5)))
    test = TaskUnderTest(subtask_of([source], channels=0))
    test.task.initialize()
    trigger = events.Numbered(1, events.TriggerCheckpoint(stop(1)))
    test.put(trigger)
    assert test.task.phase is TaskPhase.INITIALIZED
    test.put(events.Numbered(0, events.StartRunning()), trigger)
    assert test.task.phase is TaskPhase.STOPPING
    assert test.ports.records() == []
