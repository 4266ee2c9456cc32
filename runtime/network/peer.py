"""The process at the other end of a direct connection: what goes there, and what comes from there."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any

from ...protocol.channels.frame_reader import FrameReader
from ...protocol.channels.frames import (
    DataKind,
    Frame,
    FrameKind,
    Payload,
    bare_frame,
    credit_frame,
    credit_of,
    data_of,
    data_parts,
)
from ...protocol.channels.link import LinkId, Parts, Progress, confirmed_by
from ...protocol.channels.link_watch import LinkWatch
from ...protocol.elements import Message
from ...protocol.ids import ChannelId
from .listeners import Carrier
from .tls import TlsSocket

WRITES = 128
"""How many pieces are written at once."""

READS = 16
"""How often a socket is read before the others have their turn."""

Deliver = Callable[["Peer", ChannelId, int, DataKind, Payload], None]
Credited = Callable[["Peer", Sequence[tuple[ChannelId, int]]], None]


class Peer:
    """One end of a link, with the socket that carries it at the moment.

    Tasks send from their own threads: what the socket takes at once needs no other thread. The rest goes when
    the thread that reads all sockets finds it writable.

    Args:
        link: Both ends.
        watch: When to open connections.
        deliver: Takes a message that arrived.
        credited: Takes credit that came back.
        wants_write: Asks for a call of `flush` when the socket can be written.
        broke: Says why a socket can be used no more, from any thread.
    """

    def __init__(
        self,
        link: LinkId,
        watch: LinkWatch,
        deliver: Deliver,
        credited: Credited,
        wants_write: Callable[[Peer], None],
        broke: Callable[[Peer, Carrier, str], None],
    ) -> None:
        self.link = link
        self.watch = watch
        self.progress = Progress()
        self.is_dialing = False
        self.is_failed = False
        self._deliver = deliver
        self._credited = credited
        self._wants_write = wants_write
        self._broke = broke
        self._lock = threading.Lock()
        self._waiting: deque[memoryview] = deque()
        self._reader: FrameReader
        """That of the newest connection."""
        self.socket: Carrier | None = None

    @property
    def awaits(self) -> bool:
        """Whether the other end has something to confirm."""
        return self.progress.confirmed < self.progress.sent

    @property
    def is_due(self) -> bool:
        """Whether it is to be looked at often."""
        return self.socket is None or self.awaits

    # ------------------------------------------------------------ out, from any thread

    def send(self, message: Message, kind: DataKind) -> None:
        """Send a message, now or as soon as there is a connection."""
        payload: Any = b"" if kind is DataKind.PROBE else message.elements
        with self._lock:
            received = self.progress.received
            self._send_numbered(data_parts(received, message.channel, message.sequence_number, kind, payload))

    def give_credit(self, credits: Mapping[ChannelId, int]) -> None:
        """Give credit back, in bytes by channel."""
        with self._lock:
            self._send_numbered((credit_frame(self.progress.received, credits.items()).encoded(),))

    def _send_numbered(self, parts: Parts) -> None:
        self.progress.sends(parts)
        self._transmit(parts)

    def _transmit(self, parts: Parts) -> None:
        """Write to the socket, or behind what waits for it; without a socket it is kept anyway."""
        if self.socket is None:
            return
        if self._waiting:
            self._waiting.extend(memoryview(part) for part in parts)
            return
        try:
            written = self.socket.sendmsg(parts)
        except BlockingIOError:
            written = 0
        except OSError as error:
            self._broke(self, self.socket, str(error))
            return
        self._keep_rest(parts, written)

    def _keep_rest(self, parts: Parts, written: int) -> None:
        for part in parts:
            if written < len(part):
                self._waiting.append(memoryview(part)[written:])
            written = max(0, written - len(part))
        if self._waiting:
            self._wants_write(self)

    # ------------------------------------------------------------ on the thread that reads all sockets

    def resume(self, connection: Carrier, reader: FrameReader, received: int) -> None:
        """A new connection is proved.

        Args:
            connection: Its socket.
            reader: Has what already arrived on it.
            received: How many numbered frames the other end has.

        Raises:
            LinkRefused: What the other end lacks is not kept any more.
        """
        with self._lock:
            missing = self.progress.resumes(received)
            reader.is_proved = True
            self.socket, self._reader = connection, reader
            self._waiting.clear()
            for parts in missing:
                self._transmit(parts)

    def disconnect(self) -> Carrier | None:
        """The connection is lost; returns its socket, to be closed."""
        with self._lock:
            lost, self.socket = self.socket, None
            self._waiting.clear()
            return lost

    def ping(self) -> None:
        """Ask the other end whether it is there."""
        self._send_bare(FrameKind.PING)

    def _send_bare(self, kind: FrameKind) -> None:
        with self._lock:
            self._transmit((bare_frame(kind, self.progress.received).encoded(),))

    def flush(self) -> bool:
        """Write what waits; whether everything is written."""
        with self._lock:
            while self._waiting and self.socket is not None:
                try:
                    written = self.socket.sendmsg(list(islice(self._waiting, WRITES)))
                except BlockingIOError:
                    return False
                except OSError as error:
                    self._broke(self, self.socket, str(error))
                    return True
                while self._waiting and written >= len(self._waiting[0]):
                    written -= len(self._waiting.popleft())
                if written:
                    self._waiting[0] = self._waiting[0][written:]
            return True

    def read(self) -> None:
        """Take what has arrived.

        Raises:
            ConnectionError: The connection has ended.
            LinkRefused: The other end refuses it.
            FrameError: What arrived makes no sense.
        """
        turns = 0
        while (connection := self.socket) is not None:
            # What TLS holds does not make the socket readable.
            if turns >= READS and not (isinstance(connection, TlsSocket) and connection.has_more):
                return
            turns += 1
            buffers = self._reader.buffers()
            if isinstance(connection, TlsSocket):
                buffers = buffers[:1]
            try:
                count = _received_into(connection, buffers)
            except BlockingIOError:
                return
            if not count:
                raise ConnectionResetError("the other end closed the connection")
            self._reader.received(count)
            self.take_frames()
            if count < sum(map(len, buffers)):
                return

    def begin(self) -> None:
        """Take what arrived with the handshake, and after it. Raises as `read` does."""
        self.take_frames()
        self.read()

    def take_frames(self) -> None:
        """Take the frames that are here."""
        self.watch.heard()
        frame = self._reader.next_frame()
        if frame is None:
            return
        while frame is not None:
            self._take(frame)
            frame = self._reader.next_frame()
        self.watch.works()

    def _take(self, frame: Frame) -> None:
        if frame.kind is FrameKind.DATA:
            received, channel, number, kind, payload = data_of(frame)
            self._confirmed(received)
            self._deliver(self, channel, number, kind, payload)
            self.progress.received += 1
        elif frame.kind is FrameKind.CREDIT:
            received, credits = credit_of(frame)
            self._confirmed(received)
            self._credited(self, credits)
            self.progress.received += 1
        else:
            self._confirmed(confirmed_by(frame))
            if frame.kind is FrameKind.PING:
                self._send_bare(FrameKind.PONG)

    def _confirmed(self, received: int) -> None:
        if received > self.progress.confirmed:
            with self._lock:
                self.progress.confirms(received)


def _received_into(connection: Carrier, buffers: Sequence[memoryview]) -> int:
    if isinstance(connection, TlsSocket) or len(buffers) == 1:
        return connection.recv_into(buffers[0])
    return connection.recvmsg_into(buffers)[0]
