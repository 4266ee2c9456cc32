"""Cuts the direct connections of a task process from outside, without its help."""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
from collections.abc import Iterator
from pathlib import Path

_PIDFD_GETFD = 438
"""The number of the system call, the same on every architecture; Python has no function for it."""
_NAME = b"\0tidegate-"
"""How the name of each listening socket begins, and so that of one end of each connection."""
_PTRACE_SCOPE = Path("/proc/sys/kernel/yama/ptrace_scope")


def can_cut() -> bool:
    """Whether this user may take the sockets of other processes of its own."""
    return os.geteuid() == 0 or not _PTRACE_SCOPE.exists() or _PTRACE_SCOPE.read_text().strip() == "0"


def cut_connections(pid: int) -> int:
    """Shut down every direct connection of a process; how many there were.

    Both ends see what they would see of a lost connection, and neither process ends.
    """
    count = 0
    with contextlib.suppress(ProcessLookupError), _process(pid) as process:
        for number in _descriptors(pid):
            with contextlib.suppress(OSError), _taken(process, number) as connection:
                if connection.family is socket.AF_UNIX and _is_direct(connection):
                    connection.shutdown(socket.SHUT_RDWR)
                    count += 1
    return count


def _descriptors(pid: int) -> list[int]:
    """The numbers of a process's sockets."""
    found = []
    with contextlib.suppress(FileNotFoundError):
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                if os.readlink(entry).startswith("socket:"):
                    found.append(int(entry.name))
    return found


@contextlib.contextmanager
def _process(pid: int) -> Iterator[int]:
    process = os.pidfd_open(pid)
    try:
        yield process
    finally:
        os.close(process)


def _taken(process: int, number: int) -> socket.socket:
    """A process's socket, which stays open there."""
    libc = ctypes.CDLL(None, use_errno=True)
    taken = libc.syscall(_PIDFD_GETFD, process, number, 0)
    if taken < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return socket.socket(fileno=taken)


def _is_direct(connection: socket.socket) -> bool:
    # A socket that listens has a name too, but no other end.
    with contextlib.suppress(OSError):
        ends = (connection.getsockname(), connection.getpeername())
        return any(isinstance(end, bytes) and end.startswith(_NAME) for end in ends)
    return False
