"""Connections that cannot be held for ever: every wait for a client ends.

uvicorn limits how long a connection may be idle between two requests, but not how long a client may take to
send a request's headers, or to read an answer. It also counts such connections as work, and then refuses
everyone.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Any

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


class BoundedProtocol(H11Protocol):
    """One connection."""

    waiting: Waiting

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._headers_timer: asyncio.TimerHandle | None = None
        self._writing_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
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
        super().data_received(data)
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

        The rest of a body that was answered before its end is treated in the same way.
        """
        is_answered = self.cycle is not None and self.cycle.response_complete
        is_waiting = self.conn.their_state is h11.IDLE or (
            self.conn.their_state is h11.SEND_BODY and is_answered
        )
        if not is_waiting or self.transport.is_closing():
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
