"""TCP ports that no process uses."""

from __future__ import annotations

import secrets
import socket
from contextlib import ExitStack

FIRST, LAST = 20_000, 32_000
"""Systems give ports above to connections and to listeners without a port of their own, Ray gives ports below
to its workers. So a port that is free now is still free when a test uses it."""


def free_ports(count: int) -> int:
    """The first of some consecutive ports of loopback that are free."""
    for _ in range(1_000):
        first = FIRST + secrets.randbelow(LAST - FIRST - count)
        try:
            with ExitStack() as stack:
                for port in range(first, first + count):
                    stack.enter_context(socket.create_server(("127.0.0.1", port)))
        except OSError:
            continue
        return first
    raise AssertionError("no free ports")


def free_port() -> int:
    """A port of loopback that is free."""
    return free_ports(1)
