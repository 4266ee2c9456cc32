"""Clients that stop in the middle of something do not keep the console from answering others."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from tidegate.console.rest.server import ServerSettings, served

from tests.console.rest.jobs import all_jobs

pytestmark = pytest.mark.slow

MANY = 210


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """A console that waits a second and a half for a client: longer than a thread here waits for its turn."""
    with served(all_jobs(tmp_path), ServerSettings(port=0, stall_timeout_s=1.5)) as found:
        yield found


def connected(address: str, sent: bytes) -> socket.socket:
    parts = urlsplit(address)
    assert parts.hostname is not None
    connection = socket.create_connection((parts.hostname, parts.port or 0), timeout=60)
    connection.sendall(sent)
    return connection


def is_closed(connection: socket.socket) -> bool:
    """Waits until the console closes the connection, and reads what it says until then."""
    try:
        while connection.recv(65_536):
            pass
    except ConnectionResetError:
        pass
    return True


UNFINISHED = [
    b"",
    b"GET /v1/jobs HTTP/1.1\r\nHost: localhost\r\n",
    b"GET /v1/jobs HTTP/1.1\r\nHost: localhost\r\nX:",
]


@pytest.mark.parametrize("sent", UNFINISHED)
def test_headers_that_are_never_finished_hold_up_nobody(address: str, sent: bytes) -> None:
    with contextlib.ExitStack() as stack, httpx.Client(base_url=address, timeout=60) as reader:
        stalled = [stack.enter_context(connected(address, sent)) for _ in range(MANY)]
        # While they are all there, and after they are gone.
        assert reader.get("/v1/jobs").status_code == 200
        assert all(map(is_closed, stalled))
        assert reader.get("/v1/jobs").status_code == 200


def test_the_oldest_unfinished_connections_make_room(tmp_path: Path) -> None:
    settings = ServerSettings(port=0, stall_timeout_s=3_600, max_connections=20)
    with served(all_jobs(tmp_path), settings) as address, contextlib.ExitStack() as stack:
        stalled = [stack.enter_context(connected(address, UNFINISHED[1])) for _ in range(MANY)]
        assert all(map(is_closed, stalled[: MANY - 20]))
        with httpx.Client(base_url=address, timeout=60) as reader:
            assert reader.get("/v1/jobs").status_code == 200


def test_a_second_request_that_is_never_finished_ends_too(address: str) -> None:
    whole = b"GET /v1/jobs HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with connected(address, whole + UNFINISHED[1]) as connection:
        assert is_closed(connection)


def test_a_body_without_end_is_given_up_after_the_answer(address: str) -> None:
    head = b"POST /v1/jobs/x/stop HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    with connected(address, head) as connection, pytest.raises((BrokenPipeError, ConnectionResetError)):
        send_until_refused(connection, b"1\r\nx\r\n")


def test_an_answer_that_is_never_read_is_given_up(address: str) -> None:
    """Requests one after the other, until what is answered fits nowhere any more."""
    parts = urlsplit(address)
    request = b"GET /v1/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        connection.settimeout(60)
        connection.connect((parts.hostname, parts.port))
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            send_until_refused(connection, request)


HEADERS_WITHOUT_END = b"GET /v1/jobs HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 40_000
A_HUGE_BODY = (
    b"POST /v1/jobs/x/stop HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    b"Content-Length: 10000000\r\n\r\n"
)


@pytest.mark.parametrize(
    ("start", "status"), [(HEADERS_WITHOUT_END, 400), (A_HUGE_BODY, 403)], ids=["headers", "body"]
)
def test_a_client_that_is_still_sending_gets_the_answer_to_its_refused_request(
    tmp_path: Path, start: bytes, status: int
) -> None:
    with (
        served(all_jobs(tmp_path), ServerSettings(port=0, stall_timeout_s=60)) as address,
        connected(address, start) as connection,
    ):
        # The console answers before the rest is sent.
        assert connection.recv(1, socket.MSG_PEEK)
        for _ in range(100):
            connection.sendall(b"x" * 10_000)
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        while chunk := connection.recv(65_536):
            answer += chunk
    assert int(answer.split()[1]) == status


def send_until_refused(connection: socket.socket, data: bytes) -> None:
    while True:
        connection.sendall(data)


@pytest.mark.parametrize(
    "header", ["Origin: http://[", "Origin: http://[::1", "Origin: //[", "Content-Length: \xb2", "Host: ["]
)
def test_headers_that_cannot_be_parsed_are_refused(address: str, header: str) -> None:
    request = f"POST /v1/jobs/x/stop HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{header}\r\n\r\n"
    with connected(address, request.encode("latin-1")) as connection:
        answer = b""
        while chunk := connection.recv(65_536):
            answer += chunk
    assert 400 <= int(answer.split()[1]) < 500, answer
