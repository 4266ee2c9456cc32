"""One end of a comparison, on sockets without frames, credit or another thread.

    python -m benchmarks.connections.bare sender|receiver unix|HOST PEERS

The sender calls `sendall` with a `bytes` object, one blocking socket for each peer in turn. The receiver
calls `recv_into` with one buffer of 1 MiB, on the only socket or on those that `epoll` reports.
"""

from __future__ import annotations

import json
import selectors
import socket
import sys
import time
from typing import Any

from .programs import say, serve

BUFFER_BYTES = 1 << 20


class Receiver:
    """Reads as many bytes as the messages have."""

    def __init__(self, where: str, peers: int) -> None:
        self._peers = peers
        is_unix = where == "unix"
        self._listener = socket.socket(socket.AF_UNIX if is_unix else socket.AF_INET)
        self._listener.bind(f"\0tidegate-bench-{time.time_ns()}" if is_unix else (where, 0))
        self._listener.listen(peers)
        self.address: Any = self._listener.getsockname()
        self._sockets: list[socket.socket] = []
        self._selector = selectors.EpollSelector()
        self._buffer = bytearray(BUFFER_BYTES)

    def run(self, size: int, count: int, rate: float) -> None:
        """Receive messages."""
        while len(self._sockets) < self._peers:
            self._sockets.append(self._listener.accept()[0])
            self._selector.register(self._sockets[-1], selectors.EVENT_READ)
        left = size * count
        while left and self._peers == 1:
            left -= self._sockets[0].recv_into(self._buffer)
        while left:
            for key, _ in self._selector.select():
                left -= key.fileobj.recv_into(self._buffer)  # type: ignore[union-attr]


class Sender:
    """Sends the bytes of the messages."""

    def __init__(self, address: Any, where: str, peers: int) -> None:
        self._sockets = [
            socket.socket(socket.AF_UNIX if where == "unix" else socket.AF_INET) for _ in range(peers)
        ]
        for each in self._sockets:
            each.connect(address if where == "unix" else tuple(address))
            if where != "unix":
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def run(self, size: int, count: int, rate: float) -> None:
        """Send messages."""
        payload = b"x" * size
        started_s = time.perf_counter()
        for number in range(count):
            if rate:
                time.sleep(max(0.0, started_s + number / rate - time.perf_counter()))
            self._sockets[number % len(self._sockets)].sendall(payload)


def main() -> None:
    """Be one end."""
    role, where, peers = sys.argv[1], sys.argv[2], int(sys.argv[3])
    if role == "receiver":
        receiver = Receiver(where, peers)
        address = receiver.address
        say(address.decode() if isinstance(address, bytes) else address)
        serve(receiver)
    else:
        sender = Sender(json.loads(input()), where, peers)
        say("ready")
        serve(sender)


if __name__ == "__main__":
    main()
