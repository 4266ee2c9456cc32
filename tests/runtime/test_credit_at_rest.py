"""A task that comes to rest after each small message does not return credit for each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidegate.actors.transport import RayTaskPorts
from tidegate.protocol.channels.credit_returns import HELD_NS
from tidegate.protocol.ids import Attempt, ChannelId, SubtaskId

CHANNEL = ChannelId(0, 0, 0)
SECOND_NS = 1_000_000_000


class Network:
    """Takes the credit that a task gives back."""

    def __init__(self) -> None:
        self.given: list[Mapping[ChannelId, int]] = []

    def give_credit(self, credits: Mapping[ChannelId, int]) -> None:
        self.given.append(credits)


def ports_at(network: Any, clock: list[int]) -> RayTaskPorts:
    ports = RayTaskPorts(SubtaskId("task-1", 0), Attempt(0), network, None, 1_000, lambda mail: None)
    ports.now_ns = lambda: clock[0]
    return ports


def test_credit_for_small_messages_is_given_back_together_when_it_is_due() -> None:
    network, clock = Network(), [0]
    ports = ports_at(network, clock)
    for number in range(3):
        ports.return_credit(CHANNEL, number, 10)
        assert ports.rest_ns(SECOND_NS) == HELD_NS - clock[0]
        assert ports.rest_ns(5) == 5
        clock[0] += 1_000_000
    assert not network.given
    clock[0] = HELD_NS
    assert ports.rest_ns(SECOND_NS) == SECOND_NS
    assert network.given == [{CHANNEL: 30}]


def test_a_quarter_of_the_credit_is_given_back_while_the_task_is_busy() -> None:
    network = Network()
    ports = ports_at(network, [0])
    ports.return_credit(CHANNEL, 0, 240)
    ports.return_credit(CHANNEL, 1, 20)
    assert network.given == [{CHANNEL: 260}]


def test_a_task_that_ends_gives_all_credit_back() -> None:
    network = Network()
    ports = ports_at(network, [0])
    ports.return_credit(CHANNEL, 0, 10)
    ports.close()
    assert network.given == [{CHANNEL: 10}]
