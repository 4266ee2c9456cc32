"""A message that a transport lost fails the attempt within seconds, with both ends named."""

from __future__ import annotations

from tidegate.actors.task import TaskPhase
from tidegate.protocol import task_events as events
from tidegate.protocol.elements import Batch, EndOfInput, Message, Probe
from tidegate.protocol.ids import CheckpointId

from .diary import diary_task
from .fakes import ATTEMPT, TaskUnderTest


def pass_seconds(test: TaskUnderTest, seconds: int) -> None:
    """Let time pass, with a step of the task in each second, as an idle loop takes it."""
    for _ in range(seconds):
        test.ports.pass_ms(1_000)
        test.run()


def test_a_gap_fails_the_task_and_names_both_ends_and_the_message() -> None:
    test = diary_task(channels=2).start()
    test.receive(Batch(["a"]), channel=1)
    test.message(Batch(["lost"]), channel=1)
    test.receive(Batch(["b"]), channel=1)
    pass_seconds(test, 4)
    assert test.task.phase is TaskPhase.RUNNING
    pass_seconds(test, 4)
    (failed,) = test.ports.reported(events.TaskFailed)
    assert failed.is_recoverable
    assert "LostMessageError" in failed.cause
    assert (
        f"{test.subtask.name} did not receive message 1 of channel e1:1->0 from upstream (2/2)"
        in failed.cause
    )
    assert "tidegate.network.gap-timeout" in failed.cause


def test_a_message_that_comes_late_fails_nothing() -> None:
    test = diary_task().start()
    late = test.message(Batch(["a"]))
    test.receive(Batch(["b"]))
    pass_seconds(test, 4)
    test.put(late)
    pass_seconds(test, 10)
    assert test.task.phase is TaskPhase.RUNNING
    assert test.ports.records() == ["a@0", "b@0"]


def test_a_lost_mail_of_the_coordinator_fails_the_task() -> None:
    test = diary_task()
    test.task.initialize()
    test.put(events.Numbered(1, events.CheckpointCompleted(CheckpointId(1))))
    pass_seconds(test, 8)
    (failed,) = test.ports.reported(events.TaskFailed)
    assert "did not receive mail 0 from the coordinator" in failed.cause


def test_a_quiet_sender_shows_the_receiver_how_many_messages_it_sent() -> None:
    test = diary_task().start()
    test.receive(Batch(["a"]), EndOfInput())
    sent = len(test.ports.sent)
    pass_seconds(test, 30)
    probes = test.ports.sent[sent:]
    assert probes
    assert all(message.announces == Probe() for message in probes)
    assert [message.sequence_number for message in probes] == list(range(sent, sent + len(probes)))


def test_a_probe_that_was_answered_is_not_repeated() -> None:
    test = diary_task().start()
    test.receive(Batch(["a"]))
    while not test.ports.sent[-1].announces:
        pass_seconds(test, 1)
    probe = test.ports.sent[-1]
    test.put(events.CreditReturned(probe.channel, probe.size_bytes))
    sent = len(test.ports.sent)
    pass_seconds(test, 30)
    assert len(test.ports.sent) == sent
    test.receive(Batch(["b"]))
    pass_seconds(test, 30)
    assert test.ports.sent[-1].announces == Probe()


def test_a_sender_without_anything_out_sends_no_probe() -> None:
    test = diary_task().start()
    test.receive(Batch(["a"]))
    (message,) = test.ports.sent
    test.put(events.CreditReturned(message.channel, message.size_bytes))
    pass_seconds(test, 30)
    assert test.ports.sent == [message]


def test_the_receiver_answers_a_probe_when_everything_before_it_has_arrived() -> None:
    test = diary_task().start()
    late = test.message(Batch(["a"]))
    channel = late.channel
    test.put(Message(ATTEMPT, channel, 1, [], 0, Probe()))
    assert test.ports.credits == []
    test.put(late)
    assert (channel, 1, 0) in test.ports.credits
    assert test.ports.records() == ["a@0"]


def test_a_message_without_an_answer_fails_its_sender_unless_the_attempt_is_stopped_before() -> None:
    test = diary_task().start()
    test.receive(Batch(["a"]))
    (message,) = test.ports.sent
    test.put(events.SendFailed(message.channel, message.sequence_number, "connection reset"))
    pass_seconds(test, 4)
    assert test.task.phase is TaskPhase.RUNNING
    pass_seconds(test, 2)
    (failed,) = test.ports.reported(events.TaskFailed)
    assert "got no answer from downstream (1/1) to message 0 of channel e99:0->0" in failed.cause
    assert failed.cause.endswith("connection reset. Check the connection between the nodes of both")
