"""How messages of one process find their receivers: in the same process, or in others."""

from __future__ import annotations

from typing import Any

import pytest
from tidegate.protocol.elements import Message
from tidegate.protocol.ids import Attempt, ChannelId, SubtaskId
from tidegate.protocol.task_events import CreditReturned
from tidegate.runtime.network.records_network import AttemptNetwork, AttemptRoutes, Receiver, RecordsNetwork

HERE, THERE, ALSO_THERE = (ChannelId(1, 0, index) for index in range(3))
ATTEMPT = Attempt(1)


@pytest.fixture
def network() -> AttemptNetwork:
    """That of process 0; subtask 0 of the receiving task is in it, the two others share process 1."""
    receivers = {
        channel: Receiver(min(1, channel.downstream_index), SubtaskId("task-2", channel.downstream_index))
        for channel in (HERE, THERE, ALSO_THERE)
    }
    routes = AttemptRoutes(ATTEMPT, 0, b"secret", receivers, {1: "actor 1"}, frozenset({0}), 20_000)
    return RecordsNetwork().begin(routes)


def message(channel: ChannelId) -> Message:
    return Message(ATTEMPT, channel, 0, b"payload", 7)  # type: ignore[arg-type]


def test_a_message_within_a_process_goes_to_the_mailbox_and_its_credit_comes_back_the_same_way(
    network: AttemptNetwork,
) -> None:
    sender: list[Any] = []
    receiver: list[Any] = []
    network.add_task([], [HERE], sender.append)
    network.add_task([HERE], [], receiver.append)
    sent = message(HERE)
    network.send(sent)
    assert receiver == [sent]
    network.give_credit({HERE: 7})
    assert sender == [CreditReturned(HERE, 7)]


def test_a_marker_is_one_actor_message_for_each_other_process(network: AttemptNetwork) -> None:
    receiver: list[Any] = []
    network.add_task([HERE], [], receiver.append)
    markers = [message(channel) for channel in (HERE, THERE, ALSO_THERE)]
    (only,) = network.by_process(markers)
    assert only == ("actor 1", [(SubtaskId("task-2", 1), markers[1]), (SubtaskId("task-2", 2), markers[2])])
    assert receiver == [markers[0]]
