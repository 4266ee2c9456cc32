"""How much of the time that a thread stores a snapshot goes to writing to checkpoint storage."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class _Spent(threading.local):
    ns = 0
    now_ns: Callable[[], int] = staticmethod(time.monotonic_ns)


_spent = _Spent()


@contextmanager
def uploading() -> Iterator[None]:
    """What is done within counts as an upload of the calling thread."""
    started_ns = _spent.now_ns()
    try:
        yield
    finally:
        _spent.ns += _spent.now_ns() - started_ns


def count_uploads_from_now(now_ns: Callable[[], int]) -> None:
    """Begin to count what the calling thread uploads, by this clock."""
    _spent.ns, _spent.now_ns = 0, now_ns


def uploading_ns() -> int:
    """How long the calling thread has been uploading since it began to count, in nanoseconds."""
    return _spent.ns
