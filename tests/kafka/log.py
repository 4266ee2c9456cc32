"""What the log of a partition says, marks of transactions included.

Tansu does not tell readers which transactions were aborted, though its log has their marks. So this reads
the log itself, and leaves out what is not committed, as clients do where the broker names the aborted ones.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass

_TRANSACTIONAL, _CONTROL = 0x10, 0x20
_ABORT, _COMMIT = 0, 1
_WAIT_MS = 50


@dataclass
class LogBatch:
    producer: tuple[int, int]
    is_transactional: bool
    mark: int | None
    values: list[bytes]


def committed_values(servers: str, topic: str, partitions: int = 1) -> list[bytes]:
    """Values of records that are in no transaction, or in one whose commit the log shows."""
    return [value for number in range(partitions) for value in _committed(servers, topic, number)]


def open_transactions(servers: str, topic: str, partitions: int = 1) -> int:
    """Transactions that have records, and no end."""
    count = 0
    for number in range(partitions):
        waiting: set[tuple[int, int]] = set()
        for batch in read_log(servers, topic, number):
            if batch.mark is not None:
                waiting = {each for each in waiting if each[0] != batch.producer[0]}
            elif batch.is_transactional:
                waiting.add(batch.producer)
        count += len(waiting)
    return count


def _committed(servers: str, topic: str, partition: int) -> list[bytes]:
    waiting: dict[int, list[bytes]] = {}
    committed: list[bytes] = []
    for batch in read_log(servers, topic, partition):
        if batch.mark is not None:
            values = waiting.pop(batch.producer[0], [])
            committed += values if batch.mark == _COMMIT else []
        elif batch.is_transactional:
            waiting.setdefault(batch.producer[0], []).extend(batch.values)
        else:
            committed += batch.values
    return committed


def read_log(servers: str, topic: str, partition: int) -> Iterator[LogBatch]:
    """The batches of a partition, up to its end."""
    host, _, port = servers.partition(":")
    with socket.create_connection((host, int(port)), 30) as connection:
        offset = 0
        while True:
            records = _fetch(connection, topic, partition, offset)
            if not records:
                return
            at = 0
            while at + 12 <= len(records):
                first, length = struct.unpack_from(">qi", records, at)
                if at + 12 + length > len(records):
                    break
                batch, last = _batch(records[at : at + 12 + length])
                if first >= offset:
                    yield batch
                offset = first + last + 1
                at += 12 + length


def _fetch(connection: socket.socket, topic: str, partition: int, offset: int) -> bytes:
    """Fetch, version 4, of what is there, committed or not."""
    name = topic.encode()
    body = struct.pack(">iiiib", -1, _WAIT_MS, 1, 1 << 24, 0)
    body += struct.pack(">ih", 1, len(name)) + name
    body += struct.pack(">iiqi", 1, partition, offset, 1 << 24)
    message = struct.pack(">hhih", 1, 4, 1, -1) + body
    connection.sendall(struct.pack(">i", len(message)) + message)
    answer = _received(connection, struct.unpack(">i", _received(connection, 4))[0])
    if struct.unpack_from(">i", answer, 8)[0] == 0:
        return b""
    # correlation, throttle, topics, name, partitions, then of the one: index, error, three offsets.
    at = 4 + 4 + 4 + 2 + len(name) + 4 + 4
    (error,) = struct.unpack_from(">h", answer, at)
    assert error in (0, 1), error
    at += 2 + 8 + 8
    (aborted,) = struct.unpack_from(">i", answer, at)
    at += 4 + 16 * max(0, aborted)
    (size,) = struct.unpack_from(">i", answer, at)
    return answer[at + 4 : at + 4 + max(0, size)]


def _received(connection: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        part = connection.recv(count - len(data))
        assert part, "the broker closed the connection"
        data += part
    return bytes(data)


def _batch(data: bytes) -> tuple[LogBatch, int]:
    attributes, last = struct.unpack_from(">hi", data, 21)
    producer_id, epoch = struct.unpack_from(">qh", data, 43)
    (count,) = struct.unpack_from(">i", data, 57)
    assert attributes & 7 == 0, "compressed"
    at, keys, values = 61, [], []
    for _ in range(count):
        length, at = _varint(data, at)
        end = at + length
        at += 1
        for _ in range(2):
            _, at = _varint(data, at)
        fields = []
        for _ in range(2):
            size, at = _varint(data, at)
            fields.append(data[at : at + max(0, size)])
            at += max(0, size)
        keys.append(fields[0])
        values.append(fields[1])
        at = end
    mark = struct.unpack(">hh", keys[0])[1] if attributes & _CONTROL else None
    return LogBatch((producer_id, epoch), bool(attributes & _TRANSACTIONAL), mark, values), last


def _varint(data: bytes, at: int) -> tuple[int, int]:
    shift = value = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
