"""Virtual time and a seeded order of events: what makes a run of the simulation repeatable."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable

MILLISECOND = 1_000_000


class SimulatedScheduler:
    """A queue of future events. Whatever happens, happens because an event of it ran.

    Args:
        seed: Decides every delay and every choice.
        keeps_log: Whether to record what happened, for people.
    """

    def __init__(self, seed: int, keeps_log: bool = False) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.now_ns = 1_000_000 * MILLISECOND
        self.events_run = 0
        self.log: list[str] | None = [] if keeps_log else None
        self._started_ns = self.now_ns
        self._queue: list[tuple[int, float, int, Callable[[], None]]] = []
        self._count = 0

    def after(self, delay_ns: int, action: Callable[[], None]) -> None:
        """Run `action` in `delay_ns`; events of one moment run in random order."""
        self._count += 1
        entry = (self.now_ns + max(0, delay_ns), self.random.random(), self._count, action)
        heapq.heappush(self._queue, entry)

    def soon(self, at_most_ns: int, action: Callable[[], None]) -> None:
        """Run `action` after a random delay of at most `at_most_ns`."""
        self.after(int(self.random.random() * at_most_ns), action)

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self.random.random() < probability

    def run_next(self) -> bool:
        """Run the next event; false if there is none."""
        if not self._queue:
            return False
        time_ns, _, _, action = heapq.heappop(self._queue)
        self.now_ns = max(self.now_ns, time_ns)
        self.events_run += 1
        action()
        return True

    @property
    def elapsed_ms(self) -> int:
        """Virtual time since the start."""
        return (self.now_ns - self._started_ns) // MILLISECOND

    def note(self, text: str) -> None:
        """Record what happened, if anybody wants to read it."""
        if self.log is not None:
            elapsed_ms = (self.now_ns - self._started_ns) / MILLISECOND
            self.log.append(f"{elapsed_ms:10.3f} ms  {text}")
