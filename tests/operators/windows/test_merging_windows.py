"""Which windows are under way when some of them merge."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tidegate.operators.windows.merging import MergingWindowSet
from tidegate.operators.windows.session_assigners import EventTimeSessionWindows
from tidegate.operators.windows.windows import TimeWindow

ASSIGNER = EventTimeSessionWindows(3)


class Calls:
    """What a window set asked to be merged."""

    def __init__(self) -> None:
        self.made: list[Any] = []

    def __call__(self, *arguments: Any) -> None:
        self.made.append(arguments)


def test_a_window_that_touches_no_other_has_its_own_state() -> None:
    calls, windows = Calls(), MergingWindowSet(ASSIGNER, {})
    for window in (TimeWindow(0, 3), TimeWindow(10, 13)):
        assert windows.add(window, calls) == window
        assert windows.state_window(window) == window
    assert calls.made == []


def test_windows_become_one_that_keeps_the_state_of_the_first() -> None:
    calls, windows = Calls(), MergingWindowSet(ASSIGNER, {})
    first, second = TimeWindow(0, 3), TimeWindow(6, 9)
    windows.add(first, calls)
    windows.add(second, calls)
    whole = TimeWindow(0, 9)
    assert windows.add(TimeWindow(3, 6), calls) == whole
    assert calls.made == [(whole, [first, second], first, [second])]
    assert windows.state_windows == {whole: first}


def test_a_window_that_lies_within_another_changes_nothing_but_is_part_of_it() -> None:
    calls, windows = Calls(), MergingWindowSet(ASSIGNER, {TimeWindow(0, 9): TimeWindow(6, 9)})
    assert windows.add(TimeWindow(2, 5), calls) == TimeWindow(0, 9)
    assert windows.add(TimeWindow(0, 9), calls) == TimeWindow(0, 9)
    assert calls.made == []
    assert windows.state_windows == {TimeWindow(0, 9): TimeWindow(6, 9)}


def test_a_retired_window_is_merged_no_more() -> None:
    calls, windows = Calls(), MergingWindowSet(ASSIGNER, {TimeWindow(0, 3): TimeWindow(0, 3)})
    windows.retire(TimeWindow(0, 3))
    assert windows.state_window(TimeWindow(0, 3)) is None
    assert windows.add(TimeWindow(1, 4), calls) == TimeWindow(1, 4)
    assert calls.made == []


@given(st.lists(st.integers(0, 60), max_size=30))
def test_windows_under_way_never_touch_and_cover_every_record(times: list[int]) -> None:
    windows = MergingWindowSet(ASSIGNER, {})
    for time in times:
        became = windows.add(TimeWindow(time, time + 3), Calls())
        assert became.start <= time < became.end
        assert became in windows.state_windows
    under_way = sorted(windows.state_windows)
    assert all(one.end < other.start for one, other in pairwise(under_way))
    assert all(any(w.start <= time and time + 3 <= w.end for w in under_way) for time in times)
    states = list(windows.state_windows.values())
    assert len(set(states)) == len(states)
