"""What a message on a direct connection costs: CPU time of both processes, back to back and at a rate.

    python -m benchmarks.connections [--messages 20000] [--rounds 3]

A process of its own receives what this one sends, over a Unix-domain socket and over TCP on loopback. It
gives credit back after each 256 KiB, as a busy task does. The bare socket sends and receives the same bytes
without frames. With `RAY_USE_TLS=1` and Ray's other variables for certificates, it measures TLS as well.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import socket
import statistics
import threading
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any

from tidegate.actors.connections import Connections
from tidegate.actors.listeners import Address, ListenOn
from tidegate.actors.peer import Peer
from tidegate.actors.tls_files import TlsFiles
from tidegate.protocol.elements import Message
from tidegate.protocol.frames import DataKind, Payload
from tidegate.protocol.ids import Attempt, ChannelId

CHANNEL = ChannelId(0, 0, 0)
ATTEMPT = Attempt(1)
SECRET = b"benchmark of connections, 32 byte"
CREDIT_BYTES = 1 << 20
STEP_BYTES = CREDIT_BYTES // 4
RATE = 500
RATE_S = 4
SIZES = (100, 4 << 10, 256 << 10, 4 << 20)
LARGE_SHARE = 40
"""Of messages of 256 KiB and more, so many times fewer are sent."""


class End:
    """One process's connections, which count what arrives."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.arrived = 0
        self.outstanding = 0
        self._unanswered = 0
        self.connections = Connections(self._deliver, self._credited, self._failed)

    def _deliver(self, peer: Peer, _: ChannelId, number: int, kind: DataKind, payload: Payload) -> None:
        self._unanswered += len(payload)
        if self._unanswered >= STEP_BYTES:
            peer.give_credit({CHANNEL: self._unanswered})
            self._unanswered = 0
        with self.changed:
            self.arrived += 1
            self.changed.notify()

    def _credited(self, _: Peer, credits: Sequence[tuple[ChannelId, int]]) -> None:
        with self.changed:
            self.outstanding -= sum(size_bytes for _, size_bytes in credits)
            self.changed.notify()

    def _failed(self, _: Any, cause: str) -> None:
        raise RuntimeError(cause)

    def begin(self, mine: int, addresses: dict[int, Address]) -> None:
        self.connections.begin(ATTEMPT, mine, SECRET, [1 - mine], 20_000)
        self.connections.connect(ATTEMPT, addresses)

    def send(self, number: int, payload: bytes) -> None:
        with self.changed:
            self.changed.wait_for(lambda: self.outstanding < CREDIT_BYTES)
            self.outstanding += len(payload)
        message = Message(ATTEMPT, CHANNEL, number, payload, len(payload))  # type: ignore[arg-type]
        self.connections.send(1, message, DataKind.ELEMENTS)


def receive(pipe: Connection, on: ListenOn | None) -> None:
    """The other process: receives as many messages as it is told, and says what CPU time that took."""
    end = End()
    pipe.send(end.connections.address("there" if on else "here", on))
    end.begin(1, pipe.recv())
    while (count := pipe.recv()) is not None:
        end.arrived, before = 0, cpu_s()
        pipe.send("ready")
        with end.changed:
            end.changed.wait_for(lambda wanted=count: end.arrived >= wanted)  # type: ignore[misc]
        pipe.send(cpu_s() - before)
    end.connections.close()


def receive_bare(pipe: Connection) -> None:
    """The same with a socket alone."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"\0tidegate-bench-{id(pipe)}-{time.time_ns()}")
    listener.listen()
    pipe.send(listener.getsockname())
    connection, _ = listener.accept()
    buffer = bytearray(1 << 20)
    while (count := pipe.recv()) is not None:
        before = cpu_s()
        pipe.send("ready")
        while count > 0:
            count -= connection.recv_into(buffer)
        pipe.send(cpu_s() - before)


def cpu_s() -> float:
    """CPU time of this process in seconds."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


class Measured:
    """A sender with its receiver, and the costs of one message of each size."""

    def __init__(self, on: ListenOn | None, is_bare: bool) -> None:
        self._is_bare = is_bare
        self._pipe, theirs = multiprocessing.Pipe()
        target, arguments = (receive_bare, (theirs,)) if is_bare else (receive, (theirs, on))
        self._process = multiprocessing.get_context("spawn").Process(target=target, args=arguments)
        self._process.start()
        address = self._pipe.recv()
        if is_bare:
            self._socket = socket.socket(socket.AF_UNIX)
            self._socket.connect(address)
            return
        self._end = End()
        addresses = {0: self._end.connections.address("here", on), 1: address}
        self._pipe.send(addresses)
        self._end.begin(0, addresses)

    def costs_us(self, size: int, count: int, rate: float | None) -> tuple[float, float]:
        """Microseconds of CPU time in both processes, and of time, for a message."""
        payload = b"x" * size
        self._pipe.send(count * size if self._is_bare else count)
        self._pipe.recv()
        started_s, before_s = time.perf_counter(), cpu_s()
        for number in range(count):
            if rate is not None:
                time.sleep(max(0.0, started_s + number / rate - time.perf_counter()))
            if self._is_bare:
                self._socket.sendall(payload)
            else:
                self._end.send(number, payload)
        used_s = self._pipe.recv() + cpu_s() - before_s
        return used_s / count * 1e6, (time.perf_counter() - started_s) / count * 1e6

    def close(self) -> None:
        self._pipe.send(None)
        self._process.join()
        if not self._is_bare:
            self._end.connections.close()


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table of the costs."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.connections", description=__doc__)
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(arguments)
    print("| carrier | message | CPU µs back to back | µs back to back | CPU µs at 500/s |")
    print("|---|---|---|---|---|")
    tls = TlsFiles.from_environment(os.environ)
    carriers: list[tuple[str, ListenOn | None, bool]] = [
        ("Unix-domain socket", None, False),
        ("TCP on loopback", ListenOn("127.0.0.1"), False),
        ("bare Unix-domain socket", None, True),
    ]
    if tls is not None:
        carriers.insert(2, ("TCP with TLS on loopback", ListenOn("127.0.0.1", tls), False))
    for title, on, is_bare in carriers:
        measured = Measured(on, is_bare)
        for size in SIZES:
            count = options.messages // (LARGE_SHARE if size > 65_536 else 1)
            runs = [measured.costs_us(size, count, None) for _ in range(options.rounds)]
            cpu, passed = (statistics.median(each) for each in zip(*runs, strict=True))
            paced = "-"
            if size <= 65_536:
                paced = f"{measured.costs_us(size, RATE * RATE_S, RATE)[0]:,.0f}"
            print(f"| {title} | {size:,} B | {cpu:,.1f} | {passed:,.1f} | {paced} |")
        measured.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
