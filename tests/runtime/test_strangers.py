"""Connections from processes that are not of the job, and a process that can open no more of them."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tidegate.protocol.channels.frame_reader import FrameReader
from tidegate.protocol.channels.frames import (
    DataKind,
    Frame,
    FrameKind,
    Hello,
    Refusal,
    refusal_frame,
    refusal_of,
)
from tidegate.protocol.ids import Attempt
from tidegate.runtime.network.connection_log import INTERVAL_MS, ConnectionLog
from tidegate.runtime.network.handshakes import STRANGERS

from .processes import DEADLINE_S, Process, addresses, begin, connect, message

pytestmark = pytest.mark.slow

Both = tuple[Process, Process]


@pytest.fixture
def both() -> Iterator[Both]:
    processes = Process(), Process()
    begin(processes)
    connect(processes, is_tcp=True)
    yield processes
    for process in processes:
        process.connections.close()


def stranger(both: Both) -> socket.socket:
    """A connection to the second process."""
    return socket.create_connection(("127.0.0.1", addresses(both, is_tcp=True)[1].port), timeout=DEADLINE_S)


def read_to_end(connection: socket.socket) -> bytes:
    received = b""
    try:
        while data := connection.recv(1_000):
            received += data
    except ConnectionResetError:
        pass
    return received


def assert_undisturbed(both: Both) -> None:
    both[0].connections.send(1, message(0), DataKind.ELEMENTS)
    assert both[1].wait_for(1) == [0]
    assert not both[0].failed
    assert not both[1].failed


def test_strangers_that_say_nothing_or_half_a_frame_are_closed_in_time(
    both: Both, caplog: pytest.LogCaptureFixture
) -> None:
    with stranger(both) as silent, stranger(both) as half, caplog.at_level(logging.WARNING):
        half.sendall(Hello(2, 1, 0, 1, bytes(32)).frame().encoded()[:-1])
        assert read_to_end(silent) == read_to_end(half) == b""
    (record,) = caplog.records
    assert "closed a connection from 127.0.0.1:" in record.message
    assert "did not answer the handshake in time. If that is no process of this job, keep" in record.message
    assert_undisturbed(both)


def test_many_strangers_hold_a_bounded_number_of_descriptors_and_no_thread(both: Both) -> None:
    assert_undisturbed(both)
    descriptors, threads = len(os.listdir("/proc/self/fd")), threading.active_count()
    strangers = [stranger(both) for _ in range(STRANGERS + 50)]
    for first in strangers[:50]:
        assert read_to_end(first) == b"", "the oldest are closed for those that come later"
    assert threading.active_count() == threads
    for each in strangers:
        each.close()
    with stranger(both) as last:
        # Handled after the ends of the others.
        last.sendall(bytes(1_000))
        read_to_end(last)
    both[1].connections.close()
    assert len(os.listdir("/proc/self/fd")) < descriptors


def test_a_peer_with_another_version_is_refused_whatever_follows_the_version(both: Both) -> None:
    current = Hello(2, 1, 0, 1, bytes(32)).frame()
    later = Frame(FrameKind.HELLO, bytes(current.body)[:8] + b"\x00\x63" + bytes(100))
    with stranger(both) as connection:
        connection.sendall(later.encoded())
        answer = read_to_end(connection)
    reader = FrameReader()
    reader.buffers()[0][: len(answer)] = answer
    reader.received(len(answer))
    frame = reader.next_frame()
    assert frame is not None
    assert refusal_of(frame) is Refusal.VERSION
    assert_undisturbed(both)


@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        (refusal_frame(Refusal.VERSION).encoded(), "install one Tidegate everywhere"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "a frame of unknown kind"),
        (
            (1 << 30).to_bytes(8, "big") + bytes([FrameKind.CHALLENGE, 0, 0]),
            "a frame CHALLENGE of 1073741824 bytes",
        ),
        (b"", "the other end closed the connection during the handshake"),
    ],
    ids=["version", "http", "gigabyte", "end"],
)
def test_a_stranger_at_the_address_of_a_process_fails_the_link_with_the_cause(
    answer: bytes, cause: str
) -> None:
    both = Process(), Process()
    try:
        begin(both, timeout_ms=1_000)
        known = addresses(both, is_tcp=True)
        both[1].connections.close()
        with socket.create_server(("127.0.0.1", known[1].port)) as listener:
            threading.Thread(target=_answer_all, args=(listener, answer), daemon=True).start()
            both[0].connections.connect(Attempt(1), known)
            failure = both[0].wait_for_failure()
            listener.shutdown(socket.SHUT_RDWR)
        assert cause in failure
        assert f"from 127.0.0.1 to 127.0.0.1:{known[1].port}" in failure
    finally:
        both[0].connections.close()


def _answer_all(listener: socket.socket, answer: bytes) -> None:
    try:
        while True:
            with listener.accept()[0] as connection:
                connection.recv(1_000)
                connection.sendall(answer)
    except OSError:
        return


def test_a_process_without_descriptors_accepts_later_and_uses_no_cpu_meanwhile() -> None:
    """Also: it cannot dial or listen, and says so."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.runtime.without_descriptors"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_warnings_about_the_same_matter_are_counted_and_not_repeated(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = ConnectionLog()
    for now_ms in (0, 1, INTERVAL_MS - 1, INTERVAL_MS):
        log.refused("10.0.0.9:5511", "a frame of unknown kind 72", now_ms)
        log.cannot_accept(OSError(24, "Too many open files"), now_ms)
    assert len(caplog.records) == 4
    assert "10.0.0.9:5511" in caplog.records[0].message
    assert "(2 more were not logged)" in caplog.records[2].message
    assert "Raise the limit (ulimit -n)" in caplog.records[3].message
