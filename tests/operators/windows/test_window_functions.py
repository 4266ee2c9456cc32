"""What window functions get, what evictors leave them, and where their results go."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from tidegate.common.errors import StateError, UserCodeError
from tidegate.common.output_tag import OutputTag
from tidegate.common.typeinfo import Types
from tidegate.datastream.window import (
    CountEvictor,
    CountTrigger,
    DeltaEvictor,
    EventTimeSessionWindows,
    Evictor,
    GlobalWindows,
    SessionWindowTimeGapExtractor,
    TimeEvictor,
    TimeWindow,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from tidegate.operators.runtime_context import RuntimeContext
from tidegate.operators.window_functions import (
    AllWindowFunction,
    PassThroughWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from tidegate.operators.windows.batched_operator import BatchedWindowOperator
from tidegate.operators.windows.folding import aggregated, reduced
from tidegate.operators.windows.window_contents import (
    AggregatedContents,
    CollectedContents,
    EvictingContents,
    ReducedContents,
)
from tidegate.operators.windows.window_function_calls import call_after_folding, window_call
from tidegate.protocol.elements import MAX_WATERMARK_MS
from tidegate.state.descriptors import ValueStateDescriptor

from .rig import LATE, Count, Record, Rig, key_of, operator_of, windowing

TEN = TumblingEventTimeWindows(10, 0)


@pytest.fixture(params=["a record at a time", "a batch at a time"])
def open_rig(request: pytest.FixtureRequest) -> Any:
    def open_one(spec: Any) -> Rig:
        if request.param == "a record at a time":
            return Rig(lambda: operator_of(spec), "memory", Path("/nonexistent"))
        return Rig(lambda: BatchedWindowOperator(spec, key_of), "memory", Path("/nonexistent"))

    return open_one


def general(spec: Any) -> Rig:
    return Rig(lambda: operator_of(spec), "memory", Path("/nonexistent"))


class Visits(ProcessWindowFunction[Any, Any, Any, TimeWindow]):
    """Numbers the firings of a window and of a key; tells a side output of each."""

    COUNT = ValueStateDescriptor("count", Types.LONG())
    SIDE = OutputTag(LATE)

    def open(self, runtime_context: RuntimeContext) -> None:
        self.opened_by = runtime_context.get_task_name()

    def process(
        self, key: Any, context: ProcessWindowFunction.Context[TimeWindow], elements: Iterable[Any]
    ) -> Iterable[Any]:
        numbers = []
        for states in (context.window_state(), context.global_state()):
            count = states.get_state(self.COUNT)
            count.update((count.value() or 0) + 1)
            numbers.append(count.value())
        yield self.SIDE, (self.opened_by, context.window().start)
        yield key, context.window().start, numbers, context.current_watermark(), list(elements)

    def clear(self, context: ProcessWindowFunction.Context[TimeWindow]) -> None:
        context.window_state().get_state(self.COUNT).clear()


def test_a_process_function_has_state_per_window_and_per_key() -> None:
    call = window_call(Visits(), is_keyed=True, is_process=True)
    rig = general(windowing(TEN, call=call, allowed_lateness_ms=5))
    rig.process([("a", 1, 1), ("a", 2, 12)])
    rig.advance_watermark(10)
    rig.rescale(1)
    rig.advance_watermark(10)
    rig.process([("a", 3, 3)])
    rig.advance_watermark(MAX_WATERMARK_MS)
    assert [result for result, _ in rig.taken()] == [
        ("a", 0, [1, 1], 10, [("a", 1, 1)]),
        ("a", 0, [2, 2], 10, [("a", 1, 1), ("a", 3, 3)]),
        ("a", 10, [1, 3], MAX_WATERMARK_MS, [("a", 2, 12)]),
    ]
    assert rig.late() == [("Totals", 0), ("Totals", 0), ("Totals", 10)]
    assert rig.subtasks[0].operator.keyed.query("window.count", "a", (0, 10)) is None


def test_state_of_a_window_is_removed_when_it_is_over(open_rig: Any) -> None:
    rig = open_rig(windowing(TEN, call=window_call(Visits(), is_keyed=True, is_process=True)))
    rig.process([("a", 1, 1)])
    rig.advance_watermark(9)
    ((subtask,),) = [rig.subtasks]
    assert subtask.operator.keyed.query("window.count", "a", (0, 10)) is None
    assert subtask.operator.keyed.query("count", "a") == 1


def test_windows_that_merge_have_no_state_of_their_own() -> None:
    call = window_call(Visits(), is_keyed=True, is_process=True)
    rig = general(windowing(EventTimeSessionWindows(5), call=call))
    rig.process([("a", 1, 1)])
    with pytest.raises(StateError, match=r"state 'count': windows that merge.*use context.global_state"):
        rig.advance_watermark(MAX_WATERMARK_MS)


class Apply(WindowFunction[Any, Any, Any, TimeWindow]):
    def apply(self, key: Any, window: TimeWindow, inputs: Iterable[Any]) -> Iterable[Any] | None:
        return None if key == "none" else [(key, window.end, list(inputs))]


class ApplyAll(AllWindowFunction[Any, Any, TimeWindow]):
    def apply(self, window: TimeWindow, inputs: Iterable[Any]) -> Iterable[Any]:
        yield window.end, list(inputs)


class ProcessAll(ProcessAllWindowFunction[Any, Any, TimeWindow]):
    def process(
        self, context: ProcessAllWindowFunction.Context[TimeWindow], elements: Iterable[Any]
    ) -> Iterable[Any]:
        yield context.window().end, list(elements)


@pytest.mark.parametrize(
    ("function", "is_keyed", "expected"),
    [
        (Apply(), True, ("a", 10, [2])),
        (ApplyAll(), False, (10, [2])),
        (ProcessAll(), False, (10, [2])),
        (lambda key, window, inputs: [(key, window.end, inputs)], True, ("a", 10, [2])),
        (None, True, 2),
        (None, False, 2),
        (PassThroughWindowFunction(), True, 2),
    ],
)
def test_every_kind_of_function_gets_the_result_of_an_aggregate(
    open_rig: Any, function: Any, is_keyed: bool, expected: Any
) -> None:
    contents = AggregatedContents(Count(), Types.LONG())
    rig = open_rig(windowing(TEN, contents=contents, call=call_after_folding(function, is_keyed)))
    rig.process([("a", 1, 1), ("a", 2, 2)])
    rig.advance_watermark(9)
    assert rig.taken() == [(expected, 9)]


def test_a_function_that_returns_none_gives_nothing(open_rig: Any) -> None:
    rig = open_rig(windowing(TEN, call=window_call(Apply(), is_keyed=True, is_process=False)))
    rig.process([("none", 1, 1)])
    rig.advance_watermark(9)
    assert rig.taken() == []


def failing(*arguments: Any) -> Any:
    raise ValueError("no")


def test_errors_name_the_operator_and_the_window_or_the_record(open_rig: Any) -> None:
    rig = open_rig(windowing(TEN, call=window_call(failing, is_keyed=True, is_process=False)))
    rig.process([("a", 1, 1)])
    with pytest.raises(
        UserCodeError, match=r"Totals \(1/1\): apply\(\) of TimeWindow\(start=0, end=10\) .*no"
    ):
        rig.advance_watermark(9)
    rig = open_rig(
        windowing(TEN, contents=ReducedContents(failing, None), call=call_after_folding(None, True))
    )
    with pytest.raises(
        UserCodeError, match=r"into its windows raised ValueError: no on the record \('a', 2, 2\)"
    ):
        rig.process([("a", 1, 1), ("a", 2, 2), ("a", 3, 3)])


@pytest.mark.parametrize("times", [None, [None]])
def test_a_record_without_a_timestamp_is_refused_with_what_to_do(open_rig: Any, times: Any) -> None:
    (subtask,) = open_rig(windowing(TEN)).subtasks
    with pytest.raises(UserCodeError, match=r"has no timestamp.*assign_timestamps_and_watermarks\(\)"):
        subtask.process([("a", 1, 1)], times)


def test_windows_by_the_clock_take_records_without_timestamps() -> None:
    rig = general(windowing(TumblingProcessingTimeWindows(10, 0)))
    (subtask,) = rig.subtasks
    subtask.process([("a", 1, 1)], None)
    rig.advance_clock(9)
    assert [(result[2], time) for result, time in rig.taken()] == [([1], 9)]


def test_late_records_are_counted_when_nobody_takes_them(
    open_rig: Any, caplog: pytest.LogCaptureFixture
) -> None:
    rig = open_rig(windowing(TEN))
    rig.advance_watermark(20)
    rig.process([("a", 1, 1), ("a", 2, 25), ("b", 3, 2)])
    rig.process([("a", 4, 3)])
    metrics = rig.subtasks[0].operator.context.metrics
    assert metrics.counter("numLateRecordsDropped").get_count() == 3
    assert [r.getMessage() for r in caplog.records if "side_output_late_data" in r.getMessage()] != []
    assert len(caplog.records) == 1


class ZeroGap(SessionWindowTimeGapExtractor):
    def extract(self, element: Any) -> int:
        return 0


def test_a_session_gap_of_zero_is_refused_with_its_record() -> None:
    rig = general(windowing(EventTimeSessionWindows.with_dynamic_gap(ZeroGap())))
    with pytest.raises(UserCodeError, match=r"ZeroGap.extract\(\) must return a gap above 0 ms, got 0"):
        rig.process([("a", 1, 1)])


# ------------------------------------------------------------ evictors


def evicting(evictor: Any, trigger: Any = None, fold: Any = None, assigner: Any = None) -> Rig:
    call = None if fold is None else call_after_folding(None, is_keyed=True)
    contents = EvictingContents(evictor, None, fold)
    return general(windowing(assigner or GlobalWindows.create(), trigger, contents, call))


def records(*values: int) -> list[Record]:
    return [("a", value, value) for value in values]


def distance(one: Any, other: Any) -> int:
    return abs(one[1] - other[1])


@pytest.mark.parametrize(
    ("evictor", "expected"),
    [
        (CountEvictor.of(2), [[1, 5], [9, 6]]),
        (CountEvictor.of(2, do_evict_after=True), [[1, 5], [1, 5, 9, 6]]),
        (CountEvictor.of(0), [[], []]),
        (TimeEvictor(4), [[5], [9, 6]]),
        (TimeEvictor(4, do_evict_after=True), [[1, 5], [5, 9, 6]]),
        (DeltaEvictor.of(4, distance), [[5], [5, 9, 6]]),
    ],
)
def test_evictors_leave_records_out(evictor: Any, expected: list[list[int]]) -> None:
    rig = evicting(evictor, CountTrigger.of(2))
    rig.process(records(1, 5))
    rig.rescale(2)
    rig.process(records(9, 6))
    assert [result[2] for result, _ in rig.taken()] == expected


def test_a_fold_sees_only_what_an_evictor_left() -> None:
    for fold, expected in [
        (aggregated(Count()), [2, 2]),
        (reduced(lambda one, other: max(one, other)), [("a", 5, 5), ("a", 9, 9)]),
    ]:
        rig = evicting(CountEvictor.of(2), CountTrigger.of(2), fold)
        rig.process(records(1, 5, 9, 6))
        assert [result for result, _ in rig.taken()] == expected


class EvenOnly(Evictor[Any, Any]):
    def evict_before(self, elements: Any, size: int, window: Any, ctx: Evictor.EvictorContext) -> None:
        assert (size, ctx.get_current_watermark()) == (len(elements), MAX_WATERMARK_MS)
        elements[:] = [element for element in elements if element.get_value()[1] % 2 == 0]

    def evict_after(self, elements: Any, size: int, window: Any, ctx: Evictor.EvictorContext) -> None:
        assert [element.get_timestamp() for element in elements] == [2, 4]


def test_an_evictor_of_ones_own_works_on_sessions_too() -> None:
    rig = evicting(EvenOnly(), assigner=EventTimeSessionWindows(3))
    rig.process(records(1, 2, 4, 5))
    rig.advance_watermark(MAX_WATERMARK_MS)
    assert [result[2] for result, _ in rig.taken()] == [[2, 4]]


def test_collected_contents_are_those_of_the_window_only(open_rig: Any) -> None:
    rig = open_rig(windowing(TEN, contents=CollectedContents(None)))
    rig.process([("a", 1, 1), ("a", 2, 11), ("b", 3, 2)])
    rig.advance_watermark(MAX_WATERMARK_MS)
    assert sorted(result[2] for result, _ in rig.taken()) == [[1], [2], [3]]


def test_a_window_is_over_when_the_watermark_reaches_its_last_millisecond(open_rig: Any) -> None:
    rig = open_rig(windowing(TEN, late_tag_id=LATE))
    rig.advance_watermark(8)
    rig.process([("a", 1, 9)])
    rig.advance_watermark(9)
    rig.process([("a", 2, 9), ("a", 3, 10)])
    assert rig.late() == [("a", 2, 9)]
    rig.advance_watermark(MAX_WATERMARK_MS)
    assert [result[2] for result, _ in rig.taken()] == [[1], [3]]
