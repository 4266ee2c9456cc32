"""Collected records on their way from the tasks to the driver."""

from __future__ import annotations

from collections import deque

from ..protocol.task_events import ResultsCollected


class ResultBuffer:
    """Keeps results until the driver takes them.

    Its size is bounded by the tasks: each stops offering when the driver is behind. A result that
    carries a key is accepted once, so that a repeated commit after a restart is not seen twice.
    """

    def __init__(self) -> None:
        self._waiting: deque[ResultsCollected] = deque()
        self._seen: set[str] = set()

    def add(self, event: ResultsCollected) -> None:
        """Keep results unless their key was seen before."""
        if event.key:
            if event.key in self._seen:
                return
            self._seen.add(event.key)
        self._waiting.append(event)

    def take(self) -> list[ResultsCollected]:
        """Everything that waits, oldest first."""
        taken = list(self._waiting)
        self._waiting.clear()
        return taken

    def __len__(self) -> int:
        return len(self._waiting)
