"""One end of a comparison, on Tidegate's direct connections.

    python -m benchmarks.connections.ours sender|receiver unix|HOST|tls PEERS bytes|columns

The peers of the receiver are in one other process, each with connections of its own. As in a task process,
messages go to another thread, which gives credit back a quarter of a channel's at a time. `columns` encodes
and decodes an Arrow batch for each message. `tls` is TCP on loopback with Ray's certificates.
"""

from __future__ import annotations

import gc
import json
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa
from tidegate.protocol.channels.frames import DataKind, Payload
from tidegate.protocol.elements import Batch, Message
from tidegate.protocol.ids import Attempt, ChannelId
from tidegate.runtime.malloc_options import keep_freed_memory
from tidegate.runtime.network.connections import Connections
from tidegate.runtime.network.listeners import Address, ListenOn
from tidegate.runtime.network.peer import Peer
from tidegate.runtime.network.tls_files import TlsFiles
from tidegate.runtime.network.wire import decode_part, encode_message

from .programs import say, serve

ATTEMPT = Attempt(1)
SECRET = b"benchmark of connections, 32 byte"
CREDIT_BYTES = 1 << 20
STEP_BYTES = CREDIT_BYTES // 4
TIMEOUT_MS = 20_000
LOOPBACK = "127.0.0.1"
COLUMNS = 4
SWITCH_INTERVAL_S = 0.001
GC_THRESHOLDS = (200_000, 50, 100)
"""Both as in a task process."""


def failed(_: Any, cause: str) -> None:
    """A connection cannot be opened."""
    print(cause, file=sys.stderr, flush=True)


def listen_on(where: str) -> ListenOn | None:
    """How the ends listen; those with a host are on different nodes."""
    if where == "unix":
        return None
    return ListenOn(LOOPBACK, TlsFiles.from_environment(os.environ)) if where == "tls" else ListenOn(where)


class Receiver:
    """Takes messages on its main thread."""

    def __init__(self, on: ListenOn | None, peers: int, is_columns: bool) -> None:
        self._is_columns = is_columns
        self._arrived: queue.SimpleQueue[tuple[Peer, ChannelId, Payload]] = queue.SimpleQueue()
        self._consumed: dict[ChannelId, int] = {}
        connections = Connections(self._deliver, lambda peer, credits: None, failed)
        self.address = connections.address("receiver" if on else "node", on)
        connections.begin(ATTEMPT, peers, SECRET, range(peers), TIMEOUT_MS)
        connections.connect(ATTEMPT, {peers: self.address})

    def _deliver(self, peer: Peer, channel: ChannelId, _: int, kind: DataKind, payload: Payload) -> None:
        self._arrived.put((peer, channel, payload))

    def run(self, size: int, count: int, rate: float) -> None:
        """Receive messages."""
        for _ in range(count):
            peer, channel, payload = self._arrived.get()
            if self._is_columns:
                decode_part(payload, 0)
            consumed_bytes = self._consumed.get(channel, 0) + len(payload)
            if consumed_bytes >= STEP_BYTES:
                peer.give_credit({channel: consumed_bytes})
                consumed_bytes = 0
            self._consumed[channel] = consumed_bytes


class Channel:
    """The only channel to the receiver of one peer."""

    def __init__(self, number: int, there: Address, on: ListenOn | None, receiver: int) -> None:
        self.id = ChannelId(0, number, 0)
        self._receiver = receiver
        self._number = 0
        self._changed = threading.Condition()
        self._outstanding_bytes = 0
        self._connections = Connections(lambda *message: None, self._credited, failed)
        here = self._connections.address("sender" if on else "node", on and ListenOn(LOOPBACK, on.tls))
        self._connections.begin(ATTEMPT, number, SECRET, [receiver], TIMEOUT_MS)
        self._connections.connect(ATTEMPT, {number: here, receiver: there})

    def _credited(self, _: Peer, credits: Sequence[tuple[ChannelId, int]]) -> None:
        with self._changed:
            self._outstanding_bytes -= sum(size_bytes for _, size_bytes in credits)
            self._changed.notify()

    def send(self, payload: Payload) -> None:
        """Send a message when there is credit."""
        with self._changed:
            while self._outstanding_bytes >= CREDIT_BYTES:
                self._changed.wait()
            self._outstanding_bytes += len(payload)
        elements: Any = payload
        message = Message(ATTEMPT, self.id, self._number, elements, len(payload))
        self._number += 1
        self._connections.send(self._receiver, message, DataKind.ELEMENTS)


class Sender:
    """Sends to the receiver from every peer in turn."""

    def __init__(self, there: Address, on: ListenOn | None, peers: int, is_columns: bool) -> None:
        self._is_columns = is_columns
        self._channels = [Channel(number, there, on, peers) for number in range(peers)]

    def run(self, size: int, count: int, rate: float) -> None:
        """Send messages."""
        payload = _columns(size) if self._is_columns else _bytes(size)
        started_s = time.perf_counter()
        for number in range(count):
            if rate:
                time.sleep(max(0.0, started_s + number / rate - time.perf_counter()))
            self._channels[number % len(self._channels)].send(payload())


def _bytes(size: int) -> Callable[[], Payload]:
    data = b"x" * size
    return lambda: data


def _columns(size: int) -> Callable[[], Payload]:
    rows = size // (8 * COLUMNS)
    numbers = pa.record_batch({f"c{each}": np.arange(rows) for each in range(COLUMNS)})
    return lambda: encode_message([Batch(numbers)])


def main() -> None:
    """Be one end."""
    keep_freed_memory()
    gc.set_threshold(*GC_THRESHOLDS)
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    role, where, peers, content = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
    on = listen_on(where)
    if role == "receiver":
        receiver = Receiver(on, peers, content == "columns")
        say(asdict(receiver.address))
        serve(receiver)
    else:
        sender = Sender(Address(**json.loads(input())), on, peers, content == "columns")
        say("ready")
        serve(sender)


if __name__ == "__main__":
    main()
