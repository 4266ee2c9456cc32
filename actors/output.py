"""The output of a task: partitions batches over channels, fills messages and keeps to its credit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ..common import failpoints
from ..protocol.elements import (
    Announced,
    Batch,
    ControlElement,
    Message,
    StreamElement,
    Watermark,
    WatermarkStatus,
)
from ..protocol.ids import Attempt, ChannelId
from .ports import TaskPorts, TaskSettings

MAX_UNDER_WAY = 2
"""Part-filled messages that a receiver may have before it: one to work at, and one on its way meanwhile."""

ENOUGH_UNDER_WAY = 4
"""With so many messages before it, and half the credit of its channel, a receiver misses nothing soon."""

BATCHES_IN_MESSAGE = 4
"""Full batches in a message to a receiver that has enough before it: they share the cost of the message."""


class OutputChannel:
    """One outgoing channel: what waits to be sent, and what is out on credit.

    A message is sent when a full batch has gathered, when a control element ends it, when nothing else
    is under way on the channel (Nagle's rule: an idle receiver should not wait), or when it has
    waited for `buffer_timeout_ms`; with a timeout of -1 only the first two count. Behind
    `ENOUGH_UNDER_WAY` messages `BATCHES_IN_MESSAGE` full batches gather before they are sent.

    The timeout counts only while less than `MAX_UNDER_WAY` messages are under way. A receiver that has more
    before it would come no sooner to the next, and its queue would be made of ever more small messages, each
    with the cost of a message. So what gathers behind them grows until the receiver keeps up.
    """

    def __init__(
        self, attempt: Attempt, channel_id: ChannelId, settings: TaskSettings, ports: TaskPorts
    ) -> None:
        self._attempt = attempt
        self.channel_id = channel_id
        self._batch_size = settings.batch_size
        self._timeout_ns = settings.buffer_timeout_ms * 1_000_000
        self._credit_bytes = settings.channel_credit_bytes
        self._ports = ports
        self._sequence_number = 0
        self._outstanding_bytes = 0
        self._outstanding_messages = 0
        self.sent_bytes = 0
        """Size of all messages sent."""
        self._pending: list[StreamElement] = []
        self._pending_records = 0
        self._pending_since_ns = 0

    @property
    def outstanding_bytes(self) -> int:
        """Bytes sent and not yet consumed."""
        return self._outstanding_bytes

    def has_credit(self) -> bool:
        """Whether more may be produced for this channel."""
        return self._outstanding_bytes < self._credit_bytes

    def add_batch(self, batch: Batch) -> None:
        """Queue records; sends when a full batch has gathered."""
        if not self._pending:
            self._pending_since_ns = self._ports.now_ns()
        self._pending.append(batch)
        self._pending_records += len(batch)
        if self._pending_records >= self._batch_size * self._batches_wanted:
            self.flush()

    def add_control(self, element: ControlElement) -> None:
        """Send a control element behind the records; in a message of its own if it is to be announced."""
        if isinstance(element, Watermark | WatermarkStatus):
            self._pending.append(element)
            self.flush()
        else:
            self.flush()
            self._send([element], element)

    def credit_returned(self, size_bytes: int) -> None:
        """The receiver consumed a message."""
        self._outstanding_bytes -= size_bytes
        self._outstanding_messages -= 1

    def due_in_ms(self, now_ns: int) -> int | None:
        """Milliseconds until what waits must be sent, `None` if nothing waits."""
        if not self._pending:
            return None
        if self._pending_records >= self._batch_size:
            return 0 if self._batches_wanted == 1 else None
        if self._timeout_ns < 0:
            return None
        if self._outstanding_messages == 0:
            return 0
        if self._outstanding_messages >= MAX_UNDER_WAY:
            return None
        return max(0, self._timeout_ns - (now_ns - self._pending_since_ns)) // 1_000_000

    @property
    def _batches_wanted(self) -> int:
        # By bytes too: barriers are messages, but no work.
        is_busy = self._outstanding_messages >= ENOUGH_UNDER_WAY
        return BATCHES_IN_MESSAGE if is_busy and 2 * self._outstanding_bytes >= self._credit_bytes else 1

    def flush(self) -> None:
        """Send what waits."""
        if not self._pending:
            return
        elements = _coalesced(self._pending, self._batch_size)
        self._pending, self._pending_records = [], 0
        self._send(elements)

    def _send(self, elements: list[StreamElement], announces: Announced | None = None) -> None:
        payload, size_bytes = self._ports.encode(elements)
        message = Message(
            self._attempt, self.channel_id, self._sequence_number, payload, size_bytes, announces
        )
        self._sequence_number += 1
        self._outstanding_bytes += size_bytes
        self._outstanding_messages += 1
        self.sent_bytes += size_bytes
        failpoints.reach("send")
        self._ports.send(message)


def _coalesced(elements: list[StreamElement], batch_size: int) -> list[StreamElement]:
    """Neighbouring list batches that are not full joined: less to encode, and longer loops downstream."""
    joined: list[StreamElement] = []
    for element in elements:
        last = joined[-1] if joined else None
        if isinstance(element, Batch) and isinstance(last, Batch) and _can_join(last, element, batch_size):
            joined[-1] = _join(last, element)
        else:
            joined.append(element)
    return joined


def _can_join(left: Batch, right: Batch, batch_size: int) -> bool:
    return (
        len(left) < batch_size
        and isinstance(left.values, list)
        and isinstance(right.values, list)
        and (left.timestamps is None) == (right.timestamps is None)
        and type(left.keys) is type(right.keys)
    )


def _join(left: Batch, right: Batch) -> Batch:
    timestamps = keys = None
    if left.timestamps is not None and right.timestamps is not None:
        timestamps = [*left.timestamps, *right.timestamps]
    if isinstance(left.keys, list):
        keys = left.keys + right.keys
    elif left.keys is not None:
        keys = np.concatenate([left.keys, right.keys])
    return Batch(left.values + right.values, timestamps, keys)


class Exchange:
    """One edge that leaves the task, as the operator before it sees it: it sends, and counts what it sends.

    Args:
        emit: Spreads records over the channels.
        channels: Those of the edge.
    """

    def __init__(self, emit: Callable[[Batch], None], channels: Sequence[OutputChannel]) -> None:
        self._emit = emit
        self._channels = channels
        self.records = 0
        """Records sent; one that goes to every channel is one."""

    def emit(self, batch: Batch) -> None:
        """Send records."""
        self.records += len(batch)
        self._emit(batch)

    def emit_watermark(self, timestamp_ms: int) -> None:
        """Send a watermark to every channel."""
        for channel in self._channels:
            channel.add_control(Watermark(timestamp_ms))

    def emit_status(self, is_idle: bool) -> None:
        """Tell every channel that nothing is to be awaited, or something is again."""
        for channel in self._channels:
            channel.add_control(WatermarkStatus(is_idle))


class TaskOutput:
    """All channels of a subtask.

    Args:
        channels: All of them.
        exchanges: The edges that they belong to.
    """

    def __init__(self, channels: Sequence[OutputChannel], exchanges: Sequence[Exchange] = ()) -> None:
        self._channels = list(channels)
        self._exchanges = list(exchanges)
        self._by_id: Mapping[ChannelId, OutputChannel] = {c.channel_id: c for c in channels}

    def has_credit(self) -> bool:
        """Whether every channel may be produced for."""
        return all(channel.has_credit() for channel in self._channels)

    def broadcast(self, element: ControlElement) -> None:
        """Send a control element down every channel, behind the records before it."""
        for channel in self._channels:
            channel.add_control(element)

    def credit_returned(self, channel_id: ChannelId, size_bytes: int) -> None:
        """A receiver consumed a message."""
        self._by_id[channel_id].credit_returned(size_bytes)

    def flush_due(self, now_ns: int) -> int | None:
        """Send what is due; milliseconds until the next is, `None` if nothing waits."""
        soonest: int | None = None
        for channel in self._channels:
            due_ms = channel.due_in_ms(now_ns)
            if due_ms == 0:
                channel.flush()
            elif due_ms is not None:
                soonest = due_ms if soonest is None else min(soonest, due_ms)
        return soonest

    @property
    def records_sent(self) -> int:
        """Records sent, over all edges."""
        return sum(exchange.records for exchange in self._exchanges)

    @property
    def sent_bytes(self) -> int:
        """Size of all messages sent."""
        return sum(channel.sent_bytes for channel in self._channels)

    @property
    def outstanding_bytes(self) -> int:
        """Bytes on credit over all channels."""
        return sum(channel.outstanding_bytes for channel in self._channels)
