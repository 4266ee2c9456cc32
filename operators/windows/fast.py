"""The common case, a batch at a time: tumbling or sliding windows by event time that fire once, at their end.

No window and no trigger is made for a record. The records of a batch are grouped by key and window, each
group is added at once, and a timer is registered when a group is the first of its window. What comes out,
and in which order, is what `WindowOperator` gives for the same input; a checkpoint of one can be restored
by the other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import compress, repeat
from typing import Any

from ...common.typeinfo import TypeInformation
from ..keyed import Selector
from ..timers import Timer
from .builtin_triggers import EventTimeTrigger
from .contents import EvictingContents
from .operator import Windowing, WindowOperator
from .time_assigners import SlidingEventTimeWindows, TumblingEventTimeWindows
from .windows import TimeWindow

_Groups = dict[tuple[Any, int], list[Any]]
"""Records by key and start of their window, in the order of their first record."""


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

    def _process(self, values: list[Any], keys: Sequence[Any], times: Sequence[int] | None) -> None:
        assert times is not None, "windows by event time take no records without timestamps"
        slide, offset = self._slide, self._offset
        try:
            starts = [time - (time - offset) % slide for time in times]
        except TypeError as error:
            raise self._without_timestamp(
                next(v for v, time in zip(values, times) if time is None)
            ) from error
        # Windows that start here or before are over.
        over = self._timers.current_watermark() - self._size + 1
        if self._size == slide:
            if min(starts, default=over + 1) <= over:
                values, keys, starts = self._in_time(values, keys, starts, times, over)
            groups = _grouped(values, keys, starts)
        else:
            groups = self._grouped_sliding(values, keys, starts, times, over)
        self._add_groups(groups)

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
    ) -> _Groups:
        groups: _Groups = defaultdict(list)
        size, slide = self._size, self._slide
        for value, key, last, time in zip(values, keys, lasts, times):
            lowest = max(time - size, over)
            for start in range(last, lowest, -slide):
                groups[key, start].append(value)
            if last <= lowest and time <= over + size - 1:
                self._late(value, time)
        return groups

    def _add_groups(self, groups: _Groups) -> None:
        keyed, add_all, size = self.keyed, self._contents.add_all, self._size
        register = self._timers.register_event_time_timer
        for (key, start), values in groups.items():
            keyed.current_key = key
            keyed.current_namespace = namespace = (start, start + size)
            if add_all(key, namespace, values):
                register(namespace, start + size - 1)

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

    def _fire(self, window: Any, elements: list[Any]) -> None:
        if self._window_call.passes_through:
            self._results.extend(elements)
            self._result_times.extend(repeat(window.max_timestamp(), len(elements)))
        else:
            super()._fire(window, elements)


def _grouped(values: list[Any], keys: Sequence[Any], starts: list[int]) -> _Groups:
    groups: _Groups = defaultdict(list)
    for value, key, start in zip(values, keys, starts):
        groups[key, start].append(value)
    return groups
