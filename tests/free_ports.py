"""TCP ports that no process uses."""

from __future__ import annotations

import socket


def free_ports(count: int) -> int:
    """The first of some consecutive ports of loopback that are free now."""
    for _ in range(1_000):
        taken = [socket.create_server(("127.0.0.1", 0))]
        first = taken[0].getsockname()[1]
        try:
            taken += [socket.create_server(("127.0.0.1", port)) for port in range(first + 1, first + count)]
        except (OSError, OverflowError):
            continue
        finally:
            for each in taken:
                each.close()
        return int(first)
    raise AssertionError("no free ports")
