"""Two task processes with real connections, in one process."""

from __future__ import annotations

import contextlib
import secrets
import socket
import threading

from tidegate.protocol.channels.frames import DataKind, Payload
from tidegate.protocol.channels.link import LinkId
from tidegate.protocol.elements import Message
from tidegate.protocol.ids import Attempt, ChannelId
from tidegate.runtime.network.connections import Connections
from tidegate.runtime.network.listeners import Address, ListenOn
from tidegate.runtime.network.tls_files import TlsFiles

CHANNEL = ChannelId(1, 0, 0)
DEADLINE_S = 120.0
TIMEOUT_MS = 10_000


class Process:
    """A process with its connections, and what came to it."""

    def __init__(self, tls: TlsFiles | None = None) -> None:
        self.got: list[tuple[int, Payload]] = []
        self.credits: list[int] = []
        self.failed: list[tuple[LinkId, str]] = []
        self._changed = threading.Condition()
        self.connections = Connections(self._deliver, self._credited, self._fail)
        self.tls = tls

    def _deliver(self, _: object, channel: ChannelId, number: int, kind: DataKind, payload: Payload) -> None:
        with self._changed:
            self.got.append((number, payload))
            self._changed.notify()

    def _credited(self, _: object, credits: object) -> None:
        with self._changed:
            self.credits += [size for _, size in credits]  # type: ignore[attr-defined]
            self._changed.notify()

    def _fail(self, link: LinkId, cause: str) -> None:
        with self._changed:
            self.failed.append((link, cause))
            self._changed.notify()

    def wait_for(self, count: int) -> list[int]:
        """The numbers of the messages that came, when there are so many."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.got) >= count, DEADLINE_S), len(self.got)
            return [number for number, _ in self.got]

    def wait_for_failure(self) -> str:
        with self._changed:
            assert self._changed.wait_for(lambda: self.failed, DEADLINE_S)
            return self.failed[0][1]

    def cut(self, peer: int) -> None:
        """The network loses the connection to another process."""
        connection = self.connections._links.peers[peer].socket
        if connection is not None:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


def addresses(both: tuple[Process, Process], is_tcp: bool) -> dict[int, Address]:
    return {
        number: process.connections.address(
            f"node {number if is_tcp else 0}", ListenOn("127.0.0.1", process.tls) if is_tcp else None
        )
        for number, process in enumerate(both)
    }


def begin(both: tuple[Process, Process], attempt: int = 1, timeout_ms: int = TIMEOUT_MS) -> None:
    secret = secrets.token_bytes(32)
    for number, process in enumerate(both):
        process.connections.begin(Attempt(attempt), number, secret, [1 - number], timeout_ms)


def connect(both: tuple[Process, Process], is_tcp: bool = False, attempt: int = 1) -> None:
    known = addresses(both, is_tcp)
    for process in both:
        process.connections.connect(Attempt(attempt), known)


def message(number: int, payload: bytes = b"x", attempt: int = 1) -> Message:
    return Message(Attempt(attempt), CHANNEL, number, payload, len(payload))  # type: ignore[arg-type]
