"""Connections that cannot be held for ever: every wait for a client ends.

uvicorn limits how long a connection may be idle between two requests, but not how long a client may take to
send a request's headers, or to read an answer. It also counts such connections as work, and then refuses
everyone.

uvicorn also closes a connection right after it refused a request, while the client may still be sending. The
kernel answers bytes that no process reads with a reset, and the client loses the answer (RFC 9112, section
9.6). So the rest of such a request is read and dropped first, within the time that a client has for headers.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Any, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol


class Waiting:
    """The connections of a server that wait for a client, the longest waiting first.

    Args:
        stall_timeout_s: Seconds in which a client must finish the headers of a request, or take what was
            written to it.
        max_connections: Above this number, the connection that has waited longest for headers is closed.
    """

    def __init__(self, stall_timeout_s: float, max_connections: int) -> None:
        self.stall_timeout_s = stall_timeout_s
        self.max_connections = max_connections
        self.for_headers: OrderedDict[BoundedProtocol, None] = OrderedDict()


class _LingeringTransport:
    """The transport of a protocol that decides when it is closed; else as the one it is made of."""

    def __init__(self, transport: asyncio.Transport, protocol: BoundedProtocol) -> None:
        self._transport = transport
        self._protocol = protocol

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def is_closing(self) -> bool:
        return self._protocol.is_lingering or self._transport.is_closing()

    def close(self) -> None:
        self._protocol.close(self._transport)


class BoundedProtocol(H11Protocol):
    """One connection.

    Attributes:
        is_lingering: Whether it has sent its last answer, and drops what the client still sends.
    """

    waiting: Waiting

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.is_lingering = False
        self._headers_timer: asyncio.TimerHandle | None = None
        self._writing_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(cast(asyncio.Transport, _LingeringTransport(transport, self)))
        # So that it is known whenever something waits to be taken.
        transport.set_write_buffer_limits(0)
        self._watch_headers()
        if len(self.connections) > self.waiting.max_connections and self.waiting.for_headers:
            next(iter(self.waiting.for_headers)).give_up()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_headers_timer()
        self._stop_writing_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.is_lingering:
            return
        super().data_received(data)
        self._watch_headers()

    def close(self, transport: asyncio.Transport) -> None:
        """Close the connection, once the client has sent all of a request that was answered early."""
        is_sending = self.conn.their_state in (h11.SEND_BODY, h11.ERROR)
        if self.is_lingering or not is_sending or transport.is_closing():
            transport.close()
            return
        self.is_lingering = True
        self.flow.resume_reading()
        transport.write_eof()
        self._stop_headers_timer()
        self._watch_headers()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch_headers()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._writing_timer is None:
            self._writing_timer = self.loop.call_later(self.waiting.stall_timeout_s, self.give_up)

    def resume_writing(self) -> None:
        self._stop_writing_timer()
        super().resume_writing()

    def give_up(self) -> None:
        """Close the connection without waiting for its client."""
        self._stop_headers_timer()
        self.transport.abort()

    def _watch_headers(self) -> None:
        """Limit the time until the headers of a request are there; what has come of them changes nothing.

        The rest of a request that was answered before its end is treated in the same way.
        """
        is_answered = self.cycle is not None and self.cycle.response_complete
        is_waiting = self.conn.their_state is h11.IDLE or (
            self.conn.their_state is h11.SEND_BODY and is_answered
        )
        if not self.is_lingering and (not is_waiting or self.transport.is_closing()):
            self._stop_headers_timer()
        elif self._headers_timer is None:
            self._headers_timer = self.loop.call_later(self.waiting.stall_timeout_s, self.give_up)
            self.waiting.for_headers[self] = None

    def _stop_headers_timer(self) -> None:
        if self._headers_timer is not None:
            self._headers_timer.cancel()
            self._headers_timer = None
            self.waiting.for_headers.pop(self, None)

    def _stop_writing_timer(self) -> None:
        if self._writing_timer is not None:
            self._writing_timer.cancel()
            self._writing_timer = None


def bounded_protocol(stall_timeout_s: float, max_connections: int) -> type[H11Protocol]:
    """The protocol of one server; see `Waiting`."""
    waiting = Waiting(stall_timeout_s, max_connections)
    return type("ServerProtocol", (BoundedProtocol,), {"waiting": waiting})
