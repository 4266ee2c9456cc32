"""The input gate puts messages in order, drops what is not for it, and holds back credit and channels."""

from __future__ import annotations

from itertools import permutations
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tidegate.protocol.elements import Batch, CheckpointBarrier, EndOfInput, Message, StreamElement, Watermark
from tidegate.protocol.ids import Attempt, ChannelId, CheckpointId
from tidegate.protocol.scheduling.execution_graph import InputChannel
from tidegate.runtime.batch_joining import MAX_JOINED_BYTES
from tidegate.runtime.gate import InputGate
from tidegate.runtime.network.wire import decode_elements

from .fakes import ATTEMPT, FakePorts

CHANNELS = [InputChannel(ChannelId(0, upstream, 0), input_index=upstream) for upstream in range(3)]


class Gate(InputGate):
    """With its ports at hand."""

    def __init__(self, channels: int) -> None:
        self.ports = FakePorts()
        super().__init__(ATTEMPT, CHANNELS[:channels], self.ports.decode, self.ports.return_credit)

    def take_all(self) -> list[tuple[int, Any]]:
        """Channel and first record of everything that can be taken."""
        taken = []
        while (entry := self.poll()) is not None:
            index, element = entry
            taken.append((index, element.values[0] if isinstance(element, Batch) else element))
        return taken


def message(channel: int, number: int, *records: Any, attempt: int = ATTEMPT) -> Message:
    elements: list[StreamElement] = [Batch([record]) for record in records or (number,)]
    return Message(Attempt(attempt), CHANNELS[channel].channel, number, elements, 10 * len(elements))


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_messages_leave_in_order_however_they_arrive(order: tuple[int, ...]) -> None:
    gate = Gate(1)
    assert all(gate.accept(message(0, number)) for number in order)
    assert gate.take_all() == [(0, 0), (0, 1), (0, 2), (0, 3)]


def test_a_gap_holds_back_what_is_behind_it() -> None:
    gate = Gate(1)
    gate.accept(message(0, 1))
    gate.accept(message(0, 2))
    assert gate.poll() is None
    gate.accept(message(0, 0))
    assert gate.take_all() == [(0, 0), (0, 1), (0, 2)]


@given(st.lists(st.integers(min_value=0, max_value=5), max_size=30))
def test_every_message_leaves_once_however_often_it_arrives(numbers: list[int]) -> None:
    gate = Gate(1)
    seen: list[int] = []
    for number in numbers:
        gate.accept(message(0, number))
        seen += [value for _, value in gate.take_all()]
    expected = next(n for n in range(7) if n not in numbers)
    assert seen == list(range(expected))
    assert len(gate.ports.credits) == expected


def test_duplicates_and_messages_of_another_attempt_or_channel_are_refused() -> None:
    gate = Gate(1)
    assert gate.accept(message(0, 0))
    assert not gate.accept(message(0, 0))
    assert not gate.accept(message(0, 1, attempt=ATTEMPT - 1))
    assert not gate.accept(message(0, 1, attempt=ATTEMPT + 1))
    assert not gate.accept(message(2, 0))
    assert gate.accept(message(0, 2))
    assert not gate.accept(message(0, 2))
    assert gate.take_all() == [(0, 0)]


def test_a_blocked_channel_keeps_its_messages_and_their_credit() -> None:
    gate = Gate(2)
    gate.accept(message(0, 0))
    gate.block(0)
    gate.accept(message(0, 1))
    gate.accept(message(1, 0))
    assert gate.take_all() == [(1, 0)]
    assert [channel for channel, _, _ in gate.ports.credits] == [CHANNELS[1].channel]
    gate.resume([0])
    assert gate.take_all() == [(0, 0), (0, 1)]


def test_channels_take_turns_message_by_message() -> None:
    gate = Gate(3)
    for channel in range(3):
        for number in range(3):
            gate.accept(message(channel, number, f"{channel}{number}a", f"{channel}{number}b"))
    taken = gate.take_all()
    # Both elements of a message come together, then it is the next channel's turn.
    assert [channel for channel, _ in taken[::2]] == [0, 1, 2] * 3
    assert [channel for channel, _ in taken[1::2]] == [0, 1, 2] * 3


def test_a_channel_that_is_always_full_does_not_starve_the_others() -> None:
    gate = Gate(2)
    gate.accept(message(1, 0))
    taken = []
    for number in range(4):
        gate.accept(message(0, number))
        entry = gate.poll()
        assert entry is not None
        taken.append(entry[0])
    assert 1 in taken[:2]


def test_credit_returns_when_the_last_element_of_a_message_is_taken() -> None:
    gate = Gate(1)
    gate.accept(message(0, 0, "a", "b", "c"))
    assert gate.ports.credits == []
    gate.poll()
    gate.poll()
    assert gate.ports.credits == []
    gate.poll()
    assert gate.ports.credits == [(CHANNELS[0].channel, 0, 30)]


def test_a_channel_knows_its_operator_input_and_its_id() -> None:
    gate = Gate(3)
    assert len(gate) == 3
    assert [gate.input_index(index) for index in range(3)] == [0, 1, 2]
    assert gate.channel_id(2) == CHANNELS[2].channel


def test_control_elements_stay_between_the_batches() -> None:
    gate = Gate(1)
    elements: list[StreamElement] = [Batch(["a"]), EndOfInput()]
    gate.accept(Message(ATTEMPT, CHANNELS[0].channel, 0, elements, 11))
    assert gate.take_all() == [(0, "a"), (0, EndOfInput())]


def test_what_is_in_a_message_is_decoded_when_its_turn_comes_and_answered_with_its_last() -> None:
    gate = Gate(2)
    gate.accept(message(0, 0, "a", "b"))
    gate.accept(message(1, 0, "c"))
    assert gate.ports.decoded == []
    seen = []
    while (entry := gate.poll()) is not None:
        seen.append((entry[1], len(gate.ports.decoded), len(gate.ports.credits)))
    assert seen == [(Batch(["a"]), 1, 0), (Batch(["b"]), 2, 1), (Batch(["c"]), 3, 2)]


class Inputs(Gate):
    """Of one operator input, or of two; what is polled is joined."""

    def __init__(self, channels: int, inputs: int = 1) -> None:
        self.ports = FakePorts()
        self.entries = [
            InputChannel(CHANNELS[index % 3].channel, index % inputs) for index in range(min(channels, 3))
        ]
        InputGate.__init__(self, ATTEMPT, self.entries, self.ports.decode, self.ports.return_credit)

    def joined(self, enough_records: int) -> list[tuple[int, Any]]:
        """Channel and records, or control element, of everything that can be taken."""
        taken = []
        while (entry := self.poll(enough_records)) is not None:
            index, element = entry
            taken.append((index, element.values if isinstance(element, Batch) else element))
        return taken


def test_small_batches_of_one_input_are_joined_and_each_message_returns_its_credit() -> None:
    gate = Inputs(3)
    for channel in range(3):
        for number in range(2):
            gate.accept(message(channel, number, f"{channel}{number}a", f"{channel}{number}b"))
    ((index, records),) = gate.joined(100)
    assert index == 0
    assert sorted(records) == sorted(f"{c}{n}{part}" for c in range(3) for n in range(2) for part in "ab")
    for channel in range(3):
        mine = [record for record in records if record[0] == str(channel)]
        assert mine == sorted(mine)
    assert sorted(gate.ports.credits) == [(CHANNELS[c].channel, n, 20) for c in range(3) for n in range(2)]
    assert gate.consumed_bytes == gate.arrived_bytes == 120


def test_joining_ends_with_enough_records_and_takes_nothing_of_what_is_left() -> None:
    gate = Inputs(2)
    for number in range(4):
        gate.accept(message(0, number, number))
        gate.accept(message(1, number, number + 10))
    entry = gate.poll(3)
    assert entry is not None
    assert len(entry[1].values) == 3  # type: ignore[union-attr]
    assert len(gate.ports.credits) == 3


def test_nothing_is_joined_across_a_control_element_of_its_channel() -> None:
    gate = Inputs(2)
    elements: list[StreamElement] = [Batch(["a"]), Watermark(7), Batch(["b"])]
    gate.accept(Message(ATTEMPT, CHANNELS[0].channel, 0, elements, 11))
    gate.accept(message(1, 0, "c"))
    assert gate.joined(100) == [(0, ["a", "c"]), (0, Watermark(7)), (0, ["b"])]


def test_nothing_is_joined_from_a_blocked_channel_or_another_input() -> None:
    gate = Inputs(3)
    gate.block(1)
    for channel in range(3):
        gate.accept(message(channel, 0, channel))
    assert gate.joined(100) == [(0, [0, 2])]
    two_inputs = Inputs(2, inputs=2)
    for channel in range(2):
        two_inputs.accept(message(channel, 0, channel))
    assert two_inputs.joined(100) == [(0, [0]), (1, [1])]


def test_large_messages_are_not_joined() -> None:
    gate = Inputs(2)
    for channel in range(2):
        batch: list[StreamElement] = [Batch([channel])]
        gate.accept(Message(ATTEMPT, CHANNELS[channel].channel, 0, batch, MAX_JOINED_BYTES + 1))
    assert gate.joined(100) == [(0, [0]), (1, [1])]


def test_records_that_wait_behind_what_was_joined_are_recorded_when_a_barrier_overtakes_them() -> None:
    gate = Inputs(2)
    gate.accept(message(0, 0, "a"))
    gate.accept(message(1, 0, "b", "c"))
    entry = gate.poll(2)
    assert entry is not None
    assert entry[1] == Batch(["a", "b"])
    gate.start_recording(CheckpointId(1), [0, 1])
    recorded = gate.stop_recording()
    assert recorded[0] == []
    assert [decode_elements(each.payload)[each.taken :] for each in recorded[1]] == [[Batch(["c"])]]  # type: ignore[arg-type]


_ELEMENT = st.one_of(
    st.lists(st.integers(0, 9), min_size=1, max_size=4).map(Batch),
    st.lists(st.integers(0, 9), min_size=1, max_size=3).map(lambda rows: Batch(rows, list(rows))),
    st.integers(0, 9).map(Watermark),
)


@given(
    st.lists(st.lists(st.lists(_ELEMENT, min_size=1, max_size=4), max_size=4), min_size=3, max_size=3),
    st.integers(1, 12),
    st.integers(1, 2),
    st.randoms(use_true_random=False),
)
def test_joined_input_is_that_of_single_elements(
    sent: list[list[list[StreamElement]]], enough_records: int, inputs: int, random: Random
) -> None:
    single, joined = Inputs(3, inputs), Inputs(3, inputs)
    for channel, messages in enumerate(sent):
        for number, elements in enumerate(messages):
            labelled = [_labelled(channel, element) for element in elements]
            for gate in (single, joined):
                gate.accept(Message(ATTEMPT, CHANNELS[channel].channel, number, list(labelled), 10))
    blocked = random.randrange(4)
    if blocked < 3:
        single.block(blocked)
        joined.block(blocked)
    assert _by_channel(joined, enough_records) == _by_channel(single, 0)
    assert sorted(joined.ports.credits) == sorted(single.ports.credits)
    assert joined.consumed_bytes == single.consumed_bytes


def _labelled(channel: int, element: StreamElement) -> StreamElement:
    if isinstance(element, Batch):
        return Batch([(channel, value) for value in element.values], element.timestamps)
    return element


def _by_channel(gate: Inputs, enough_records: int) -> list[list[Any]]:
    """What every channel gave, record by record, each with the operator input that it came to."""
    found: list[list[Any]] = [[], [], []]
    while (entry := gate.poll(enough_records)) is not None:
        index, element = entry
        if not isinstance(element, Batch):
            found[index].append(element)
            continue
        times = element.timestamps or [None] * len(element)
        for record, time in zip(element.values, times, strict=True):
            found[record[0]].append((record, time, gate.input_index(index)))
    return found


def test_nothing_after_a_barrier_is_joined_with_records_before_it() -> None:
    gate = Inputs(2)
    barrier = CheckpointBarrier(CheckpointId(1), 0)
    gate.accept(message(0, 0, "a"))
    gate.accept(Message(ATTEMPT, CHANNELS[0].channel, 1, [barrier], 0, barrier))
    gate.accept(message(0, 2, "after"))
    gate.accept(message(1, 0, "b"))
    assert gate.joined(100) == [(0, ["a", "b"]), (0, barrier), (0, ["after"])]
