"""Which windows of a key are under way, and under which namespace each keeps its records.

When windows merge, their records stay in the namespace of one of them, so that most are never moved.
Source: Flink's `MergingWindowSet`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from .assigners import MergingWindowAssigner

OnMerge = Callable[[Any, list[Any], Any, list[Any]], None]
"""Called with the new window, those it is made of, its state window, and the state windows to be merged
into that."""


class MergingWindowSet:
    """The windows of one key that may still merge.

    Args:
        assigner: Decides what merges.
        state_windows: The state window of each window under way.
    """

    def __init__(self, assigner: MergingWindowAssigner[Any, Any], state_windows: dict[Any, Any]) -> None:
        self._assigner = assigner
        self.state_windows = state_windows
        self.is_changed = False

    def state_window(self, window: Any) -> Any:
        """The window in whose namespace the records of a window are; `None` if it is not under way."""
        return self.state_windows.get(window)

    def retire(self, window: Any) -> None:
        """The window is over."""
        if self.state_windows.pop(window, None) is not None:
            self.is_changed = True

    def add(self, window: Any, on_merge: OnMerge) -> Any:
        """Add a window, and merge what can be merged now.

        Returns:
            The window that the added one is part of now.
        """
        if window in self.state_windows:
            return window
        self.is_changed = True
        merges = _Merges()
        self._assigner.merge_windows([*self.state_windows, window], merges)
        became, was_merged = window, False
        for result, merged in merges.found:
            if window in merged:
                became, was_merged = result, True
            self._merge(result, [each for each in merged if each != window], on_merge)
        if not was_merged:
            self.state_windows[window] = window
        return became

    def _merge(self, result: Any, merged: list[Any], on_merge: OnMerge) -> None:
        states = [self.state_windows.pop(each) for each in merged]
        self.state_windows[result] = states[0] if states else result
        # A window that only swallowed the new one has its state, trigger and timers already.
        if merged and merged != [result]:
            on_merge(result, merged, states[0], states[1:])


class _Merges(MergingWindowAssigner.MergeCallback[Any]):
    def __init__(self) -> None:
        self.found: list[tuple[Any, list[Any]]] = []

    def merge(self, to_be_merged: Collection[Any], merge_result: Any) -> None:
        self.found.append((merge_result, list(dict.fromkeys(to_be_merged))))
