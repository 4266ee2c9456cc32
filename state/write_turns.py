"""Turns between a task's loop and the thread that writes its state to LMDB.

py-lmdb gives up the interpreter lock for every entry it writes. Beside a busy loop each time costs up to
a switch interval: measured, 73 s for a million entries, against 0.4 s when nobody else wants the lock. So
the writer announces a piece of some milliseconds, and the loop lets it pass between two batches.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

# Longer than a batch usually takes.
_PATIENCE_S = 0.05
# A loop that let so many pieces go by without a word has nothing to do, and so is in nobody's way.
_SILENCES = 3


class WriteTurns:
    """Whose turn it is. One loop, one writer."""

    def __init__(self) -> None:
        self._is_writing = False
        self._stands_aside = threading.Event()
        self._silences = _SILENCES
        self._loop_thread = 0

    def may_process(self) -> bool:
        """Whether the loop may take its next batch. Asked by the loop before each."""
        self._silences = 0
        if not self._is_writing:
            self._loop_thread = threading.get_ident()
            return True
        self._stands_aside.set()
        return False

    @contextmanager
    def writing(self) -> Iterator[None]:
        """The writer's turn; begins when the loop stands aside, or has not been heard of."""
        self._stands_aside.clear()
        self._is_writing = True
        try:
            is_alone = self._silences >= _SILENCES or threading.get_ident() == self._loop_thread
            if not is_alone and not self._stands_aside.wait(_PATIENCE_S):
                self._silences += 1
            yield
        finally:
            self._is_writing = False
