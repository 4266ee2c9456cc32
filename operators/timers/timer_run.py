"""Timers that are due, sorted, on their way to fire."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Any, Final

_SEARCHED = 8


class Nobody:
    """In place of an owner."""


NOBODY: Final = Nobody()


class TimerRun:
    """A sorted list of timers, which fire from the front. One that is deleted leaves a gap.

    Args:
        owners: Who they belong to.
        times: Their times, the earliest first.

    Attributes:
        at: Position of the first that is yet to fire.
    """

    __slots__ = ("_has_gaps", "_positions", "at", "owners", "times")

    def __init__(self, owners: list[Any], times: list[int]) -> None:
        self.owners = owners
        self.times = times
        self.at = 0
        self._has_gaps = False
        # Positions by owner, for times that many share, as far as somebody asked.
        self._positions: dict[int, dict[Any, int]] = {}

    @property
    def first_ms(self) -> int | None:
        """The earliest time that is yet to fire, `None` if there is none."""
        owners = self.owners
        while self.at < len(owners) and owners[self.at] is NOBODY:
            self.at += 1
        return self.times[self.at] if self.at < len(owners) else None

    def find(self, owner: Any, timestamp_ms: int) -> int | None:
        """Position of a timer, be it fired or not; `None` if it is not there."""
        start = bisect_left(self.times, timestamp_ms)
        end = bisect_right(self.times, timestamp_ms, start)
        if end - start <= _SEARCHED:
            return next((at for at in range(start, end) if self.owners[at] == owner), None)
        positions = self._positions.get(timestamp_ms)
        if positions is None:
            positions = dict(zip(self.owners[start:end], range(start, end)))
            self._positions[timestamp_ms] = positions
        position = positions.get(owner)
        return None if position is None or self.owners[position] is NOBODY else position

    def remove(self, position: int) -> None:
        """Leave a gap in place of a timer."""
        self.owners[position] = NOBODY
        self._has_gaps = True

    def next_positions(self, until_ms: int, count: int) -> Sequence[int]:
        """Positions of the next timers up to a time, no more than `count`."""
        end = bisect_right(self.times, until_ms, self.at, min(self.at + count, len(self.times)))
        if not self._has_gaps:
            return range(self.at, end)
        return [at for at in range(self.at, end) if self.owners[at] is not NOBODY]
