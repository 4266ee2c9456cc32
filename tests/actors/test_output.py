"""The output keeps to its credit, sends early when the receiver idles, and keeps everything in order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tidegate.actors.output import OutputChannel, TaskOutput
from tidegate.protocol.elements import Batch, CheckpointBarrier, EndOfInput, StreamElement, Watermark
from tidegate.protocol.ids import ChannelId, CheckpointId

from .fakes import ATTEMPT, FakePorts, task_settings


class Channel(OutputChannel):
    """With its ports at hand."""

    def __init__(self, index: int = 0, ports: FakePorts | None = None, **settings: Any) -> None:
        self.ports = ports or FakePorts()
        channel_id = ChannelId(0, 0, index)
        super().__init__(ATTEMPT, channel_id, task_settings(**settings), self.ports)

    def sent(self) -> list[list[StreamElement]]:
        return [list(message.elements) for message in self.ports.sent]


def records(count: int, start: int = 0) -> Batch:
    return Batch(list(range(start, start + count)))


def test_a_full_batch_is_sent_at_once() -> None:
    channel = Channel(batch_size=10)
    channel.add_batch(records(9))
    assert channel.sent() == []
    channel.add_batch(records(1, 9))
    assert channel.sent() == [[records(10)]]


def test_messages_are_numbered_without_gaps_and_carry_attempt_and_channel() -> None:
    channel = Channel(index=4, batch_size=1)
    for _ in range(3):
        channel.add_batch(records(1))
        channel.credit_returned(10)
    assert [message.sequence_number for message in channel.ports.sent] == [0, 1, 2]
    assert {(message.attempt, message.channel) for message in channel.ports.sent} == {
        (ATTEMPT, ChannelId(0, 0, 4))
    }


def test_an_idle_receiver_does_not_wait_for_a_full_batch() -> None:
    channel = Channel()
    output = TaskOutput([channel])
    channel.add_batch(records(1))
    assert output.flush_due(0, is_idle=True) is None
    assert channel.sent() == [[records(1)]]


def test_behind_a_message_under_way_records_gather_until_the_buffer_timeout() -> None:
    channel = Channel(buffer_timeout_ms=50)
    output = TaskOutput([channel])
    channel.add_batch(records(1))
    output.flush_due(channel.ports.now_ns(), is_idle=True)
    channel.ports.pass_ms(1)
    channel.add_batch(records(1, 1))
    channel.ports.pass_ms(20)
    channel.add_batch(records(1, 2))
    assert output.flush_due(channel.ports.now_ns(), is_idle=True) == 30
    channel.ports.pass_ms(30)
    assert output.flush_due(channel.ports.now_ns(), is_idle=True) is None
    assert channel.sent() == [[records(1)], [records(2, 1)]]


def test_the_answer_of_the_receiver_sends_what_gathered() -> None:
    channel = Channel()
    output = TaskOutput([channel])
    channel.add_batch(records(1))
    output.flush_due(0, is_idle=True)
    channel.add_batch(records(1, 1))
    assert output.flush_due(0, is_idle=True) == 50
    output.credit_returned(channel.channel_id, 10)
    assert output.flush_due(0, is_idle=True) is None
    assert len(channel.sent()) == 2


def test_a_buffer_timeout_of_zero_sends_at_once() -> None:
    channel = Channel(buffer_timeout_ms=0)
    output = TaskOutput([channel])
    for _ in range(2):
        channel.add_batch(records(1))
        output.flush_due(0, is_idle=True)
    assert len(channel.sent()) == 2


def two_under_way(**settings: Any) -> tuple[Channel, TaskOutput]:
    channel = Channel(**settings)
    output = TaskOutput([channel])
    for number in range(2):
        channel.add_batch(records(1, number))
        channel.ports.pass_ms(50)
        output.flush_due(channel.ports.now_ns(), is_idle=True)
    assert len(channel.sent()) == 2
    return channel, output


@pytest.mark.parametrize("buffer_timeout_ms", [0, 50])
def test_behind_two_messages_under_way_records_gather_without_a_timeout(buffer_timeout_ms: int) -> None:
    channel, output = two_under_way(buffer_timeout_ms=buffer_timeout_ms)
    for number in range(2, 5):
        channel.add_batch(records(1, number))
        channel.ports.pass_ms(1_000)
        assert output.flush_due(channel.ports.now_ns(), is_idle=True) is None
    assert len(channel.sent()) == 2
    output.credit_returned(channel.channel_id, 10)
    output.flush_due(channel.ports.now_ns(), is_idle=True)
    assert channel.sent()[2:] == [[records(3, 2)]]


def test_a_full_batch_and_a_control_element_wait_for_no_message_under_way() -> None:
    channel, _ = two_under_way(batch_size=2)
    channel.add_batch(records(2, 2))
    channel.add_batch(records(1, 4))
    channel.add_control(Watermark(5))
    assert channel.sent()[2:] == [[records(2, 2)], [records(1, 4), Watermark(5)]]


def enough_under_way(credit_bytes: int = 320) -> tuple[Channel, TaskOutput]:
    """Two full batches, of 20 bytes each."""
    channel = Channel(batch_size=2, channel_credit_bytes=credit_bytes)
    for number in range(2):
        channel.add_batch(records(2, 2 * number))
    assert len(channel.sent()) == 2
    return channel, TaskOutput([channel])


@pytest.mark.parametrize(("credit_bytes", "batches"), [(320, 4), (319, 3), (160, 2), (159, 1), (10, 1)])
def test_a_receiver_with_enough_before_it_gets_messages_of_several_batches_in_a_quarter_of_the_credit(
    credit_bytes: int, batches: int
) -> None:
    channel, output = enough_under_way(credit_bytes)
    for number in range(2, 2 + batches):
        assert len(channel.sent()) == 2
        assert output.flush_due(channel.ports.now_ns(), is_idle=True) is None
        channel.add_batch(records(2, 2 * number))
    assert channel.sent()[2:] == [[records(2, 2 * number) for number in range(2, 2 + batches)]]


def test_a_full_batch_waits_for_others_only_until_the_receiver_has_less_before_it() -> None:
    channel, output = enough_under_way()
    channel.add_batch(records(2, 4))
    output.credit_returned(channel.channel_id, 20)
    assert output.flush_due(channel.ports.now_ns(), is_idle=False) is None
    assert channel.sent()[2:] == [[records(2, 4)]]


def test_barriers_under_way_are_not_enough_before_a_receiver() -> None:
    channel = Channel(batch_size=2)
    channel.add_batch(records(2))
    for number in range(5):
        channel.add_control(CheckpointBarrier(CheckpointId(number), 0))
    channel.add_batch(records(2, 2))
    assert channel.sent()[6:] == [[records(2, 2)]]


def busy(channels: int, **settings: Any) -> tuple[list[Channel], TaskOutput]:
    """Channels of a task that is never idle, with a record in each."""
    ports = FakePorts()
    all_channels = [Channel(index, ports, **settings) for index in range(channels)]
    for channel in all_channels:
        channel.add_batch(records(1))
    return all_channels, TaskOutput(all_channels)


@pytest.mark.parametrize(("count", "after_ms"), [(2, 100), (8, 400), (64, 1_000)])
def test_a_busy_task_has_the_more_patience_the_more_channels_it_has(count: int, after_ms: int) -> None:
    (channel, *_), output = busy(count, buffer_timeout_ms=50)
    assert output.flush_due(channel.ports.now_ns(), is_idle=False) == after_ms
    channel.ports.pass_ms(after_ms - 1)
    output.flush_due(channel.ports.now_ns(), is_idle=False)
    assert channel.sent() == []
    channel.ports.pass_ms(1)
    output.flush_due(channel.ports.now_ns(), is_idle=False)
    assert len(channel.sent()) == count


def test_a_busy_task_with_one_channel_does_not_let_an_idle_receiver_wait() -> None:
    (channel,), output = busy(1)
    assert output.flush_due(channel.ports.now_ns(), is_idle=False) is None
    assert len(channel.sent()) == 1


def test_a_timeout_that_is_longer_than_the_patience_of_a_busy_task_counts() -> None:
    (channel, *_), output = busy(3, buffer_timeout_ms=5_000)
    assert output.flush_due(channel.ports.now_ns(), is_idle=False) == 5_000


def test_a_busy_task_that_comes_to_rest_sends_to_idle_receivers() -> None:
    (channel, *_), output = busy(8)
    output.flush_due(channel.ports.now_ns(), is_idle=False)
    assert channel.sent() == []
    assert output.flush_due(channel.ports.now_ns(), is_idle=True) is None
    assert len(channel.sent()) == 8


def test_a_control_element_takes_full_batches_that_wait_along() -> None:
    channel, _ = enough_under_way()
    channel.add_batch(records(2, 4))
    channel.add_control(CheckpointBarrier(CheckpointId(1), 0))
    assert [len(message) for message in channel.sent()[2:]] == [1, 1]


def test_credit_is_used_up_by_what_is_sent_and_comes_back_with_consumption() -> None:
    channel = Channel(batch_size=10, channel_credit_bytes=150)
    assert channel.has_credit()
    channel.add_batch(records(10))
    assert channel.has_credit()
    channel.add_batch(records(10))
    assert channel.outstanding_bytes == 200
    assert not channel.has_credit()
    channel.credit_returned(100)
    assert channel.has_credit()
    channel.credit_returned(100)
    assert channel.outstanding_bytes == 0


def test_one_channel_without_credit_stops_the_whole_output() -> None:
    ports = FakePorts()
    full, free = (Channel(index, ports, batch_size=1, channel_credit_bytes=10) for index in range(2))
    output = TaskOutput([full, free])
    full.add_batch(records(1))
    assert not output.has_credit()
    assert output.outstanding_bytes == 10
    output.credit_returned(full.channel_id, 10)
    assert output.has_credit()


def test_a_control_element_goes_behind_the_records_before_it_and_at_once() -> None:
    channel = Channel()
    channel.add_batch(records(2))
    channel.add_control(Watermark(5))
    channel.add_batch(records(1, 2))
    channel.add_control(EndOfInput())
    assert channel.sent() == [[records(2), Watermark(5)], [records(1, 2)], [EndOfInput()]]


def test_what_a_receiver_must_know_ahead_of_its_turn_travels_alone_and_is_announced() -> None:
    channel, barrier = Channel(), CheckpointBarrier(CheckpointId(1), 0)
    channel.add_batch(records(2))
    channel.add_control(barrier)
    channel.add_control(EndOfInput())
    assert channel.sent() == [[records(2)], [barrier], [EndOfInput()]]
    assert [message.announces for message in channel.ports.sent] == [None, barrier, EndOfInput()]


def test_a_control_element_is_sent_without_credit() -> None:
    channel = Channel(batch_size=1, channel_credit_bytes=1)
    channel.add_batch(records(1))
    assert not channel.has_credit()
    channel.add_control(Watermark(1))
    assert channel.sent()[-1] == [Watermark(1)]


def test_broadcast_reaches_every_channel() -> None:
    ports = FakePorts()
    TaskOutput([Channel(index, ports) for index in range(3)]).broadcast(Watermark(7))
    assert [message.channel.downstream_index for message in ports.sent] == [0, 1, 2]


def sent_together(*batches: Batch) -> list[StreamElement]:
    channel = Channel()
    for batch in batches:
        channel.add_batch(batch)
    channel.flush()
    (message,) = channel.sent()
    return message


def test_neighbouring_batches_travel_as_one_with_their_timestamps_and_keys() -> None:
    joined = sent_together(Batch([1], [10], ["a"]), Batch([2, 3], [20, 30], ["b", "c"]))
    assert joined == [Batch([1, 2, 3], [10, 20, 30], ["a", "b", "c"])]


def test_arrays_of_keys_are_joined_too() -> None:
    (batch,) = sent_together(Batch([1], None, np.array([7])), Batch([2], None, np.array([8])))
    assert isinstance(batch, Batch)
    assert batch.values == [1, 2]
    assert batch.keys.tolist() == [7, 8]


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (Batch([1], [10]), Batch([2])),
        (Batch([1], None, ["a"]), Batch([2])),
        (Batch([1], None, ["a"]), Batch([2], None, np.array([2]))),
    ],
)
def test_batches_of_different_shape_stay_apart_and_in_order(left: Batch, right: Batch) -> None:
    first, second = sent_together(left, right)
    assert first is left
    assert second is right


def test_joining_leaves_the_batches_of_other_channels_alone() -> None:
    # A broadcast hands one batch to every channel.
    shared = Batch([1])
    sent_together(shared, Batch([2]))
    assert shared == Batch([1])
