"""The output keeps to its credit, sends early when the receiver idles, and keeps everything in order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tidegate.protocol.elements import Batch, CheckpointBarrier, EndOfInput, StreamElement, Watermark
from tidegate.protocol.ids import ChannelId, CheckpointId
from tidegate.runtime.batch_joining import MAX_JOINED_BYTES
from tidegate.runtime.output import ChannelBooks, OutputChannel, TaskOutput

from .fakes import ATTEMPT, FakePorts, task_settings


class Channel(OutputChannel):
    """With its ports at hand."""

    def __init__(
        self,
        index: int = 0,
        ports: FakePorts | None = None,
        books: ChannelBooks | None = None,
        **settings: Any,
    ) -> None:
        self.ports = ports or FakePorts()
        self.books = books or ChannelBooks()
        channel_id = ChannelId(0, 0, index)
        super().__init__(ATTEMPT, channel_id, task_settings(**settings), self.ports, self.books)

    def sent(self) -> list[list[StreamElement]]:
        return [list(message.elements) for message in self.ports.sent]


def output_of(*channels: Channel) -> TaskOutput:
    return TaskOutput(channels[0].ports, channels, [], channels[0].books)


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


def test_a_task_with_nothing_else_to_do_sends_what_waits() -> None:
    channel = Channel()
    output = output_of(channel)
    channel.add_batch(records(1))
    assert output.flush_due(0, is_idle=True) is None
    assert channel.sent() == [[records(1)]]


def test_a_busy_task_gathers_records_until_the_buffer_timeout() -> None:
    channel = Channel(buffer_timeout_ms=50)
    output = output_of(channel)
    channel.add_batch(records(1))
    channel.ports.pass_ms(20)
    channel.add_batch(records(1, 1))
    assert output.flush_due(channel.ports.now_ns(), is_idle=False) == 30
    channel.ports.pass_ms(30)
    assert output.flush_due(channel.ports.now_ns(), is_idle=False) is None
    assert channel.sent() == [[records(2)]]


def test_a_buffer_timeout_of_zero_sends_at_once() -> None:
    channel = Channel(buffer_timeout_ms=0)
    output = output_of(channel)
    for _ in range(2):
        channel.add_batch(records(1))
        output.flush_due(0, is_idle=False)
    assert len(channel.sent()) == 2


def test_without_a_buffer_timeout_only_full_batches_and_control_elements_count() -> None:
    channel = Channel(buffer_timeout_ms=-1, batch_size=10)
    output = output_of(channel)
    channel.add_batch(records(1))
    channel.ports.pass_ms(100_000)
    assert output.flush_due(channel.ports.now_ns(), is_idle=True) is None
    assert channel.sent() == []
    channel.add_control(Watermark(5))
    assert channel.sent() == [[records(1), Watermark(5)]]


@pytest.mark.parametrize(("count", "pause_ms"), [(4, None), (5, 1), (64, 12)])
def test_an_idle_task_pauses_after_many_part_filled_messages(count: int, pause_ms: int | None) -> None:
    ports, books = FakePorts(), ChannelBooks()
    channels = [Channel(index, ports, books) for index in range(count)]
    output = output_of(*channels)
    for _ in range(2):
        for channel in channels:
            channel.add_batch(records(1))
        pause = output.flush_due(ports.now_ns(), is_idle=True)
    assert pause == pause_ms
    assert len(ports.sent) == (2 * count if pause_ms is None else count)
    ports.pass_ms(pause_ms or 0)
    output.flush_due(ports.now_ns(), is_idle=True)
    assert len(ports.sent) == 2 * count


def test_of_watermarks_that_wait_together_only_the_last_travels() -> None:
    channel = Channel()
    channel.add_batch(records(1))
    for timestamp_ms in (1, 2, 3):
        channel.add_control(Watermark(timestamp_ms))
    channel.flush()
    assert channel.sent() == [[records(1), Watermark(3)]]


def test_credit_is_used_up_by_what_is_sent_and_comes_back_with_consumption() -> None:
    channel = Channel(batch_size=10, channel_credit_bytes=150)
    output = output_of(channel)
    assert output.has_credit()
    channel.add_batch(records(10))
    assert output.has_credit()
    channel.add_batch(records(10))
    assert channel.outstanding_bytes == 200
    assert not output.has_credit()
    channel.credit_returned(100)
    assert output.has_credit()
    channel.credit_returned(100)
    assert channel.outstanding_bytes == 0


def test_one_channel_without_credit_stops_the_whole_output() -> None:
    ports, books = FakePorts(), ChannelBooks()
    full, free = (Channel(index, ports, books, batch_size=1, channel_credit_bytes=10) for index in range(2))
    output = output_of(full, free)
    full.add_batch(records(1))
    assert not output.has_credit()
    assert output.outstanding_bytes == 10
    output.credit_returned(full.channel_id, 10)
    assert output.has_credit()


def test_a_control_element_goes_behind_the_records_before_it() -> None:
    channel = Channel()
    channel.add_batch(records(2))
    channel.add_control(Watermark(5))
    channel.add_batch(records(1, 2))
    channel.add_control(EndOfInput())
    assert channel.sent() == [[records(2), Watermark(5), records(1, 2)], [EndOfInput()]]


def test_what_a_receiver_must_know_ahead_of_its_turn_travels_alone_and_is_announced() -> None:
    channel, barrier = Channel(), CheckpointBarrier(CheckpointId(1), 0)
    channel.add_batch(records(2))
    output_of(channel).mark(barrier)
    channel.add_control(EndOfInput())
    assert channel.sent() == [[records(2)], [barrier], [EndOfInput()]]
    assert [message.announces for message in channel.ports.sent] == [None, barrier, EndOfInput()]


def test_a_marker_takes_no_credit_and_names_the_one_before_it() -> None:
    channel = Channel()
    output = output_of(channel)
    for checkpoint_id in (1, 2):
        output.mark(CheckpointBarrier(CheckpointId(checkpoint_id), 0))
    assert channel.outstanding_bytes == 0
    assert [message.follows for message in channel.ports.sent] == [-1, 0]


def test_a_marker_reaches_every_channel() -> None:
    ports, books = FakePorts(), ChannelBooks()
    output_of(*(Channel(index, ports, books) for index in range(3))).mark(
        CheckpointBarrier(CheckpointId(1), 0)
    )
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


def test_arrow_batches_travel_as_one_unless_their_columns_differ_or_they_are_large() -> None:
    small = pa.record_batch({"k": [1, 2]})
    other = pa.record_batch({"v": [3]})
    large = pa.record_batch({"k": np.zeros(MAX_JOINED_BYTES // 8, np.int64)})
    sent = sent_together(
        Batch(small.slice(0, 1), [10]), Batch(small.slice(1), [20]), Batch(other, [30]), Batch(large, None)
    )
    assert [element.values.num_rows for element in sent if isinstance(element, Batch)] == [2, 1, len(large)]
    (first, *_) = sent
    assert isinstance(first, Batch)
    assert first.values.to_pydict() == {"k": [1, 2]}
    assert list(first.timestamps or ()) == [10, 20]
