"""TLS over a socket that takes little at once: the bytes arrive as they were sent."""

from __future__ import annotations

import itertools
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tidegate.runtime.network.tls import TlsSocket
from tidegate.runtime.network.tls_files import TlsFiles, TlsIdentities

from ..certificates import Authority

SMALL_BYTES = 4_096


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    return Authority(Path(tmp_path_factory.mktemp("tls"))).files("node")


def pair(files: TlsFiles) -> tuple[TlsSocket, TlsSocket]:
    """Two ends that have verified each other."""
    identity, ends = TlsIdentities(files).current(), socket.socketpair()
    for end in ends:
        end.setblocking(False)
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SMALL_BYTES)
    both = TlsSocket(ends[0], identity, is_server=False), TlsSocket(ends[1], identity, is_server=True)
    for _ in range(10):
        established = [end.establish() for end in both]
        if all(established):
            return both
    raise AssertionError("no handshake")


def received(end: TlsSocket, room: int) -> Iterator[bytes]:
    """What arrives in buffers of this size, until there is nothing more."""
    buffer = memoryview(bytearray(room))
    while True:
        try:
            count = end.recv_into(buffer)
        except BlockingIOError:
            return
        yield bytes(buffer[:count])


def sent(end: TlsSocket, left: bytes, cuts: list[int]) -> bytes:
    """Offer pieces of what is left; returns what was not taken."""
    pieces = [left[start:stop] for start, stop in itertools.pairwise(itertools.accumulate(cuts, initial=0))]
    try:
        return left[end.sendmsg(pieces) :]
    except BlockingIOError:
        return left


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(
    st.lists(st.sampled_from([0, 1, 45, 5_000, 16_384, 16_385, 300_000]), min_size=1, max_size=5),
    st.sampled_from([100, 4_096, 65_536]),
    st.integers(0, 2),
)
def test_what_is_sent_in_pieces_arrives_whole(
    files: TlsFiles, cuts: list[int], room: int, reads_later: int
) -> None:
    sender, receiver = pair(files)
    try:
        data = bytes(index * 7 % 251 for index in range(250)) * (sum(cuts) // 250 + 1) + b"end"
        left, arrived = data, b""
        for turn in range(20_000):
            left = sent(sender, left, [*cuts, 1])
            if turn % 3 >= reads_later:
                arrived += b"".join(received(receiver, room))
            if not left and len(arrived) >= len(data):
                break
        assert arrived == data
        assert not receiver.has_more
    finally:
        sender.close()
        receiver.close()


def test_the_end_of_a_connection_is_noticed(files: TlsFiles) -> None:
    sender, receiver = pair(files)
    assert sender.sendmsg([b"last", b"words"]) == 9
    sender.close()
    assert list(received(receiver, 100)) == []  # The end of the handshake.
    assert receiver.recv_into(memoryview(bytearray(100))) == 9
    assert receiver.recv_into(memoryview(bytearray(100))) == 0
    receiver.close()
