"""Sessions: both operators, what they store, and what a record costs when many sessions are open."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tidegate.common.errors import UserCodeError
from tidegate.common.typeinfo import Types
from tidegate.operators.keyed.keyed import KeyedOperator
from tidegate.operators.windows.batched_sessions import BatchedSessionOperator, is_common_session
from tidegate.operators.windows.merging_operator import MergingWindowOperator
from tidegate.operators.windows.session_assigners import (
    EventTimeSessionWindows,
    SessionWindowTimeGapExtractor,
)
from tidegate.operators.windows.window_contents import AggregatedContents, ReducedContents
from tidegate.operators.windows.window_function_calls import call_after_folding
from tidegate.protocol.elements import MAX_WATERMARK_MS, Batch
from tidegate.state.descriptors import ListStateDescriptor

from .rig import BACKENDS, LATE, Count, Rig, key_of, windowing

KINDS: dict[str, Any] = {"batch": BatchedSessionOperator, "record": MergingWindowOperator}
GAP = 10


def rig_of(kind: str, backend: str, directory: Path, **parts: Any) -> Rig:
    spec = windowing(EventTimeSessionWindows(GAP), **parts)
    return Rig(lambda: KINDS[kind](spec, key_of), backend, directory)


def windows(rig: Rig) -> list[Any]:
    return sorted((key, w.start, w.end, sorted(values)) for (key, w, values), _ in rig.taken())


def calls_for_one_record(kind: str, open_sessions: int) -> int:
    """Calls of functions for a record of a key that has so many open sessions."""
    rig = rig_of(kind, "memory", Path("/nonexistent"), contents=AggregatedContents(Count(), None),
                 call=call_after_folding(None, is_keyed=True))  # fmt: skip
    rig.process([("a", 0, index * 100) for index in range(open_sessions)])
    (subtask,) = rig.subtasks
    calls = Counter[str]()
    sys.setprofile(lambda frame, event, argument: calls.update([event]))
    try:
        subtask.operator.process_batch(Batch([("a", 1, open_sessions * 50)], [open_sessions * 50]), 0)
    finally:
        sys.setprofile(None)
    rig.close()
    return calls["call"] + calls["c_call"]


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_record_costs_about_the_same_with_one_and_with_a_thousand_open_sessions(kind: str) -> None:
    assert calls_for_one_record(kind, 1_000) < 2 * calls_for_one_record(kind, 1)


@pytest.mark.parametrize("backend", sorted(BACKENDS))
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_sessions_that_are_closed_leave_nothing_in_snapshots(kind: str, backend: str, tmp_path: Path) -> None:
    rig = rig_of(kind, backend, tmp_path)
    rig.process([("a", 1, 0), ("a", 2, 30)])
    rig.rescale(1)
    rig.process([("a", 3, 15), ("a", 4, 5), ("a", 5, 22)])
    rig.advance_watermark(100)
    assert windows(rig) == [("a", 0, 40, [1, 2, 3, 4, 5])]
    rig.rescale(1)
    operator: Any = rig.subtasks[0].operator
    assert operator.timer_services.count == 0
    assert list(operator.keyed.keys("_window_contents")) == []
    assert (operator._sessions if kind == "batch" else operator._open_windows) == {}
    rig.close()


def test_a_session_that_grows_fires_once_when_its_last_record_is_a_gap_ago() -> None:
    rig = rig_of("batch", "memory", Path("/nonexistent"))
    for time in range(0, 50, 5):
        rig.process([("a", time, time)])
        rig.advance_watermark(time)
    assert windows(rig) == []
    rig.advance_watermark(54)
    assert windows(rig) == [("a", 0, 55, list(range(0, 50, 5)))]
    rig.advance_watermark(MAX_WATERMARK_MS)
    assert windows(rig) == []


def test_records_of_one_batch_may_join_sessions_that_were_apart() -> None:
    contents = ReducedContents(lambda a, b: (a[0], f"{a[1]}{b[1]}", a[2]), None)
    rig = rig_of("batch", "memory", Path("/nonexistent"), contents=contents,
                 call=call_after_folding(None, is_keyed=True), late_tag_id=LATE)  # fmt: skip
    rig.process([("a", "x", 0), ("a", "y", 20)])
    rig.process([("a", "p", 2), ("a", "q", 22), ("a", "z", 11), ("a", "r", 5)])
    rig.advance_watermark(40)
    assert [(record[1], time) for record, time in rig.taken()] == [("xpyqzr", 31)]
    rig.process([("a", "late", 30), ("a", "new", 32)])
    assert [record[1] for record in rig.late()] == ["late"]


class GapOfValue(SessionWindowTimeGapExtractor):
    def extract(self, element: Any) -> int:
        return 10 // int(element[1])


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize(
    ("times", "message"),
    [
        ([1, 2, 3], r"ZeroDivisionError: .* on the record \('a', 0, 2\)"),
        ([1, None, 3], r"the record \('a', 0, 2\) has no timestamp"),
    ],
)
def test_an_error_names_its_record(kind: str, times: list[Any], message: str) -> None:
    spec = windowing(EventTimeSessionWindows.with_dynamic_gap(GapOfValue()))
    if None in times:
        spec = windowing(EventTimeSessionWindows(GAP))
    rig = Rig(lambda: KINDS[kind](spec, key_of), "memory", Path("/nonexistent"))
    records = [("a", 1, 1), ("a", 0, 2), ("a", 2, 3)]
    with pytest.raises(UserCodeError, match=message):
        rig.subtasks[0].operator.process_batch(Batch(records, times), 0)


def test_which_sessions_are_processed_a_batch_at_a_time() -> None:
    assigner = EventTimeSessionWindows(GAP)
    assert is_common_session(windowing(assigner))
    assert not is_common_session(windowing(assigner, allowed_lateness_ms=1))


class OlderSessions(KeyedOperator):
    """Stores sessions as version 0.1 did before: those of a key in one list."""

    def __init__(self) -> None:
        super().__init__(len, "map", key_of)

    def open(self) -> None:
        super().open()
        interval = Types.TUPLE([Types.LONG(), Types.LONG()])
        windows = ListStateDescriptor("_merging_windows", Types.TUPLE([interval, interval]))
        self._windows = self.keyed.get_list_state(windows)
        contents = ListStateDescriptor("_window_contents", None)
        self._contents = self.keyed.get_list_state(contents, namespaced=True)
        self._timers = self.keyed.get_timers("_timers_window_event")
        self.keyed.get_timers("_timers_window_processing")

    def process_batch(self, batch: Batch, input_index: int) -> None:
        """Each record is in a session that has grown by 5 ms at its start since its first record."""
        for record in batch.values:
            key, _, time = record
            window, state = (time - 5, time + GAP), (time, time + GAP)
            self.keyed.current_key, self.keyed.current_namespace = key, state
            self._windows.add((window, state))
            self._contents.add(record)
            self._timers.add(key, (window[1] - 1, window))


@pytest.mark.parametrize("backend", sorted(BACKENDS))
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_sessions_that_an_older_release_stored_are_restored(kind: str, backend: str, tmp_path: Path) -> None:
    spec = windowing(EventTimeSessionWindows(GAP))
    makers = iter([OlderSessions, *[lambda: KINDS[kind](spec, key_of)] * 5])
    rig = Rig(lambda: next(makers)(), backend, tmp_path)
    rig.process([("a", 1, 5), ("a", 2, 55), ("b", 3, 5)])
    rig.rescale(2)
    rig.process([("a", 4, 48)])
    rig.rescale(1)
    rig.advance_watermark(MAX_WATERMARK_MS)
    assert windows(rig) == [("a", 0, 15, [1]), ("a", 48, 65, [2, 4]), ("b", 0, 15, [3])]
    rig.close()
