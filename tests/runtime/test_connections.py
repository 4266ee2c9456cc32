"""Direct connections on real sockets: lost, opened again, refused to strangers."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Iterator

import pytest
from tidegate.protocol.channels.frame_reader import FrameReader
from tidegate.protocol.channels.frames import (
    NONCE_BYTES,
    DataKind,
    Frame,
    FrameKind,
    LargePayload,
    Refusal,
    data_of,
    refusal_frame,
)
from tidegate.protocol.channels.link import Listener
from tidegate.protocol.elements import Message
from tidegate.protocol.ids import Attempt
from tidegate.runtime.network.listeners import Address, ListenOn

from .processes import CHANNEL, DEADLINE_S, TIMEOUT_MS, Process, addresses, begin, connect, message


@pytest.fixture
def both() -> Iterator[tuple[Process, Process]]:
    processes = Process(), Process()
    yield processes
    for process in processes:
        process.connections.close()


@pytest.mark.parametrize("is_tcp", [False, True])
@pytest.mark.parametrize("sender", [0, 1])
def test_messages_arrive_in_order_whichever_end_dials(
    both: tuple[Process, Process], is_tcp: bool, sender: int
) -> None:
    begin(both)
    both[sender].connections.send(1 - sender, message(0, b"before there is a connection"), DataKind.ELEMENTS)
    connect(both, is_tcp)
    for number in range(1, 200):
        both[sender].connections.send(1 - sender, message(number, b"y" * number * 1_000), DataKind.ELEMENTS)
    assert both[1 - sender].wait_for(200) == list(range(200))
    assert both[1 - sender].got[0][1] == b"before there is a connection"
    last = both[1 - sender].got[199][1]
    assert isinstance(last, LargePayload)
    assert last.data == b"y" * 199_000


def test_lost_connections_are_opened_again_and_nothing_is_lost_or_doubled(
    both: tuple[Process, Process],
) -> None:
    begin(both)
    connect(both)
    for number in range(2_000):
        both[0].connections.send(1, message(number, b"z" * 5_000), DataKind.ELEMENTS)
        if number % 200 == 100:
            both[number // 200 % 2].cut(1 - number // 200 % 2)
    assert both[1].wait_for(2_000) == list(range(2_000))
    assert not both[0].failed


def test_buffers_are_whole_after_connections_were_lost(both: tuple[Process, Process]) -> None:
    begin(both)
    connect(both)
    sent = [
        LargePayload(
            b"%d" % number, (memoryview(bytes([number]) * 150_000), memoryview(bytes([number]) * size))
        )
        for number, size in enumerate([0, 1, 70_000, 16_384] * 25)
    ]
    for number, payload in enumerate(sent):
        both[0].connections.send(
            1, Message(Attempt(1), CHANNEL, number, payload, len(payload)), DataKind.ELEMENTS
        )
        if number % 20 == 10:
            both[number // 20 % 2].cut(1 - number // 20 % 2)
    assert both[1].wait_for(100) == list(range(100))
    assert [payload for _, payload in both[1].got] == sent


def test_a_new_attempt_hears_nothing_of_the_one_before(both: tuple[Process, Process]) -> None:
    begin(both)
    connect(both)
    both[0].connections.send(1, message(0), DataKind.ELEMENTS)
    both[1].wait_for(1)
    begin(both, attempt=2)
    connect(both, attempt=2)
    both[0].connections.send(1, message(1, attempt=1), DataKind.ELEMENTS)
    both[0].connections.send(1, message(0, b"new", attempt=2), DataKind.ELEMENTS)
    both[1].wait_for(2)
    assert both[1].got == [(0, b"x"), (0, b"new")]


def test_a_process_that_cannot_be_reached_fails_the_link_with_the_address_and_the_cause(
    both: tuple[Process, Process],
) -> None:
    begin(both, timeout_ms=1_000)
    known = addresses(both, is_tcp=True)
    both[1].connections.close()
    both[0].connections.connect(Attempt(1), known)
    cause = both[0].wait_for_failure()
    assert f"127.0.0.1:{known[1].port}" in cause
    assert "refused" in cause


def test_a_process_that_never_hears_the_addresses_of_the_others_fails_what_it_sends(
    both: tuple[Process, Process],
) -> None:
    begin(both, timeout_ms=1_000)
    both[0].connections.send(1, message(0), DataKind.ELEMENTS)
    assert both[0].wait_for_failure() == "no connection was opened"


def test_a_process_with_another_secret_is_not_let_in(both: tuple[Process, Process]) -> None:
    # The other end must not give up first: it would then refuse with another cause.
    for number, (process, timeout_ms) in enumerate(zip(both, (1_000, 60_000), strict=True)):
        process.connections.begin(Attempt(1), number, secrets.token_bytes(32), [1 - number], timeout_ms)
    connect(both)
    both[0].connections.send(1, message(0), DataKind.ELEMENTS)
    assert "did not prove that it knows the secret" in both[0].wait_for_failure()
    assert both[1].got == []


GARBAGE = [
    b"GET / HTTP/1.1\r\nHost: tidegate\r\n\r\n",
    bytes(1_000),
    (1 << 30).to_bytes(8, "big") + bytes([FrameKind.HELLO]),
    (10).to_bytes(8, "big") + bytes([FrameKind.DATA]) + bytes(10),
    refusal_frame(Refusal.SECRET).encoded(),
]


@pytest.mark.slow
@pytest.mark.parametrize("garbage", GARBAGE, ids=["http", "zeros", "gigabyte", "data", "refusal"])
def test_a_stranger_is_disconnected_and_changes_nothing(
    both: tuple[Process, Process], garbage: bytes
) -> None:
    begin(both)
    connect(both, is_tcp=True)
    port = addresses(both, is_tcp=True)[1].port
    with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S) as stranger:
        stranger.sendall(garbage)
        while stranger.recv(1_000):
            pass
    both[0].connections.send(1, message(0), DataKind.ELEMENTS)
    assert both[1].wait_for(1) == [0]
    assert not both[0].failed
    assert not both[1].failed


def frames_of(connection: socket.socket, reader: FrameReader) -> Iterator[Frame]:
    """What comes on a connection, frame by frame."""
    while count := connection.recv_into(reader.buffers()[0]):
        reader.received(count)
        while (frame := reader.next_frame()) is not None:
            yield frame


def accepted(server: socket.socket, secret: bytes) -> tuple[socket.socket, Iterator[Frame]]:
    """The next connection, after its handshake, and the frames that follow."""
    connection, reader = server.accept()[0], FrameReader()
    connection.settimeout(DEADLINE_S)
    listener = Listener(lambda link: secret, lambda link: 0, bytes(NONCE_BYTES))
    frames = frames_of(connection, reader)
    for frame in frames:
        answer = listener.answer(frame)
        if isinstance(answer, int):
            break
        connection.sendall(answer.encoded())
    reader.is_proved = True
    return connection, frames


def test_a_refusal_of_a_connection_that_this_end_has_proved_is_answered_with_a_new_one() -> None:
    process, secret = Process(), bytes(32)
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(DEADLINE_S)
        process.connections.begin(Attempt(1), 0, secret, [1], TIMEOUT_MS)
        mine = process.connections.address("here", ListenOn("127.0.0.1"))
        theirs = Address("there", "", "127.0.0.1", server.getsockname()[1])
        process.connections.connect(Attempt(1), {0: mine, 1: theirs})
        process.connections.send(1, message(7), DataKind.ELEMENTS)
        busy, _ = accepted(server, secret)
        busy.sendall(refusal_frame(Refusal.BUSY).encoded())
        busy.close()
        resumed, frames = accepted(server, secret)
        assert data_of(next(frames))[2] == 7
        resumed.close()
    assert not process.failed
    process.connections.close()
