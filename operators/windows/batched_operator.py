"""The common case, a batch at a time: tumbling or sliding windows by event time that fire once, at their end.

No window and no trigger is made for a record. The records of a batch are grouped by key and window, each
group is added at once, and a timer is registered when a group is the first of its window. What comes out,
and in which order, is what `WindowOperator` gives for the same input; a checkpoint of one can be restored
by the other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import compress
from typing import Any

from ...common.typeinfo import TypeInformation
from ..keyed.keyed import Selector
from ..timers.timers import Timer
from ..timestamps import highest, lowest
from .builtin_triggers import EventTimeTrigger
from .operator import Windowing, WindowOperator
from .time_assigners import SlidingEventTimeWindows, TumblingEventTimeWindows
from .window_contents import EvictingContents
from .windows import TimeWindow

_Windows = dict[int, dict[Any, list[Any]]]
"""Records by the start of their window and by key, in the order of their first record."""


def is_common_case(windowing: Windowing) -> bool:
    """Whether `BatchedWindowOperator` can do it."""
    return (
        type(windowing.assigner) in (TumblingEventTimeWindows, SlidingEventTimeWindows)
        and type(windowing.trigger) is EventTimeTrigger
        and windowing.allowed_lateness_ms == 0
        and not isinstance(windowing.contents, EvictingContents)
    )


class BatchedWindowOperator(WindowOperator):
    """Windows of the common case; see `is_common_case`."""

    def __init__(
        self, windowing: Windowing, key_selector: Selector, key_type: TypeInformation | None = None
    ) -> None:
        super().__init__(windowing, key_selector, key_type)
        assigner = windowing.assigner
        assert isinstance(assigner, (TumblingEventTimeWindows, SlidingEventTimeWindows))
        self._size, self._slide, self._offset = assigner.shape

    def _process(self, values: list[Any], keys: Sequence[Any], times: Sequence[int]) -> None:
        if not values:
            return
        slide = self._slide
        try:
            first_ms, last_ms = lowest(times), highest(times)
            start = first_ms - (first_ms - self._offset) % slide
        except TypeError as error:
            raise self._without_timestamp(
                next(v for v, time in zip(values, times) if time is None)
            ) from error
        # Windows that start here or before are over.
        over = self._timers.current_watermark() - self._size + 1
        if self._size == slide and over < start and last_ms < start + slide:
            windows = {start: _grouped(values, keys)}
        else:
            windows = self._windows_of(values, keys, times, over)
        self._add_to(windows)

    def _windows_of(
        self, values: list[Any], keys: Sequence[Any], times: Sequence[int], over: int
    ) -> _Windows:
        slide, offset = self._slide, self._offset
        starts = [time - (time - offset) % slide for time in times]
        if self._size != slide:
            return self._grouped_sliding(values, keys, starts, times, over)
        if min(starts) <= over:
            values, keys, starts = self._in_time(values, keys, starts, times, over)
        windows: _Windows = _no_windows()
        for value, key, start in zip(values, keys, starts):
            windows[start][key].append(value)
        return windows

    def _in_time(
        self, values: list[Any], keys: Sequence[Any], starts: list[int], times: Sequence[int], over: int
    ) -> tuple[list[Any], Sequence[Any], list[int]]:
        """Without the records whose window is over."""
        mask = [start > over for start in starts]
        for value, time, is_kept in zip(values, times, mask):
            if not is_kept:
                self._late(value, time)
        return list(compress(values, mask)), list(compress(keys, mask)), list(compress(starts, mask))

    def _grouped_sliding(
        self, values: list[Any], keys: Sequence[Any], lasts: list[int], times: Sequence[int], over: int
    ) -> _Windows:
        windows: _Windows = _no_windows()
        size, slide = self._size, self._slide
        for value, key, last, time in zip(values, keys, lasts, times):
            before = max(time - size, over)
            for start in range(last, before, -slide):
                windows[start][key].append(value)
            if last <= before and time <= over + size - 1:
                self._late(value, time)
        return windows

    def _add_to(self, windows: _Windows) -> None:
        for start, groups in windows.items():
            window = (start, start + self._size)
            new = self._contents.add_all(window, groups)
            self._timers.register_event_time_timers(new, window, window[1] - 1)

    def on_event_time(self, timer: Timer) -> None:
        window = TimeWindow(*timer.namespace)
        self._time = timer.timestamp
        try:
            # A timer of another time is from a checkpoint of windows that allowed lateness.
            if timer.timestamp == window.max_timestamp():
                elements = self._contents.elements(window)
                if elements is not None:
                    self._fire(window, elements)
                    self.keyed.current_namespace = timer.namespace
            self._contents.clear()
            if self._window_call.needs_clear:
                self._window_call.clear(window)
        except Exception as error:
            raise self._timer_failed(timer, error) from error


def _grouped(values: list[Any], keys: Sequence[Any]) -> dict[Any, list[Any]]:
    groups: dict[Any, list[Any]] = defaultdict(list)
    for value, key in zip(values, keys):
        groups[key].append(value)
    return groups


def _no_windows() -> _Windows:
    return defaultdict(lambda: defaultdict(list))
