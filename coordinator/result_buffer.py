"""Collected records on their way from the tasks to the driver."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import replace
from itertools import count

from ..protocol.task_events import ResultsCollected


class ResultBuffer:
    """Keeps results until the driver has them.

    Its size is bounded by the tasks: each stops offering when the driver is behind. A result that
    carries a key is delivered once, so that a repeated commit after a restart is not seen twice.

    Attributes:
        arrived: Set while results wait, and for good once the job is over: what a driver waits for.
    """

    def __init__(self) -> None:
        self._waiting: dict[str | int, ResultsCollected] = {}
        self._numbers = count()
        self._received: set[str] = set()
        self._is_closed = False
        self.arrived = threading.Event()

    def add(self, event: ResultsCollected) -> bool:
        """Keep results; false if the driver has them already, so that their task may go on."""
        if event.key in self._received:
            return False
        key = event.key or next(self._numbers)
        known = self._waiting.get(key)
        # A repeated offer comes from a later attempt, which waits for the credit in place of the earlier.
        self._waiting[key] = event if known is None else replace(known, attempt=event.attempt)
        self.arrived.set()
        return True

    def close(self) -> None:
        """The job is over: nobody waits for results from now on."""
        self._is_closed = True
        self.arrived.set()

    def take(self) -> list[ResultsCollected]:
        """Everything that waits, oldest first; it counts as received."""
        return self._forget(list(self._waiting))

    def hand_out(self, confirmed: Iterable[str]) -> tuple[list[ResultsCollected], list[ResultsCollected]]:
        """What to send to a driver that may not get it, and what it is now known to have.

        Args:
            confirmed: Keys that the driver has received. Results without a key cannot be confirmed and
                count as received at once.
        """
        received = self._forget([key for key in confirmed if key in self._waiting])
        sent = self.waiting
        return sent, received + self._forget([key for key in self._waiting if isinstance(key, int)])

    @property
    def waiting(self) -> list[ResultsCollected]:
        """Everything that waits, oldest first; it stays."""
        return list(self._waiting.values())

    def _forget(self, keys: Iterable[str | int]) -> list[ResultsCollected]:
        events = [self._waiting.pop(key) for key in keys]
        self._received.update(event.key for event in events if event.key)
        if not (self._waiting or self._is_closed):
            self.arrived.clear()
        return events

    def __len__(self) -> int:
        return len(self._waiting)
