"""A clock that does not jump."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["SteadyClock"]


class SteadyClock:
    """Wall-clock time, read once and then advanced by the monotonic clock.

    Timeouts, intervals and heartbeats are differences of it. If somebody sets the clock of the machine,
    by an hour forward, no process seems silent for an hour, and by an hour back, no checkpoint waits for
    one. It follows the machine's clock again when the process restarts.

    Args:
        wall_ns: Nanoseconds since the Unix epoch.
        steady_ns: Nanoseconds since some moment; never goes back.
    """

    def __init__(
        self,
        wall_ns: Callable[[], int] = time.time_ns,
        steady_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._steady_ns = steady_ns
        self._offset_ns = wall_ns() - steady_ns()

    def now_ns(self) -> int:
        """Nanoseconds since the Unix epoch."""
        return self._steady_ns() + self._offset_ns
