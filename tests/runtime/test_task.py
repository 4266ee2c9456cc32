"""The task's loop, driven by hand: life cycle, order, credit, the end of input and failures."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tidegate.common.errors import (
    ConfigurationError,
    CorruptCheckpointError,
    KeyTypeError,
    SerializationError,
    StateError,
    StateMigrationError,
    UserCodeError,
)
from tidegate.connectors.collection import CollectionSource
from tidegate.operators.elementwise import MapOperator
from tidegate.operators.functions import MapFunction
from tidegate.operators.sinks import Sink, SinkOperator, SinkWriter
from tidegate.operators.sources.sources import SourceOperator
from tidegate.protocol import task_events as events
from tidegate.protocol.checkpoints.checkpoint import SubtaskAcknowledged, SubtaskInputEnded
from tidegate.protocol.elements import (
    MAX_WATERMARK_MS,
    Batch,
    EndOfInput,
    SnapshotKind,
    Watermark,
)
from tidegate.protocol.ids import Attempt, CheckpointId
from tidegate.runtime.tasks.task import TaskPhase
from tidegate.runtime.tasks.task_failures import is_program_error

from .diary import MY_ID, Diary, complete, diary_task, trigger
from .fakes import ATTEMPT, TaskUnderTest, barrier, subtask_of

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


def test_a_late_message_of_an_older_attempt_may_come_before_the_initialisation() -> None:
    test = diary_task()
    late = test.message(Batch([1]))
    test.put(replace(late, attempt=Attempt(ATTEMPT - 1)))
    test.start()
    assert not test.ports.reported(events.TaskFailed)
    test.put(test.message(Batch([2])))
    assert test.task.phase is TaskPhase.RUNNING


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


def raised_from(error: Exception, cause: Exception, shows_cause: bool = True) -> Exception:
    try:
        try:
            raise cause
        except Exception as caught:
            raise error from caught if shows_cause else None
    except Exception as raised:
        return raised


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (raised_from(UserCodeError("open() raised"), NameError("x")), True),
        (raised_from(UserCodeError("opening the source raised"), TimeoutError("x")), False),
        (raised_from(AttributeError("x"), ConnectionResetError("y")), False),
        (raised_from(TypeError("x"), OSError("y"), shows_cause=False), False),
    ],
)
def test_what_follows_from_an_error_of_the_world_is_no_error_of_the_program(
    error: Exception, expected: bool
) -> None:
    assert is_program_error(error) == expected


@pytest.mark.parametrize(
    ("moment", "error", "is_start_error"),
    [
        ("open", TypeError("x"), True),
        ("open", ModuleNotFoundError("x"), True),
        ("open", StateError("x"), True),
        ("open", ConnectionRefusedError("x"), False),
        ("open", ValueError("x"), False),
        ("process", TypeError("x"), False),
    ],
)
def test_errors_of_the_program_are_marked_if_they_are_raised_before_the_first_record(
    moment: str, error: Exception, is_start_error: bool
) -> None:
    test = diary_task(failing=moment, error=error).start()
    test.receive(Batch(["a"]))
    (failed,) = test.ports.reported(events.TaskFailed)
    assert (failed.is_start_error, failed.is_recoverable) == (is_start_error, True)


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
    assert 0 < test.task.step().wait_ns < 100_000_000
    assert not test.ports.reported(events.TaskFailed)


def test_a_task_that_comes_to_rest_sends_what_waits() -> None:
    test = diary_task(buffer_timeout_ms=50, batch_size=100).start()
    test.receive(Batch(["a"]))
    test.receive(Batch(["b"]))
    assert test.ports.records() == ["a@0", "b@0"]


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


def test_a_final_checkpoint_ends_the_task_although_the_abort_of_an_older_one_arrives_late() -> None:
    test = diary_task().start()
    test.receive(EndOfInput())
    test.put(trigger(1, SnapshotKind.FINAL), trigger(2, SnapshotKind.FINAL))
    test.put(events.CheckpointAborted(CheckpointId(1)), complete(2))
    assert test.task.phase is TaskPhase.FINISHED


def test_no_barrier_follows_the_end_of_input() -> None:
    # The diary writes at every barrier; here that waits for a full batch.
    test = diary_task(batch_size=100).start()
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
    trigger = events.Numbered(1, events.TriggerCheckpoint(barrier(1, SnapshotKind.STOP)))
    test.put(trigger)
    assert test.task.phase is TaskPhase.INITIALIZED
    test.put(events.Numbered(0, events.StartRunning()), trigger)
    assert test.task.phase is TaskPhase.STOPPING
    assert test.ports.records() == []
