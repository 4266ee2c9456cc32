"""Connections whose other end has not proved yet who it is."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable

from ...protocol.channels.frame_reader import FrameReader
from ...protocol.channels.frames import NONCE_BYTES, Frame, FrameError, FrameKind, refusal_frame, refusal_of
from ...protocol.channels.link import Dialer, LinkId, LinkRefused, Listener, bound_secret
from .listeners import Carrier
from .tls import TlsSocket
from .wire import received_memory

HANDSHAKE_TIMEOUT_MS = 5_000
"""How long a stranger may take to prove who it is."""

STRANGERS = 256
"""The most connections whose other end is not proved; the oldest is closed for another one."""


class Handshake(ABC):
    """A handshake under way on one socket.

    Args:
        connection: A socket that does not block.
        scratch: What all readers on the thread of the connections share.
        now_ms: The time in milliseconds.
    """

    def __init__(self, connection: Carrier, scratch: bytearray, now_ms: int) -> None:
        self.connection = connection
        self.reader = FrameReader(received_memory, scratch)
        self._is_open = False
        self.deadline_ms = now_ms + HANDSHAKE_TIMEOUT_MS
        self.their_received = 0
        """How many numbered frames the other end has, once it is proved."""

    @property
    def late(self) -> str:
        """What has not happened when the deadline has passed."""
        return "the other end did not answer the handshake in time"

    def read(self) -> bool:
        """Take what has arrived; whether the other end is proved.

        Raises:
            ConnectionError: The connection has ended.
            FrameError: What arrived is no handshake.
            LinkRefused: The other end is not who it should be.
        """
        if not self._opened():
            return False
        try:
            count = self.connection.recv_into(self.reader.buffers()[0])
        except BlockingIOError:
            return False
        if not count:
            raise ConnectionResetError("the other end closed the connection during the handshake")
        self.reader.received(count)
        while (frame := self.reader.next_frame()) is not None:
            if self._take(frame):
                return True
        return False

    def _opened(self) -> bool:
        """Go on with TLS, if the connection uses it; whether frames can be sent."""
        if not self._is_open and (not isinstance(self.connection, TlsSocket) or self.connection.establish()):
            self._is_open = True
            self._begin()
        return self._is_open

    def _begin(self) -> None:
        """Say what this end has to say first."""

    def _bound(self, secret: bytes) -> bytes:
        return bound_secret(
            secret, self.connection.binding if isinstance(self.connection, TlsSocket) else b""
        )

    @abstractmethod
    def _take(self, frame: Frame) -> bool:
        """Take a frame; whether the other end is proved."""

    def _send(self, frame: Frame) -> None:
        # A few hundred bytes on a connection that has carried nothing else: a socket takes them whole.
        data = frame.encoded()
        with contextlib.suppress(BlockingIOError):
            if self.connection.send(data) == len(data):
                return
        raise ConnectionResetError("the other end does not read the handshake")


class Outgoing(Handshake):
    """The handshake on a connection that this process opens.

    Args:
        connection: A socket that does not block, while it connects.
        link: Both ends.
        secret: That of the attempt.
        received: How many numbered frames this end has received.
        scratch: What all readers on the thread of the connections share.
        now_ms: The time in milliseconds.
    """

    def __init__(
        self, connection: Carrier, link: LinkId, secret: bytes, received: int, scratch: bytearray, now_ms: int
    ) -> None:
        super().__init__(connection, scratch, now_ms)
        self.link = link
        self.is_connected = False
        self._secret, self._received = secret, received
        self._dialer: Dialer | None = None

    @property
    def late(self) -> str:
        """What has not happened when the deadline has passed."""
        if self.is_connected:
            return super().late
        return f"no answer within {HANDSHAKE_TIMEOUT_MS // 1_000} s; a firewall may drop packets"

    def connected(self) -> None:
        """The socket is connected, or could not be. Raises `OSError` in the second case."""
        error = self.connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error:
            raise OSError(error, os.strerror(error))
        self.is_connected = True
        self._opened()

    def _begin(self) -> None:
        nonce = secrets.token_bytes(NONCE_BYTES)
        self._dialer = Dialer(self.link, self._bound(self._secret), nonce, self._received)
        self._send(self._dialer.hello)

    def _take(self, frame: Frame) -> bool:
        assert self._dialer is not None
        if frame.kind is FrameKind.REFUSAL:
            raise LinkRefused(refusal_of(frame))
        proof, self.their_received = self._dialer.answer(frame)
        self._send(proof)
        return True


class Incoming(Handshake):
    """The handshake on a connection that another process opened.

    Args:
        connection: A socket that does not block.
        where: Where it comes from.
        secret_of: The secret for what the stranger says it is.
        received_of: How many numbered frames this end has received from that process.
        scratch: What all readers on the thread of the connections share.
        now_ms: The time in milliseconds.
    """

    def __init__(
        self,
        connection: Carrier,
        where: str,
        secret_of: Callable[[LinkId], bytes],
        received_of: Callable[[LinkId], int],
        scratch: bytearray,
        now_ms: int,
    ) -> None:
        super().__init__(connection, scratch, now_ms)
        self.where = where
        self._listener = Listener(
            lambda link: self._bound(secret_of(link)), received_of, secrets.token_bytes(NONCE_BYTES)
        )

    @property
    def link(self) -> LinkId:
        """Both ends, once the other is proved."""
        if self._listener.link is None:
            raise FrameError("the other end has not said who it is")
        return self._listener.link

    def _take(self, frame: Frame) -> bool:
        answer = self._listener.answer(frame)
        if isinstance(answer, Frame):
            self._send(answer)
            return False
        self.their_received = answer
        return True

    def refuse(self, refused: LinkRefused) -> None:
        """Say why, if the other end still listens."""
        try:
            self._send(refusal_frame(refused.why))
        except OSError:
            return
