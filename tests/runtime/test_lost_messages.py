"""A message that a transport lost fails the attempt within seconds, with both ends named."""

from __future__ import annotations

from tidegate.protocol import task_events as events
from tidegate.protocol.elements import Batch, Probe
from tidegate.protocol.ids import CheckpointId
from tidegate.runtime.tasks.task import TaskPhase

from .diary import diary_task
from .fakes import TaskUnderTest, barrier


def pass_seconds(test: TaskUnderTest, seconds: int) -> None:
    """Let time pass, with a step of the task in each second, as an idle loop takes it."""
    for _ in range(seconds):
        test.ports.pass_ms(1_000)
        test.run()


def test_a_gap_fails_the_task_and_names_both_ends_and_the_message() -> None:
    test = diary_task(channels=2).start()
    test.receive(Batch(["a"]), channel=1)
    test.message(barrier(1), channel=1)
    test.receive(Batch(["b"]), channel=1)
    pass_seconds(test, 4)
    assert test.task.phase is TaskPhase.RUNNING
    pass_seconds(test, 4)
    (failed,) = test.ports.reported(events.TaskFailed)
    assert failed.is_recoverable
    assert failed.is_network_error
    assert "LostMessageError" in failed.cause
    assert (
        f"{test.subtask.name} did not receive message 1 of channel e1:1->0 from upstream (2/2)"
        in failed.cause
    )
    assert "tidegate.network.gap-timeout" in failed.cause


def test_a_lost_barrier_shows_when_the_next_one_comes() -> None:
    test = diary_task().start()
    lost = test.message(barrier(1))
    after = test.message(barrier(2))
    after.follows = lost.sequence_number
    test.put(after)
    pass_seconds(test, 8)
    (failed,) = test.ports.reported(events.TaskFailed)
    assert "did not receive message 0" in failed.cause


def test_a_barrier_ahead_of_records_that_are_under_way_is_no_gap() -> None:
    test = diary_task().start()
    late = test.message(Batch(["a"]))
    test.put(test.message(barrier(1)))
    pass_seconds(test, 30)
    assert test.task.phase is TaskPhase.RUNNING
    test.put(late)
    assert test.ports.records() == ["a@0", "before barrier 1"]


def test_a_barrier_that_comes_late_fails_nothing() -> None:
    test = diary_task().start()
    late = test.message(barrier(1))
    test.receive(Batch(["b"]))
    pass_seconds(test, 4)
    test.put(late)
    pass_seconds(test, 10)
    assert test.task.phase is TaskPhase.RUNNING
    assert test.ports.records() == ["before barrier 1", "b@0"]


def test_a_lost_mail_of_the_coordinator_fails_the_task() -> None:
    test = diary_task()
    test.task.initialize()
    test.put(events.Numbered(1, events.CheckpointCompleted(CheckpointId(1))))
    pass_seconds(test, 8)
    (failed,) = test.ports.reported(events.TaskFailed)
    assert "did not receive mail 0 from the coordinator" in failed.cause


def test_a_quiet_sender_shows_once_that_it_sent_a_marker() -> None:
    test = diary_task().start()
    test.receive(barrier(1))
    sent = len(test.ports.sent)
    pass_seconds(test, 30)
    (probe,) = test.ports.sent[sent:]
    assert probe.announces == Probe()
    assert probe.sequence_number == sent


def test_a_sender_whose_last_message_was_no_marker_sends_no_probe() -> None:
    test = diary_task().start()
    test.receive(barrier(1), Batch(["a"]))
    sent = len(test.ports.sent)
    pass_seconds(test, 30)
    assert len(test.ports.sent) == sent


def test_a_lost_connection_fails_the_task_and_names_both_ends() -> None:
    test = diary_task(channels=2).start()
    channel = test.subtask.inputs[1].channel
    test.put(events.ConnectionFailed(channel, "10.0.0.2:4711: Connection refused"))
    (failed,) = test.ports.reported(events.TaskFailed)
    assert f"the connection between {test.subtask.name} and upstream (2/2) was lost" in failed.cause
    assert "10.0.0.2:4711: Connection refused" in failed.cause


def test_a_message_without_an_answer_fails_its_sender_unless_the_attempt_is_stopped_before() -> None:
    test = diary_task().start()
    test.receive(Batch(["a"]))
    (message,) = test.ports.sent
    test.put(events.SendFailed(message.channel, message.sequence_number, "connection reset"))
    pass_seconds(test, 4)
    assert test.task.phase is TaskPhase.RUNNING
    pass_seconds(test, 2)
    (failed,) = test.ports.reported(events.TaskFailed)
    assert "got no answer from downstream (1/1) to marker 0 of channel e99:0->0" in failed.cause
    assert failed.cause.endswith("connection reset. Check the connection between the nodes of both")
