"""Which windows of a key are open, and under which namespace each keeps its records.

When windows merge, their records stay in the namespace of one of them, so that most are never moved.
Source: Flink's `MergingWindowSet`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable
from typing import Any

from .assigners import MergingWindowAssigner
from .session_assigners import merges_touching_windows

OnMerge = Callable[[Any, list[Any], Any, list[Any]], None]
"""Called with the new window, those it is made of, its state window, and the state windows to be merged
into that."""


class MergingWindowSet:
    """The windows of one key that may still merge.

    Args:
        assigner: Decides what merges.
        state_windows: The state window of each open window.

    Attributes:
        changes: Windows, their state windows, and whether they are new, in order. The caller clears it.
    """

    def __init__(self, assigner: MergingWindowAssigner[Any, Any], state_windows: dict[Any, Any]) -> None:
        self._assigner = assigner
        self.state_windows = state_windows
        self.changes: list[tuple[Any, Any, bool]] = []
        # Sessions do not touch each other, so those that touch a new one are neighbours in this order.
        self._is_sorted = merges_touching_windows(assigner)
        self._sorted = sorted(state_windows) if self._is_sorted else []
        self._starts = [window.start for window in self._sorted]

    def state_window(self, window: Any) -> Any:
        """The window in whose namespace the records of a window are; `None` if it is not open."""
        return self.state_windows.get(window)

    def retire(self, window: Any) -> None:
        """The window has ended."""
        if window in self.state_windows:
            self._remove(window)

    def add(self, window: Any, on_merge: OnMerge) -> Any:
        """Add a window, and merge what can be merged now.

        Returns:
            The window that the added one is part of now.
        """
        if window in self.state_windows:
            return window
        merges = _Merges()
        self._assigner.merge_windows([*self._candidates(window), window], merges)
        became, was_merged = window, False
        for result, merged in merges.found:
            if window in merged:
                became, was_merged = result, True
            self._merge(result, [each for each in merged if each != window], on_merge)
        if not was_merged:
            self._put(window, window)
        return became

    def _candidates(self, window: Any) -> Iterable[Any]:
        """The open windows that a new one may merge with."""
        if not self._is_sorted:
            return self.state_windows
        end = start = bisect_right(self._starts, window.end)
        while start > 0 and self._sorted[start - 1].end >= window.start:
            start -= 1
        return self._sorted[start:end]

    def _merge(self, result: Any, merged: list[Any], on_merge: OnMerge) -> None:
        if merged == [result]:
            return
        states = [self._remove(each) for each in merged]
        self._put(result, states[0] if states else result)
        if merged:
            on_merge(result, merged, states[0], states[1:])

    def _put(self, window: Any, state_window: Any) -> None:
        self.state_windows[window] = state_window
        self.changes.append((window, state_window, True))
        if self._is_sorted:
            position = bisect_left(self._starts, window.start)
            self._starts.insert(position, window.start)
            self._sorted.insert(position, window)

    def _remove(self, window: Any) -> Any:
        state_window = self.state_windows.pop(window)
        self.changes.append((window, state_window, False))
        if self._is_sorted:
            position = bisect_left(self._starts, window.start)
            del self._starts[position], self._sorted[position]
        return state_window


class _Merges(MergingWindowAssigner.MergeCallback[Any]):
    def __init__(self) -> None:
        self.found: list[tuple[Any, list[Any]]] = []

    def merge(self, to_be_merged: Collection[Any], merge_result: Any) -> None:
        self.found.append((merge_result, list(dict.fromkeys(to_be_merged))))
