"""Direct connections on real sockets: lost, opened again, refused to strangers."""

from __future__ import annotations

import secrets
import socket
import threading
from collections.abc import Iterator

import pytest
from tidegate.actors.connections import Connections
from tidegate.actors.listeners import Address
from tidegate.protocol.elements import Message
from tidegate.protocol.frames import DataKind, FrameKind, Refusal, refusal_frame
from tidegate.protocol.ids import Attempt, ChannelId
from tidegate.protocol.link import LinkId

CHANNEL = ChannelId(1, 0, 0)
DEADLINE_S = 30.0
TIMEOUT_MS = 10_000


class Process:
    """A process with its connections, and what came to it."""

    def __init__(self) -> None:
        self.got: list[tuple[int, bytes]] = []
        self.credits: list[int] = []
        self.failed: list[tuple[LinkId, str]] = []
        self._changed = threading.Condition()
        self.connections = Connections(self._deliver, self._credited, self._fail)

    def _deliver(self, _: object, channel: ChannelId, number: int, kind: DataKind, payload: bytes) -> None:
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
            with __import__("contextlib").suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def processes() -> Iterator[list[Process]]:
    both = [Process(), Process()]
    yield both
    for process in both:
        process.connections.close()
