"""The input gate: reorders, drops what is stale or doubled, and yields elements channel by channel."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..protocol.elements import Message, StreamElement
from ..protocol.ids import Attempt, ChannelId
from ..protocol.plan import InputChannel


@dataclass(slots=True)
class _Channel:
    channel_id: ChannelId
    input_index: int
    next_sequence: int = 0
    early: dict[int, Message] = field(default_factory=dict)
    ready: deque[Message] = field(default_factory=deque)
    current: deque[StreamElement] = field(default_factory=deque)
    is_blocked: bool = False

    @property
    def has_elements(self) -> bool:
        return bool(self.current or self.ready)


class InputGate:
    """All input channels of a subtask.

    Messages arrive in any order and perhaps twice; elements leave in order and once per channel, fair
    between channels. A blocked channel keeps its messages, so their credit stays out and the sender
    waits: memory is bounded during alignment too.

    Args:
        attempt: Messages of any other attempt are dropped.
        channels: The input channels; their positions here are the channel indexes.
        decode: Turns a message's payload into its elements when its turn comes.
        return_credit: Called when the last element of a message has been taken.
    """

    def __init__(
        self,
        attempt: Attempt,
        channels: Sequence[InputChannel],
        decode: Callable[[Any], list[StreamElement]],
        return_credit: Callable[[ChannelId, int, int], None],
    ) -> None:
        self._attempt = attempt
        self._channels = [_Channel(entry.channel, entry.input_index) for entry in channels]
        self._index = {entry.channel: index for index, entry in enumerate(channels)}
        self._decode = decode
        self._return_credit = return_credit
        self._turn = 0

    def __len__(self) -> int:
        return len(self._channels)

    def accept(self, message: Message) -> bool:
        """Take an arrived message; false if it is of another attempt, unknown or a duplicate."""
        index = self._index.get(message.channel)
        if index is None or message.attempt != self._attempt:
            return False
        channel = self._channels[index]
        number = message.sequence_number
        if number < channel.next_sequence or number in channel.early:
            return False
        channel.early[number] = message
        while channel.next_sequence in channel.early:
            channel.ready.append(channel.early.pop(channel.next_sequence))
            channel.next_sequence += 1
        return True

    def poll(self) -> tuple[int, StreamElement] | None:
        """The next element and the index of its channel, or `None` if nothing can be taken."""
        count = len(self._channels)
        for step in range(count):
            index = (self._turn + step) % count
            channel = self._channels[index]
            if channel.is_blocked or not channel.has_elements:
                continue
            element = self._take(channel)
            # Stay on a channel until its message is used up, then let the next one have its turn.
            self._turn = index if channel.current else (index + 1) % count
            return index, element
        return None

    def _take(self, channel: _Channel) -> StreamElement:
        if not channel.current:
            channel.current.extend(self._decode(channel.ready[0].elements))
        element = channel.current.popleft()
        if not channel.current:
            done = channel.ready.popleft()
            self._return_credit(channel.channel_id, done.sequence_number, done.size_bytes)
        return element

    def input_index(self, channel: int) -> int:
        """The operator input that a channel feeds."""
        return self._channels[channel].input_index

    def channel_id(self, channel: int) -> ChannelId:
        """The id of the channel with this index."""
        return self._channels[channel].channel_id

    def block(self, channel: int) -> None:
        """Take nothing more from a channel until it is resumed."""
        self._channels[channel].is_blocked = True

    def resume(self, channels: Sequence[int]) -> None:
        """Take from these channels again."""
        for channel in channels:
            self._channels[channel].is_blocked = False
