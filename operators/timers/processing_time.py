"""Actions that are due at a time of day, on the loop of a task."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count


class TimerHandle:
    """One planned action."""

    __slots__ = ("_action", "timestamp_ms")

    def __init__(self, timestamp_ms: int, action: Callable[[], None]) -> None:
        self.timestamp_ms = timestamp_ms
        self._action: Callable[[], None] | None = action

    @property
    def is_pending(self) -> bool:
        """Whether the action is still to run."""
        return self._action is not None

    def cancel(self) -> None:
        """Do not run the action; nothing happens if it has run."""
        self._action = None

    def run(self) -> None:
        """Run the action, unless it has run or was cancelled."""
        action, self._action = self._action, None
        if action is not None:
            action()


class ProcessingTimeService:
    """Runs actions when their time has come, oldest first; those of one time in the order of the calls.

    It has no thread: the loop of the task asks it what is due, between two elements. All calls come from
    that loop.

    Args:
        now_ms: The clock, in milliseconds since the epoch.
    """

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self.now_ms = now_ms
        self._planned: list[tuple[int, int, TimerHandle]] = []
        self._numbers = count()

    def call_at(self, timestamp_ms: int, action: Callable[[], None]) -> TimerHandle:
        """Run `action` at a time, or at the next opportunity if that is over.

        An action should be short: it runs between two batches, and the task does nothing else meanwhile. What
        it raises fails the task.
        """
        handle = TimerHandle(timestamp_ms, action)
        heapq.heappush(self._planned, (timestamp_ms, next(self._numbers), handle))
        return handle

    def run_due(self) -> bool:
        """Run the actions that are due, but none that these add; whether there were any."""
        self._drop_cancelled()
        if not self._planned:
            return False
        now_ms = self.now_ms()
        due: list[TimerHandle] = []
        while self._planned and self._planned[0][0] <= now_ms:
            due.append(heapq.heappop(self._planned)[2])
        for handle in due:
            handle.run()
        return bool(due)

    def due_in_ms(self) -> int | None:
        """Milliseconds until the next action is due, `None` if none is planned."""
        self._drop_cancelled()
        return max(0, self._planned[0][0] - self.now_ms()) if self._planned else None

    def _drop_cancelled(self) -> None:
        while self._planned and not self._planned[0][2].is_pending:
            heapq.heappop(self._planned)
