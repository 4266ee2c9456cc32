"""When windows fire: Flink's triggers, and triggers of one's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tidegate.common.errors import UserCodeError
from tidegate.common.typeinfo import Types
from tidegate.datastream.window import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountSlidingWindowAssigner,
    CountTrigger,
    CountTumblingWindowAssigner,
    DeltaTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    ProcessingTimeSessionWindows,
    PurgingTrigger,
    SlidingProcessingTimeWindows,
    Trigger,
    TriggerResult,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from tidegate.operators.windows.window_contents import AggregatedContents
from tidegate.operators.windows.window_function_calls import call_after_folding
from tidegate.protocol.elements import MAX_WATERMARK_MS
from tidegate.state.descriptors import ListStateDescriptor, ValueStateDescriptor

from .rig import Count, Rig, operator_of, windowing

OpenRig = Callable[..., Rig]


@pytest.fixture(params=["memory", "lmdb"])
def open_rig(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    rigs: list[Rig] = []

    def open_one(assigner: Any, trigger: Any = None, **settings: Any) -> Rig:
        spec = windowing(assigner, trigger, **settings)
        rigs.append(Rig(lambda: operator_of(spec), request.param, tmp_path))
        return rigs[-1]

    yield open_one
    for rig in rigs:
        rig.close()


def values(rig: Rig) -> list[list[Any]]:
    return [result[2] for result, _ in rig.taken()]


def in_a(*times: int) -> list[Any]:
    """Records of one key whose values are their times."""
    return [("a", time, time) for time in times]


def test_a_count_trigger_fires_with_every_so_many_records_and_keeps_them(open_rig: OpenRig) -> None:
    rig = open_rig(GlobalWindows.create(), CountTrigger.of(2))
    rig.process([("a", 1, 1), ("b", 10, 2), ("a", 2, 3), ("a", 3, 4)])
    rig.rescale(2)
    rig.process([("a", 4, 5), ("b", 11, 6)])
    assert sorted(values(rig)) == [[1, 2], [1, 2, 3, 4], [10, 11]]


def test_a_purging_trigger_empties_the_window_when_it_fires(open_rig: OpenRig) -> None:
    rig = open_rig(GlobalWindows.create(), PurgingTrigger.of(CountTrigger.of(2)))
    rig.process(in_a(1, 2, 3))
    rig.rescale(2)
    rig.process(in_a(4, 5))
    assert values(rig) == [[1, 2], [3, 4]]


def test_global_windows_never_fire_by_themselves(open_rig: OpenRig) -> None:
    rig = open_rig(GlobalWindows.create())
    rig.process(in_a(1, 2, 3))
    rig.advance_watermark(MAX_WATERMARK_MS)
    assert values(rig) == []


@pytest.mark.parametrize(
    ("assigner", "expected"),
    [
        (CountTumblingWindowAssigner.of(3), [[0, 1, 2], [3, 4, 5]]),
        (CountSlidingWindowAssigner.of(4, 2), [[0, 1, 2, 3], [2, 3, 4, 5]]),
        (CountSlidingWindowAssigner.of(2, 3), [[0, 1], [3, 4]]),
    ],
)
def test_count_windows_fire_when_full_and_never_before(
    open_rig: OpenRig, assigner: Any, expected: list[list[int]]
) -> None:
    rig = open_rig(assigner)
    rig.process(in_a(0, 1))
    rig.rescale(2)
    rig.process(in_a(2, 3, 4, 5, 6))
    rig.advance_watermark(MAX_WATERMARK_MS)
    assert values(rig) == expected


def test_results_of_windows_without_an_end_have_the_time_of_the_record_that_fired_them(
    open_rig: OpenRig,
) -> None:
    rig = open_rig(CountTumblingWindowAssigner.of(2))
    rig.process(in_a(5, 8))
    assert [time for _, time in rig.taken()] == [8]


def test_windows_by_the_clock_fire_at_their_end_and_are_gone(open_rig: OpenRig) -> None:
    rig = open_rig(TumblingProcessingTimeWindows(10, 0))
    rig.advance_clock(103)
    rig.process(in_a(1, 2))
    rig.advance_clock(108)
    rig.process(in_a(3))
    assert values(rig) == []
    rig.rescale(2)
    rig.advance_clock(109)
    assert [(w.start, w.end, got) for (_, w, got), _ in rig.taken()] == [(100, 110, [1, 2, 3])]
    rig.advance_clock(10_000)
    assert values(rig) == []


def test_sliding_windows_and_sessions_by_the_clock(open_rig: OpenRig) -> None:
    sliding = open_rig(SlidingProcessingTimeWindows(10, 5, 0))
    sessions = open_rig(ProcessingTimeSessionWindows(10))
    for rig in (sliding, sessions):
        for now in (102, 107, 130):
            rig.advance_clock(now)
            rig.process(in_a(now))
        rig.advance_clock(1_000)
    assert values(sliding) == [[102], [102, 107], [107], [130], [130]]
    assert values(sessions) == [[102, 107], [130]]


def test_at_the_end_of_input_windows_by_the_clock_are_dropped(open_rig: OpenRig) -> None:
    rig = open_rig(TumblingProcessingTimeWindows(10, 0))
    rig.process(in_a(1))
    rig.advance_watermark(MAX_WATERMARK_MS)
    rig.advance_clock(1_000)
    assert values(rig) == []


def test_a_continuous_trigger_fires_at_every_interval_and_at_the_end(open_rig: OpenRig) -> None:
    rig = open_rig(TumblingEventTimeWindows(20, 0), ContinuousEventTimeTrigger(6))
    rig.process(in_a(2, 7))
    rig.advance_watermark(6)
    assert values(rig) == [[2, 7]]
    rig.rescale(2)
    rig.advance_watermark(11)
    rig.process(in_a(13))
    rig.advance_watermark(12)
    assert values(rig) == [[2, 7, 13]]
    rig.advance_watermark(MAX_WATERMARK_MS)
    # At 18, and at 19: its end.
    assert values(rig) == [[2, 7, 13], [2, 7, 13]]


def test_a_continuous_trigger_goes_on_when_sessions_merge(open_rig: OpenRig) -> None:
    rig = open_rig(EventTimeSessionWindows(10), ContinuousEventTimeTrigger(6))
    rig.process(in_a(1, 14))
    rig.process(in_a(8))
    rig.advance_watermark(12)
    assert values(rig) == [[1, 14, 8]] * 2
    rig.advance_watermark(MAX_WATERMARK_MS)
    assert values(rig)[-1] == [1, 14, 8]


def test_a_continuous_trigger_by_the_clock(open_rig: OpenRig) -> None:
    rig = open_rig(TumblingProcessingTimeWindows(20, 0), ContinuousProcessingTimeTrigger(6))
    rig.advance_clock(101)
    rig.process(in_a(1))
    rig.advance_clock(102)
    assert values(rig) == [[1]]
    rig.process(in_a(2))
    for now, expected in [(107, []), (108, [[1, 2]]), (114, [[1, 2]]), (1_000, [[1, 2]])]:
        rig.advance_clock(now)
        assert values(rig) == expected


def test_a_delta_trigger_fires_for_a_record_far_from_the_last_it_fired_for(open_rig: OpenRig) -> None:
    def distance(old: Any, new: Any) -> float:
        return abs(new[1] - old[1])

    rig = open_rig(GlobalWindows.create(), DeltaTrigger.of(5, distance))
    rig.process([("a", value, 0) for value in (1, 4, 6)])
    rig.rescale(2)
    assert values(rig) == []
    rig.process([("a", value, 0) for value in (7, 12)])
    assert values(rig) == [[1, 4, 6, 7]]


class OnBell(Trigger[Any, Any]):
    """Fires on a record that says so, with the number of firings so far in its state; purges at the end."""

    RUNG = ValueStateDescriptor("rung", Types.LONG())
    SEEN = ListStateDescriptor("seen", Types.LONG())

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Trigger.TriggerContext) -> Any:
        ctx.register_event_time_timer(window.max_timestamp())
        seen = ctx.get_partitioned_state(self.SEEN)
        seen.add(element[1])
        rung = ctx.get_partitioned_state(self.RUNG)
        if element[1] != 0:
            return TriggerResult.CONTINUE
        rung.update((rung.value() or 0) + 1)
        return TriggerResult.FIRE_AND_PURGE if rung.value() == 2 else TriggerResult.FIRE

    def on_processing_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> Any:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> Any:
        return TriggerResult.PURGE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Any, ctx: Trigger.OnMergeContext) -> None:
        ctx.merge_partitioned_state(self.SEEN)
        ctx.register_event_time_timer(window.max_timestamp())

    def clear(self, window: Any, ctx: Trigger.TriggerContext) -> None:
        ctx.get_partitioned_state(self.RUNG).clear()
        ctx.get_partitioned_state(self.SEEN).clear()
        ctx.delete_event_time_timer(window.max_timestamp())


def test_a_trigger_of_ones_own_has_state_per_key_and_window_that_is_in_checkpoints(
    open_rig: OpenRig,
) -> None:
    rig = open_rig(TumblingEventTimeWindows(10, 0), OnBell())
    rig.process([("a", 5, 1), ("a", 0, 2), ("b", 6, 3), ("a", 7, 12)])
    rig.rescale(3)
    rig.process([("a", 0, 4), ("b", 0, 5), ("a", 0, 13), ("a", 0, 6)])
    got = sorted((key, window.start, got) for (key, window, got), _ in rig.taken())
    assert got == [
        ("a", 0, [0]), ("a", 0, [5, 0]), ("a", 0, [5, 0, 0]), ("a", 10, [7, 0]), ("b", 0, [6, 0])
    ]  # fmt: skip
    rig.advance_watermark(MAX_WATERMARK_MS)
    assert values(rig) == []


def test_what_is_over_leaves_nothing_in_state(open_rig: OpenRig) -> None:
    specs: list[tuple[Any, Any]] = [
        (TumblingEventTimeWindows(10, 0), OnBell()),
        (TumblingEventTimeWindows(10, 0), PurgingTrigger.of(ContinuousEventTimeTrigger(3))),
        (EventTimeSessionWindows(5), OnBell()),
        (EventTimeSessionWindows(5), CountTrigger.of(2)),
        (EventTimeSessionWindows(5), ContinuousEventTimeTrigger(3)),
    ]
    for assigner, trigger in specs:
        rig = open_rig(assigner, trigger, allowed_lateness_ms=3)
        rig.process([("a", 1, 1), ("b", 0, 4), ("a", 0, 4), ("a", 2, 12), ("a", 3, 8)])
        rig.advance_watermark(MAX_WATERMARK_MS - 1)
        (subtask,) = rig.subtasks
        snapshot, backend = subtask.checkpoint(9), subtask.operator.keyed
        for name in {handle.state_name for handle in snapshot.keyed.segments}:
            for key in "ab":
                for namespace in [None, *[(start, end) for start in range(20) for end in range(start, 25)]]:
                    if (namespace is None) == name.startswith("_merging"):
                        assert not backend.query(name, key, namespace), (assigner, trigger, name, namespace)


class Nothing(EventTimeTrigger[Any]):
    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> Any:
        return None


def test_a_trigger_that_returns_no_result_is_named(open_rig: OpenRig) -> None:
    rig = open_rig(TumblingEventTimeWindows(10, 0), Nothing())
    with pytest.raises(UserCodeError, match=r"Totals .*Nothing must return a TriggerResult, not None"):
        rig.process(in_a(1))


def test_a_session_that_is_reduced_as_it_merges(open_rig: OpenRig) -> None:
    rig = open_rig(
        EventTimeSessionWindows(5),
        contents=AggregatedContents(Count(), Types.LONG()),
        call=call_after_folding(None, is_keyed=True),
    )
    rig.process(in_a(1, 9))
    rig.rescale(2)
    rig.process(in_a(5))
    rig.advance_watermark(MAX_WATERMARK_MS)
    assert rig.taken() == [(3, 13)]
