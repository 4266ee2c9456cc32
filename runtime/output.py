"""The output of a task: partitions batches over channels, fills messages and keeps to its credit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..common import failpoints
from ..protocol.elements import (
    Batch,
    EndOfInput,
    Marker,
    Message,
    Probe,
    StreamElement,
    Watermark,
    WatermarkStatus,
)
from ..protocol.ids import Attempt, ChannelId
from .batch_joining import coalesced
from .ports import TaskPorts, TaskSettings

FEW_MESSAGES = 4
FLUSH_PAUSE_NS = 200_000
"""A task that has nothing else to do sends what waits. If those were more than a few messages, it waits for
this long for each of the others before it does so again: a task with many channels must not spend its time,
and that of its receivers, on messages of a record or two."""


@dataclass(slots=True)
class ChannelBooks:
    """What the channels of one task have in common."""

    waiting: dict[OutputChannel, None] = field(default_factory=dict)
    """Those with something to send."""
    exhausted: set[OutputChannel] = field(default_factory=set)
    """Those without credit."""


class OutputChannel:
    """One outgoing channel: what waits to be sent, and what is out on credit.

    A message is sent when a full batch has gathered, when something ends it that travels alone, when it has
    waited for `buffer_timeout_ms`, or when the task has nothing else to do; with a timeout of -1 only the
    first two count, and a watermark ends a message too.
    """

    def __init__(
        self,
        attempt: Attempt,
        channel_id: ChannelId,
        settings: TaskSettings,
        ports: TaskPorts,
        books: ChannelBooks,
    ) -> None:
        self._attempt = attempt
        self.channel_id = channel_id
        self._batch_size = settings.batch_size
        self.timeout_ns = settings.buffer_timeout_ms * 1_000_000
        """How long something may wait in nanoseconds; negative for as long as it takes."""
        self._credit_bytes = settings.channel_credit_bytes
        self._ports = ports
        self._books = books
        self._sequence_number = 0
        self._last_marker = -1
        self._quiet_since = -1
        self.outstanding_bytes = 0
        """Bytes sent and not yet consumed, as far as this end knows."""
        self.sent_bytes = 0
        """Size of all messages sent."""
        self._pending: list[StreamElement] = []
        self._pending_records = 0
        self._pending_since_ns = 0

    def add_batch(self, batch: Batch) -> None:
        """Queue records; sends when a full batch has gathered."""
        self._queue(batch)
        self._pending_records += len(batch)
        if self._pending_records >= self._batch_size:
            self.flush()

    def _queue(self, element: StreamElement) -> None:
        if not self._pending:
            self._pending_since_ns = self._ports.now_ns()
            self._books.waiting[self] = None
        self._pending.append(element)

    def add_control(self, element: Watermark | WatermarkStatus | EndOfInput) -> None:
        """Send a control element behind the records; the end of input has a message of its own."""
        if isinstance(element, EndOfInput):
            self.flush()
            self._send([element], element)
            return
        if isinstance(element, Watermark) and self._pending and isinstance(self._pending[-1], Watermark):
            self._pending[-1] = element
        else:
            self._queue(element)
        if self.timeout_ns < 0:
            self.flush()

    def marked(self, marker: Marker, payload: Any) -> Message:
        """The message for a marker, behind the records that wait, which are sent."""
        self.flush()
        number, before = self._sequence_number, self._last_marker
        self._sequence_number, self._last_marker = number + 1, number
        return Message(self._attempt, self.channel_id, number, payload, 0, marker, before)

    def credit_returned(self, size_bytes: int) -> None:
        """The receiver consumed messages."""
        self.outstanding_bytes -= size_bytes
        if self.outstanding_bytes < self._credit_bytes:
            self._books.exhausted.discard(self)

    def due_in_ns(self, now_ns: int) -> int | None:
        """Nanoseconds until what waits must be sent, `None` if only a full batch counts."""
        if self.timeout_ns < 0:
            return None
        return max(0, self._pending_since_ns + self.timeout_ns - now_ns)

    def flush(self) -> None:
        """Send what waits."""
        if not self._pending:
            return
        elements, self._pending, self._pending_records = self._pending, [], 0
        del self._books.waiting[self]
        self._send(coalesced(elements, self._batch_size))

    def _send(self, elements: list[StreamElement], announces: EndOfInput | None = None) -> None:
        payload, size_bytes = self._ports.encode(elements)
        message = Message(
            self._attempt, self.channel_id, self._sequence_number, payload, size_bytes, announces
        )
        self._sequence_number += 1
        self.outstanding_bytes += size_bytes
        self.sent_bytes += size_bytes
        if self.outstanding_bytes >= self._credit_bytes:
            self._books.exhausted.add(self)
        failpoints.reach("send")
        self._ports.send(message)

    def probe(self) -> None:
        """Send a probe if a marker was the last message, and nothing was sent since the last call."""
        is_quiet, self._quiet_since = self._quiet_since == self._sequence_number, self._sequence_number
        if not is_quiet or self._last_marker != self._sequence_number - 1 or not self._sequence_number:
            return
        message = Message(self._attempt, self.channel_id, self._sequence_number, [], 0, Probe())
        self._sequence_number += 1
        self._ports.send(message)


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
        ports: What sends their messages.
        channels: All of them.
        exchanges: The edges that they belong to.
        books: What the channels have in common.
    """

    def __init__(
        self,
        ports: TaskPorts,
        channels: Sequence[OutputChannel],
        exchanges: Sequence[Exchange],
        books: ChannelBooks,
    ) -> None:
        self._ports = ports
        self._channels = list(channels)
        self._exchanges = list(exchanges)
        self._books = books
        self._by_id: Mapping[ChannelId, OutputChannel] = {c.channel_id: c for c in channels}
        self._pause_until_ns = 0

    def has_credit(self) -> bool:
        """Whether every channel may be produced for."""
        return not self._books.exhausted

    def end(self) -> None:
        """Send the end of input down every channel, behind the records before it."""
        for channel in self._channels:
            channel.add_control(EndOfInput())

    def mark(self, marker: Marker) -> None:
        """Send a marker down every channel; the records before it are sent first."""
        if not self._channels:
            return
        payload, _ = self._ports.encode([marker])
        self._ports.send_markers([channel.marked(marker, payload) for channel in self._channels])

    def credit_returned(self, channel_id: ChannelId, size_bytes: int) -> None:
        """A receiver consumed messages."""
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
        flushes_all = is_idle and self._pause_until_ns <= now_ns
        soonest_ns: int | None = None
        flushed = 0
        for channel in list(self._books.waiting):
            due_ns = channel.due_in_ns(now_ns)
            if due_ns is None:
                continue
            if flushes_all or due_ns == 0:
                channel.flush()
                flushed += 1
            else:
                soonest_ns = due_ns if soonest_ns is None else min(soonest_ns, due_ns)
        if flushed and is_idle:
            self._pause_until_ns = now_ns + max(0, flushed - FEW_MESSAGES) * FLUSH_PAUSE_NS
        if soonest_ns is None:
            return None
        if is_idle:
            soonest_ns = min(soonest_ns, max(0, self._pause_until_ns - now_ns))
        return -(-soonest_ns // 1_000_000)

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
