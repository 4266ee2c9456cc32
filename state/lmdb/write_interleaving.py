"""Turns between a task's loop and the thread that stores its state in LMDB.

Two threads share the interpreter lock badly when one of them gives it up often: it then waits up to a
switch interval to get it back. py-lmdb gives it up for every entry. Measured: a million entries written
beside a busy loop took 73 s, against 0.4 s alone; and a loop that reads LMDB suffers in the same way from
a thread that encodes. So the storing thread works in pieces of some milliseconds, and the loop lets one
pass between two batches.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

# Longer than a batch usually takes.
_WAIT_S = 0.05
# A loop that did not ask during so many waits is not in the way.
_SILENCES = 3
SMALL_ENTRIES = 1_000
"""Work on this many entries takes a millisecond or two: less than to alternate with the loop."""


class WriteInterleaver:
    """Whose turn it is. One loop, one writer; the loop has at least a batch between two pieces.

    Args:
        wait_s: How long a piece waits for a loop that is in the middle of a batch.
    """

    def __init__(self, wait_s: float = _WAIT_S) -> None:
        self._wait_s = wait_s
        self._is_resting = False
        self._is_writing = False
        self._has_passed = True
        self._stands_aside = threading.Event()
        self._silences = _SILENCES
        self._loop_thread = 0

    def may_process(self) -> bool:
        """Whether the loop may take its next batch. Asked by the loop before each."""
        self._silences = 0
        self._is_resting = False
        if not self._is_writing or not self._has_passed:
            self._has_passed = True
            self._loop_thread = threading.get_ident()
            return True
        self._stands_aside.set()
        return False

    def rest(self) -> None:
        """The loop has nothing to do until it asks again: pieces need not wait for it."""
        self._is_resting = True
        self._stands_aside.set()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """A piece of the writer's; begins when the loop stands aside or rests, or has not asked for long."""
        self._stands_aside.clear()
        self._is_writing = True
        try:
            is_alone = self._silences >= _SILENCES or threading.get_ident() == self._loop_thread
            if not (is_alone or self._is_resting or self._stands_aside.wait(self._wait_s)):
                self._silences += 1
            yield
        finally:
            self._has_passed = False
            self._is_writing = False
