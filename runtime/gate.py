"""The input gate: reorders, drops what is stale or doubled, and yields elements channel by channel."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..protocol.channels.frames import LargePayload, Payload
from ..protocol.channels.mail_order import MailOrder
from ..protocol.checkpoints.barrier_handler import NO_CHECKPOINT
from ..protocol.elements import (
    Announced,
    Batch,
    CheckpointBarrier,
    EndOfInput,
    Marker,
    Message,
    Probe,
    StreamElement,
)
from ..protocol.ids import Attempt, ChannelId, CheckpointId
from ..protocol.scheduling.execution_graph import InputChannel
from .batch_joining import MAX_JOINED_BYTES, Joining
from .network.wire import Decode, all_parts, encode_message

_END = -1
"""The position behind the last element of a message."""


@dataclass(frozen=True, slots=True)
class RecordedMessage:
    """The payload of a message, of which the first `taken` elements do not count."""

    payload: Payload
    taken: int


@dataclass(slots=True)
class _Channel:
    channel_id: ChannelId
    input_index: int
    order: MailOrder[Message] = field(default_factory=MailOrder)
    ready: deque[Message] = field(default_factory=deque)
    current: deque[StreamElement] = field(default_factory=deque)
    position: int = 0
    """Where in the message that is being taken the elements after `current` begin."""
    decoded: int = 0
    """How many elements of that message were decoded; 0 if none is being taken."""
    is_blocked: bool = False
    is_recording: bool = False

    @property
    def has_elements(self) -> bool:
        return bool(self.current or self.ready)

    @property
    def has_records(self) -> bool:
        """Whether the next message may be taken and was not sent for a marker or the end of input."""
        return bool(self.ready) and not self.is_blocked and self.ready[0].announces is None

    @property
    def has_barrier(self) -> bool:
        """Whether the next element may be taken and is a barrier which tries to overtake."""
        if self.current or not self.ready or self.is_blocked:
            return False
        announced = self.ready[0].announces
        return isinstance(announced, CheckpointBarrier) and announced.aligned_timeout_ms is not None

    @property
    def lacks_marker(self) -> bool:
        """Whether the message that is awaited is a marker, which others have overtaken.

        Only markers can be late while something later is here that is no marker. Before a marker, what is
        awaited may be a record that its connection will still bring.
        """
        return any(
            not isinstance(message.announces, Marker) or message.follows == self.order.next_number
            for message in self.order.early.values()
        )

    @property
    def ready_bytes(self) -> int:
        return sum(message.size_bytes for message in self.ready)


class InputGate:
    """All input channels of a subtask.

    Messages arrive in any order and perhaps twice; elements leave in order and once per channel, fair
    between channels. A blocked channel keeps its messages, so their credit stays out and the sender
    waits: memory is bounded during alignment too.

    What a channel *announces* is known as soon as its message and all before it have arrived. That is how a
    barrier overtakes: the records before it are then all here, and can be recorded where they wait.
    A barrier or a cancel marker of a checkpoint that the task has *decided* means nothing when its turn
    comes, so it is not kept for that: checkpoints go on while records wait, and what they leave would pile
    up.

    Args:
        attempt: Messages of any other attempt are dropped.
        channels: The input channels; their positions here are the channel indexes.
        decode: Turns a message's payload into elements when their turn comes.
        return_credit: Called when the last element of a message has been taken.
    """

    def __init__(
        self,
        attempt: Attempt,
        channels: Sequence[InputChannel],
        decode: Decode,
        return_credit: Callable[[ChannelId, int, int], None],
    ) -> None:
        self._attempt = attempt
        self._channels = [_Channel(entry.channel, entry.input_index) for entry in channels]
        self._index = {entry.channel: index for index, entry in enumerate(channels)}
        self._decode = decode
        self._return_credit = return_credit
        self._turn = 0
        self._recovered: deque[tuple[int, StreamElement]] = deque()
        self._recording_id: CheckpointId | None = None
        self._recorded: dict[int, list[RecordedMessage]] = {}
        self._recorded_bytes = 0
        self._decided = NO_CHECKPOINT
        self.gaps: set[int] = set()
        """Indexes of the channels in which later messages wait for a marker that has not arrived."""
        self.known: deque[tuple[int, CheckpointBarrier]] = deque()
        """Barriers that came ahead of what was sent before them, until the task has taken them."""
        self.announced: deque[tuple[int, Announced]] = deque()
        """Announcements with the index of their channel, until the task has taken them."""
        self.arrived_bytes = 0
        """Size of all messages that came and were not dropped."""
        self.consumed_bytes = 0
        """Size of all messages that were used up."""

    def __len__(self) -> int:
        return len(self._channels)

    def accept(self, message: Message) -> bool:
        """Take an arrived message; false if it is of another attempt, unknown or a duplicate."""
        index = self._index.get(message.channel)
        if index is None or message.attempt != self._attempt:
            return False
        channel = self._channels[index]
        order, number = channel.order, message.sequence_number
        if order.passes(number):
            self._take_in(index, channel, message)
            return True
        if order.has(number):
            return False
        for arrived in order.accept(number, message):
            self._take_in(index, channel, arrived)
        if number >= order.next_number and isinstance(message.announces, CheckpointBarrier):
            self.known.append((index, message.announces))
        if channel.lacks_marker:
            self.gaps.add(index)
        else:
            self.gaps.discard(index)
        return True

    def _take_in(self, index: int, channel: _Channel, arrived: Message) -> None:
        """A message arrived, and all before it."""
        self.arrived_bytes += arrived.size_bytes
        if isinstance(arrived.announces, Probe):
            self._use_up(channel, arrived)
            return
        if arrived.announces is not None:
            self.announced.append((index, arrived.announces))
        if channel.is_recording:
            self._record(index, arrived)
        if self._is_over(arrived):
            self._use_up(channel, arrived)
        else:
            channel.ready.append(arrived)

    def next_sequence(self, channel: int) -> int:
        """The number of the message that a channel waits for."""
        return self._channels[channel].order.next_number

    def checkpoint_decided(self, checkpoint_id: CheckpointId) -> None:
        """The task took its snapshot of this checkpoint, or refused it: its markers, and older ones, go."""
        self._decided = checkpoint_id
        for channel in self._channels:
            over = [message for message in channel.ready if self._is_over(message)]
            if over:
                channel.ready = deque(message for message in channel.ready if not self._is_over(message))
            for message in over:
                self._use_up(channel, message)

    def _is_over(self, message: Message) -> bool:
        """Whether it only announced something that is decided by now."""
        marker = message.announces
        return isinstance(marker, Marker) and marker.checkpoint_id <= self._decided

    def poll(self, enough_records: int = 0) -> tuple[int, StreamElement] | None:
        """The next element and the index of its channel, or `None` if nothing can be taken.

        Args:
            enough_records: A smaller batch is joined with others of the same operator input that are here,
                until it has this number of records. They may come from all channels that are not blocked.
        """
        if self._recovered:
            return self._recovered.popleft()
        count = len(self._channels)
        for step in range(count):
            index = (self._turn + step) % count
            channel = self._channels[index]
            if channel.is_blocked or not channel.has_elements:
                continue
            element = self._take_turn(index)
            if isinstance(element, Batch) and len(element) < enough_records:
                element = self._join(index, element, enough_records)
            return index, element
        return None

    def poll_barrier(self) -> tuple[int, StreamElement] | None:
        """The next element of a channel if that is a barrier which tries to overtake, as `poll` gives it."""
        for index, channel in enumerate(self._channels):
            if channel.has_barrier and not any(waiting == index for waiting, _ in self._recovered):
                return index, self._take_turn(index)
        return None

    def _take_turn(self, index: int) -> StreamElement:
        channel = self._channels[index]
        element = self._take(channel)
        # Stay on a channel until its message is used up, then let the next one have its turn.
        self._turn = index if channel.decoded else (index + 1) % len(self._channels)
        return element

    def _join(self, index: int, first: Batch, enough_records: int) -> Batch:
        """A batch with what can be joined to it: each channel is read in order, up to a control element."""
        input_index, start, count = self._channels[index].input_index, self._turn, len(self._channels)
        joining, size_bytes = Joining(first, enough_records), 0
        for step in range(count):
            turn = (start + step) % count
            channel = self._channels[turn]
            while channel.input_index == input_index and channel.has_records:
                size_bytes += channel.ready[0].size_bytes
                if joining.is_full or size_bytes > MAX_JOINED_BYTES:
                    return joining.joined()
                following = self._next(channel)
                if not isinstance(following, Batch):
                    break
                if not joining.add(following):
                    return joining.joined()
                self._take_turn(turn)
        return joining.joined()

    def _next(self, channel: _Channel) -> StreamElement:
        """The next element, which is not taken."""
        if not channel.current:
            part, position = self._decode(channel.ready[0].elements, channel.position)
            channel.current.extend(part)
            channel.decoded += len(part)
            channel.position = _END if position is None else position
        return channel.current[0]

    def _take(self, channel: _Channel) -> StreamElement:
        element = self._next(channel)
        channel.current.popleft()
        if not channel.current and channel.position == _END:
            channel.position = channel.decoded = 0
            self._use_up(channel, channel.ready.popleft())
        return element

    def _use_up(self, channel: _Channel, message: Message) -> None:
        self.consumed_bytes += message.size_bytes
        self._return_credit(channel.channel_id, message.sequence_number, message.size_bytes)

    @property
    def has_input(self) -> bool:
        """Whether `poll` would give something."""
        return bool(self._recovered) or any(
            channel.has_elements and not channel.is_blocked for channel in self._channels
        )

    def input_index(self, channel: int) -> int:
        """The operator input that a channel feeds."""
        return self._channels[channel].input_index

    def channel_id(self, channel: int) -> ChannelId:
        """The id of the channel with this index."""
        return self._channels[channel].channel_id

    def index_of(self, channel: ChannelId) -> int:
        """The index of the channel with this id."""
        return self._index[channel]

    @property
    def has_announcements(self) -> bool:
        """Whether there is something in `known` or `announced`."""
        return bool(self.known or self.announced)

    def block(self, channel: int) -> None:
        """Take nothing more from a channel until it is resumed."""
        self._channels[channel].is_blocked = True

    def resume(self, channels: Sequence[int]) -> None:
        """Take from these channels again."""
        for channel in channels:
            self._channels[channel].is_blocked = False

    # ------------------------------------------------------------ records that a barrier overtakes

    def recover(self, elements: Iterable[tuple[int, StreamElement]]) -> None:
        """Yield these elements, each with the index of its channel, before anything that arrives."""
        self._recovered.extend(elements)

    @property
    def buffered_bytes(self) -> int:
        """What waits in blocked channels, and what is recorded."""
        blocked = (channel.ready_bytes for channel in self._channels if channel.is_blocked)
        return self._recorded_bytes + sum(blocked)

    def start_recording(self, checkpoint_id: CheckpointId, channels: Sequence[int]) -> None:
        """Record what waits in these channels before the checkpoint's barrier, and what arrives before it."""
        self.stop_recording()
        self._recording_id = checkpoint_id
        for index in channels:
            channel = self._channels[index]
            channel.is_recording = True
            self._recorded[index] = []
            self._record_recovered(index)
            for position, message in enumerate(channel.ready):
                if not channel.is_recording:
                    break
                taken = channel.decoded - len(channel.current) if position == 0 else 0
                self._record(index, message, taken)

    def _record_recovered(self, index: int) -> None:
        elements = [element for channel, element in self._recovered if channel == index]
        if elements:
            self._recorded[index].append(RecordedMessage(encode_message(elements), 0))

    def _record(self, index: int, message: Message, taken: int = 0) -> None:
        if message.announces is None:
            self._recorded[index].append(self._kept(message.elements, taken))
            self._recorded_bytes += message.size_bytes
        elif isinstance(message.announces, EndOfInput) or (
            isinstance(message.announces, CheckpointBarrier)
            and message.announces.checkpoint_id == self._recording_id
        ):
            self._channels[index].is_recording = False

    def _kept(self, payload: Any, taken: int) -> RecordedMessage:
        """A payload as bytes that stay as they are."""
        if isinstance(payload, (bytes, LargePayload)):
            return RecordedMessage(payload, taken)
        # Objects travel in a shell of one process, and user code may change what it is given.
        return RecordedMessage(encode_message(all_parts(self._decode, payload)[taken:]), 0)

    def stop_recording(self) -> dict[int, list[RecordedMessage]]:
        """End it; what was recorded, by channel index."""
        for channel in self._channels:
            channel.is_recording = False
        recorded, self._recorded = self._recorded, {}
        self._recording_id, self._recorded_bytes = None, 0
        return recorded
