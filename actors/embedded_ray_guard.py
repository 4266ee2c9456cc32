"""Ends the processes of an embedded Ray when its driver is gone, however that ended.

Run as a program of its own, next to the driver: `python embedded_ray_guard.py DRIVER_PID MARK`. Ray's own
processes notice the death of a driver after seconds, and some after minutes. By then the program may have
been started again. What belongs to the Ray has `MARK` in its environment, which every process inherits from
the one that started it.

Standard library only, and no imports of the package: it starts in milliseconds.
"""

import contextlib
import os
import select
import signal
import sys

ROUNDS = 100
"""A process may start another one while it is being ended; so it is looked for again until none is left."""


def marked_processes(mark: bytes) -> "list[tuple[int, int]]":
    """The processes with `mark` in their environment, as (process id, descriptor)."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            process = os.pidfd_open(int(name))
        except OSError:
            continue
        # After it was opened: from here on the descriptor means this process, also if its id is used again.
        if has_mark(name, mark):
            found.append((int(name), process))
        else:
            os.close(process)
    return found


def has_mark(name: str, mark: bytes) -> bool:
    """Whether a process has `mark` among the variables of its environment."""
    try:
        with open(f"/proc/{name}/environ", "rb") as file:
            return mark in file.read().split(b"\0")
    except OSError:
        return False


def end_marked(mark: bytes) -> None:
    """Kill all processes with `mark` in their environment, and wait for their end."""
    for _ in range(ROUNDS):
        found = marked_processes(mark)
        for _, process in found:
            # It may have ended.
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(process, signal.SIGKILL)
        for _, process in found:
            select.select([process], [], [], 1.0)
            os.close(process)
        if not found:
            return


def main(driver_pid: int, mark: bytes) -> None:
    """Wait for the end of the driver, which has started this process, and end what it leaves behind."""
    try:
        driver = os.pidfd_open(driver_pid)
    except OSError:
        driver = -1  # it has ended
    # Only now: while it is the parent, its process id has not been used again.
    if driver >= 0 and os.getppid() == driver_pid:
        select.select([driver], [], [])
    end_marked(mark)


if __name__ == "__main__":
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    main(int(sys.argv[1]), sys.argv[2].encode())
