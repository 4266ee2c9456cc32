"""What windows by event time mean, written down as plainly as possible.

Nothing here is taken from the operator: windows are pairs of start and end, contents are lists, and each
rule of Flink's documentation is one line.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Interval = tuple[int, int]
BEFORE_ALL = -(1 << 63)


def sliding(size: int, slide: int, offset: int) -> Callable[[int], list[Interval]]:
    """All windows that contain a time, by trying every start near it."""

    def windows_of(time: int) -> list[Interval]:
        return [
            (start, start + size)
            for start in range(time - size - slide, time + slide + 1)
            if (start - offset) % slide == 0 and start <= time < start + size
        ]

    return windows_of


@dataclass
class _Pane:
    values: list[Any] = field(default_factory=list)
    is_waiting: bool = False
    """Whether the window is still to fire for the end of its time."""


class EventTimeReference:
    """Windows that fire at their end, and for every record after that until the lateness is over."""

    def __init__(self, windows_of: Callable[[int], list[Interval]], lateness: int) -> None:
        self._windows_of = windows_of
        self._lateness = lateness
        self._panes: dict[tuple[Any, Interval], _Pane] = {}
        self.watermark = BEFORE_ALL
        self.fired: list[Any] = []
        self.late: list[Any] = []

    def _is_over(self, window: Interval) -> bool:
        return window[1] - 1 + self._lateness <= self.watermark

    def _fire(self, key: Any, window: Interval) -> None:
        self.fired.append((key, window, list(self._panes[key, window].values)))

    def _add(self, key: Any, window: Interval, values: list[Any]) -> None:
        pane = self._panes.setdefault((key, window), _Pane())
        pane.values += values
        if window[1] - 1 <= self.watermark:
            self._fire(key, window)
        else:
            pane.is_waiting = True

    def process(self, key: Any, value: Any, time: int) -> None:
        open_windows = [window for window in self._windows_of(time) if not self._is_over(window)]
        for window in open_windows:
            self._add(key, window, [value])
        if not open_windows and time + self._lateness <= self.watermark:
            self.late.append((key, value, time))

    def advance_watermark(self, timestamp: int) -> None:
        self.watermark = max(self.watermark, timestamp)
        for (key, window), pane in self._panes.items():
            if pane.is_waiting and window[1] - 1 <= self.watermark:
                pane.is_waiting = False
                self._fire(key, window)
        self._panes = {place: pane for place, pane in self._panes.items() if not self._is_over(place[1])}

    def restore(self) -> None:
        """Contents are in checkpoints; event time starts anew."""
        self.watermark = BEFORE_ALL


class SessionReference(EventTimeReference):
    """Sessions: a record opens a window of one gap, and windows that touch are one."""

    def __init__(self, gap_of: Callable[[Any], int], lateness: int) -> None:
        super().__init__(lambda time: [], lateness)
        self._gap_of = gap_of

    def process(self, key: Any, value: Any, time: int) -> None:
        start, end = time, time + self._gap_of(value)
        joined = [
            window
            for owner, window in self._panes
            if owner == key and window[0] <= end and start <= window[1]
        ]
        start, end = min([start, *[w[0] for w in joined]]), max([end, *[w[1] for w in joined]])
        if self._is_over((start, end)):
            self.late.append((key, value, time))
            return
        values = [each for window in joined for each in self._panes.pop((key, window)).values]
        self._add(key, (start, end), [*values, value])
