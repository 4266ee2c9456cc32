"""What a process keeps for each of hundreds of channels and links."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

from tidegate.protocol.channels.link import LinkId
from tidegate.protocol.channels.link_watch import LinkWatch
from tidegate.protocol.ids import Attempt, ChannelId
from tidegate.protocol.scheduling.execution_graph import InputChannel
from tidegate.runtime.gate import InputGate
from tidegate.runtime.network.peer import Peer

WIDTH = 200


def ignore(*_: Any) -> None:
    """Takes anything."""


def size_of_each(make: Callable[[], Any]) -> float:
    """Bytes of each of the `WIDTH` parts of what is made."""
    make()
    tracemalloc.start()
    try:
        made, size = make(), tracemalloc.get_traced_memory()[0]
        del made
    finally:
        tracemalloc.stop()
    return size / WIDTH


def peer(number: int) -> Peer:
    link = LinkId(Attempt(1), 0, number)
    return Peer(link, LinkWatch(20_000, True, 0), ignore, ignore, ignore, ignore)


def test_a_quiet_link_keeps_no_memory_for_what_it_might_read() -> None:
    assert size_of_each(lambda: [peer(number) for number in range(WIDTH)]) < 4_000


def test_an_input_channel_without_messages_takes_two_kilobytes() -> None:
    channels = [InputChannel(ChannelId(1, number, 0), 0) for number in range(WIDTH)]
    assert size_of_each(lambda: InputGate(Attempt(1), channels, ignore, ignore)) < 2_500
