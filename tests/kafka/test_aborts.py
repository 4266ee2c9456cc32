"""An aborted transaction is aborted as a whole, also when its records travel slowly."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator

from tidegate.connectors.kafka.client import KafkaProperties
from tidegate.connectors.kafka.producer import TransactionalProducer
from tidegate.connectors.kafka.serialization import KafkaMessage

from ..free_ports import free_port
from .broker import WAIT_S, Broker
from .log import open_transactions

_PRODUCE, _END_TRANSACTION = 0, 26
_HOLD_S = 1.0
"""Shorter than an abort waits for records in flight."""


class SlowProduce:
    """Passes on what clients and a broker send, but holds records until a transaction has ended.

    If none ends, it passes them on after a second.
    """

    def __init__(self, broker: Broker, listening: socket.socket) -> None:
        self.is_holding = threading.Event()
        self.is_through = threading.Event()
        self._has_ended = threading.Event()
        self._broker = broker
        threading.Thread(target=self._accept, args=(listening,), daemon=True).start()

    def _accept(self, listening: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                client = listening.accept()[0]
                server = socket.create_connection(("127.0.0.1", self._broker.port), WAIT_S)
                asked: dict[bytes, int] = {}
                threading.Thread(target=self._ask, args=(client, server, asked), daemon=True).start()
                threading.Thread(target=self._answer, args=(server, client, asked), daemon=True).start()

    def _ask(self, client: socket.socket, server: socket.socket, asked: dict[bytes, int]) -> None:
        for frame in frames(client):
            (kind,) = struct.unpack_from(">h", frame)
            asked[frame[4:8]] = kind
            if kind == _PRODUCE:
                self.is_holding.set()
                self._has_ended.wait(_HOLD_S)
            pass_on(server, frame)
        server.close()

    def _answer(self, server: socket.socket, client: socket.socket, asked: dict[bytes, int]) -> None:
        for frame in frames(server):
            kind = asked.pop(frame[:4], None)
            pass_on(client, frame)
            if kind == _PRODUCE:
                self.is_through.set()
            if kind == _END_TRANSACTION:
                self._has_ended.set()
        client.close()


def frames(connection: socket.socket) -> Iterator[bytes]:
    """Requests or answers, without their lengths."""
    with contextlib.suppress(OSError), connection.makefile("rb") as stream:
        while len(length := stream.read(4)) == 4:
            yield stream.read(struct.unpack(">i", length)[0])


def pass_on(connection: socket.socket, frame: bytes) -> None:
    with contextlib.suppress(OSError):
        connection.sendall(struct.pack(">i", len(frame)) + frame)


def test_an_abort_waits_for_the_records_in_flight() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        servers = f"127.0.0.1:{listening.getsockname()[1]}"
        broker = Broker(free_port(), advertised=servers)
        try:
            slow = SlowProduce(broker, listening)
            topic = broker.topic()
            properties = KafkaProperties({"bootstrap.servers": servers})
            producer = TransactionalProducer(properties, "the test", "late")
            producer.begin()
            producer.send([KafkaMessage(topic, value=b"late")])
            assert slow.is_holding.wait(WAIT_S)
            producer.abort()
            assert slow.is_through.wait(WAIT_S)
            assert open_transactions(f"127.0.0.1:{broker.port}", topic) == 0
        finally:
            broker.stop()
