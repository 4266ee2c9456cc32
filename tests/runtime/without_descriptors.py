"""A process that has used up its file descriptors: `python -m tests.runtime.without_descriptors`."""

from __future__ import annotations

import os
import resource
import socket
import threading
import time

import pytest
from tidegate.protocol.channels.frames import DataKind
from tidegate.protocol.ids import Attempt
from tidegate.runtime.network.listeners import Listeners

from .processes import DEADLINE_S, Process, addresses, begin, message

LIMIT = 100
WATCHED_S = 1.5


def main() -> None:
    both = Process(), Process()
    begin(both, timeout_ms=1_000)
    known = addresses(both, is_tcp=True)
    strangers = [socket.socket() for _ in range(3)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (LIMIT, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    used = _use_all()
    for stranger in strangers:
        stranger.connect(("127.0.0.1", known[1].port))
    _assert_idle()
    _assert_cannot_listen()
    both[0].connections.connect(Attempt(1), known)
    assert "too many open files. Raise the limit (ulimit -n)" in both[0].wait_for_failure()
    for descriptor in used:
        os.close(descriptor)
    begin(both, attempt=2, timeout_ms=60_000)
    for process in both:
        process.connections.connect(Attempt(2), known)
    both[0].connections.send(1, message(0, attempt=2), DataKind.ELEMENTS)
    assert both[1].wait_for(1) == [0]
    for stranger in strangers:
        stranger.settimeout(DEADLINE_S)
        stranger.sendall(bytes(1_000))
        assert _is_closed(stranger), "accepted later, and closed"
    for process in both:
        assert all(link.attempt == 1 for link, _ in process.failed), process.failed
        process.connections.close()
    assert threading.active_count() == 1


def _use_all() -> list[int]:
    used = []
    try:
        while True:
            used.append(os.dup(0))
    except OSError:
        return used


def _assert_idle() -> None:
    before_s, started_s = time.process_time(), time.monotonic()
    threading.Event().wait(WATCHED_S)
    share = (time.process_time() - before_s) / (time.monotonic() - started_s)
    assert share < 0.05, f"used {share:.1%} of a core while connections wait to be accepted"


def _assert_cannot_listen() -> None:
    listeners = Listeners(lambda _: None)
    with pytest.raises(OSError, match=r"Raise the limit \(ulimit -n\)"):
        listeners.address("node", None)


def _is_closed(connection: socket.socket) -> bool:
    try:
        return connection.recv(1_000) == b""
    except ConnectionResetError:
        return True


if __name__ == "__main__":
    main()
