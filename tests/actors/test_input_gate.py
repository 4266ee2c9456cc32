"""The input gate puts messages in order, drops what is not for it, and holds back credit and channels."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tidegate.actors.gate import InputGate
from tidegate.protocol.elements import Batch, EndOfInput, Message, StreamElement
from tidegate.protocol.execution_graph import InputChannel
from tidegate.protocol.ids import Attempt, ChannelId

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
