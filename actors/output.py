"""The output of a task: partitions batches over channels, fills messages and keeps to its credit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..common import failpoints
from ..protocol.elements import (
    Announced,
    Batch,
    ControlElement,
    Message,
    Probe,
    StreamElement,
    Watermark,
    WatermarkStatus,
)
from ..protocol.ids import Attempt, ChannelId
from .ports import TaskPorts, TaskSettings

MAX_UNDER_WAY = 2
"""What a receiver needs before it: a message or full batch to work at, and one on its way meanwhile."""

MAX_BUSY_WAIT_MS = 1_000
"""The most that a buffer timeout is stretched to in a task that has no moment to spare."""

BATCHES_IN_MESSAGE = 4
"""Full batches in a message to a receiver that has enough before it: they share the cost of the message."""


class OutputChannel:
    """One outgoing channel: what waits to be sent, and what is out on credit.

    A message is sent when a full batch has gathered, when a control element ends it, when it has waited for
    `buffer_timeout_ms`, or when nothing is under way on the channel (Nagle's rule: an idle receiver should
    not wait); with a timeout of -1 only the first two count.

    The timeout counts only while less than `MAX_UNDER_WAY` messages are under way. A receiver that has more
    before it would come no sooner to the next, and its queue would be made of ever more small messages, each
    with the cost of a message. So what gathers behind them grows until the receiver keeps up: behind full
    messages to `BATCHES_IN_MESSAGE` full batches, or a quarter of the credit.

    A task of several channels that is never idle lets idle receivers wait, too, and its timeout is as many
    times as long as it has channels, up to `MAX_BUSY_WAIT_MS`: else it would spend its time on messages of a
    few records.
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
        self._record_bytes = 0.0
        self._probes = 0
        self._last_probe = self._confirmed = self._quiet_since = -1

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
        if self._pending_records >= self._batch_size * self._batches_wanted():
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
        """The receiver consumed a message, or received a probe, which is the only one without a size."""
        if not size_bytes:
            self._probes -= 1
            self._confirmed = self._last_probe if not self._probes else self._confirmed
            return
        self._outstanding_bytes -= size_bytes
        self._outstanding_messages -= 1

    def due_in_ms(self, now_ns: int, busy_channels: int) -> int | None:
        """Milliseconds until what waits must be sent, `None` if nothing waits.

        Args:
            now_ns: The time.
            busy_channels: How many channels share the time of the task, 0 if it has enough.
        """
        if not self._pending:
            return None
        if self._pending_records >= self._batch_size:
            return 0 if self._batches_wanted() == 1 else None
        if self._timeout_ns < 0:
            return None
        if not busy_channels and self._outstanding_messages == 0:
            return 0
        if self._outstanding_messages >= MAX_UNDER_WAY:
            return None
        patience_ns = min(busy_channels * self._timeout_ns, MAX_BUSY_WAIT_MS * 1_000_000)
        timeout_ns = max(self._timeout_ns, patience_ns)
        return max(0, timeout_ns - (now_ns - self._pending_since_ns)) // 1_000_000

    def _batches_wanted(self) -> int:
        # By bytes: barriers are messages, but no work.
        batch_bytes = self._batch_size * self._record_bytes
        if not batch_bytes or self._outstanding_bytes < MAX_UNDER_WAY * batch_bytes:
            return 1
        # A quarter of the credit, so that several messages may be under way.
        return min(max(1, int(self._credit_bytes / 4 / batch_bytes)), BATCHES_IN_MESSAGE)

    def flush(self) -> None:
        """Send what waits."""
        if not self._pending:
            return
        elements = _coalesced(self._pending, self._batch_size)
        records, self._pending, self._pending_records = self._pending_records, [], 0
        size_bytes = self._send(elements)
        if records:
            self._record_bytes = size_bytes / records

    def _send(self, elements: list[StreamElement], announces: Announced | None = None) -> int:
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
        return size_bytes

    def probe(self) -> None:
        """Send a probe if messages are out, none was sent since the last call, and no probe confirmed them.

        The receiver answers a probe as soon as everything before it has arrived.
        """
        is_quiet, self._quiet_since = self._quiet_since == self._sequence_number, self._sequence_number
        if not is_quiet or not self._outstanding_messages or self._confirmed == self._sequence_number:
            return
        message = Message(self._attempt, self.channel_id, self._sequence_number, [], 0, Probe())
        self._sequence_number += 1
        self._last_probe = self._quiet_since = self._sequence_number
        self._probes += 1
        self._ports.send(message)


def _coalesced(elements: list[StreamElement], batch_size: int) -> list[StreamElement]:
    """Neighbouring list batches that are not full joined: less to encode, and longer loops downstream."""
    joined: list[StreamElement] = []
    alike: list[Batch] = []
    size = 0
    for element in elements:
        if not isinstance(element, Batch):
            joined += [*_joined(alike), element]
            alike = []
        elif alike and size < batch_size and _can_join(alike[-1], element):
            alike.append(element)
            size += len(element)
        else:
            joined += _joined(alike)
            alike, size = [element], len(element)
    return joined + _joined(alike)


def _can_join(left: Batch, right: Batch) -> bool:
    return (
        isinstance(left.values, list)
        and isinstance(right.values, list)
        and (left.timestamps is None) == (right.timestamps is None)
        and type(left.keys) is type(right.keys)
    )


def _joined(batches: list[Batch]) -> list[StreamElement]:
    """All in one batch, at once: a piece at a time, the first would be copied once for each."""
    if len(batches) <= 1:
        return [*batches]
    first = batches[0]
    values: list[Any] = []
    timestamps: list[int] | None = None if first.timestamps is None else []
    keys: Any = [] if isinstance(first.keys, list) else None
    for batch in batches:
        values += batch.values
        if timestamps is not None:
            timestamps += batch.timestamps or ()
        if keys is not None:
            keys += batch.keys
    if keys is None and first.keys is not None:
        keys = np.concatenate([batch.keys for batch in batches])
    return [Batch(values, timestamps, keys)]


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

    def probe(self) -> None:
        """Send what shows receivers of channels that are quiet how many messages were sent."""
        for channel in self._channels:
            channel.probe()

    def flush_due(self, now_ns: int, is_idle: bool) -> int | None:
        """Send what is due.

        Args:
            now_ns: The time.
            is_idle: Whether the task has nothing else to do.

        Returns:
            Milliseconds until the next is due, `None` if nothing waits.
        """
        soonest: int | None = None
        # With one channel there is nothing to be gained: its messages grow while the receiver is at work.
        busy_channels = 0 if is_idle or len(self._channels) == 1 else len(self._channels)
        for channel in self._channels:
            due_ms = channel.due_in_ms(now_ns, busy_channels)
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
