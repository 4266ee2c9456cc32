"""An embedded Ray for the demo, and the proof that it left no process behind."""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

END_TIMEOUT_S = 20.0


@contextmanager
def output_to(log: Path) -> Iterator[None]:
    """Send what this process and the libraries in it print to a file.

    By file descriptor: Ray's native code knows nothing of `sys.stdout`.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    sys.stdout.flush()
    sys.stderr.flush()
    saved = [(number, os.dup(number)) for number in (1, 2)]
    with log.open("ab") as file:
        for number, _ in saved:
            os.dup2(file.fileno(), number)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, copy in saved:
            os.dup2(copy, number)
            os.close(copy)


@contextmanager
def embedded_ray(slots: int) -> Iterator[Path]:
    """A Ray of our own; its log directory. What its processes print goes there, not to the terminal.

    Raises:
        RuntimeError: At the end, if a process that the demo started is still there.
    """
    import ray

    try:
        with interrupts_deferred():
            context = ray.init(
                address="local",
                num_cpus=max(slots, os.cpu_count() or 1),
                include_dashboard=False,
                log_to_driver=False,
                logging_level=logging.ERROR,
                _system_config={"worker_niceness": 0},
            )
        yield Path(context["session_dir"]) / "logs"
    finally:
        with interrupts_deferred():
            started = descendants()
            ray.shutdown()
            left = wait_for_end(started)
    if left:
        raise RuntimeError(f"these processes of the demo did not end: {sorted(left)}")


@contextmanager
def interrupts_deferred() -> Iterator[None]:
    """Ctrl-C takes effect at the end: a Ray that is half started or half stopped leaves processes."""
    received: list[int] = []
    previous = signal.signal(signal.SIGINT, lambda number, _: received.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
    if received:
        raise KeyboardInterrupt


def descendants() -> set[tuple[int, str]]:
    """All processes below this one, each with its start time, since ids are used again."""
    children: dict[int, list[tuple[int, str]]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            parent, identity = _parent_and_identity(int(entry.name))
            if parent is not None:
                children.setdefault(parent, []).append(identity)
    found: set[tuple[int, str]] = set()
    waiting = [os.getpid()]
    while waiting:
        for identity in children.get(waiting.pop(), []):
            found.add(identity)
            waiting.append(identity[0])
    return found


def wait_for_end(processes: set[tuple[int, str]]) -> set[int]:
    """Wait until they have ended; the ids of those that have not in time."""
    deadline = time.monotonic() + END_TIMEOUT_S
    while True:
        alive = {pid for pid, start in processes if _parent_and_identity(pid)[1] == (pid, start)}
        if not alive or time.monotonic() > deadline:
            return alive
        time.sleep(0.1)


def _parent_and_identity(pid: int) -> tuple[int | None, tuple[int, str]]:
    try:
        # The second field, the program's name in brackets, may itself hold spaces and brackets.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None, (pid, "")
    state, parent, start = fields[0], int(fields[1]), fields[19]
    # A zombie has ended; only its parent has not asked yet.
    return (None, (pid, "")) if state == "Z" else (parent, (pid, start))
