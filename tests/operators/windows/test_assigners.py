"""Into which windows records go, and what cannot be a window."""

from __future__ import annotations

from datetime import timedelta
from io import BytesIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tidegate.common.errors import ConfigurationError
from tidegate.common.time import Duration, Time
from tidegate.datastream.window import (
    ContinuousEventTimeTrigger,
    CountEvictor,
    CountSlidingWindowAssigner,
    CountTrigger,
    CountTumblingWindowAssigner,
    CountWindow,
    CountWindowSerializer,
    DynamicEventTimeSessionWindows,
    EventTimeSessionWindows,
    GlobalWindow,
    GlobalWindows,
    GlobalWindowSerializer,
    ProcessingTimeSessionWindows,
    PurgingTrigger,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TimeWindow,
    TimeWindowSerializer,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from tidegate.operators.windows.windows import window_namespaces

HOUR = 3_600_000


def windows_at(assigner: Any, time: int) -> list[tuple[int, int]]:
    return [(window.start, window.end) for window in assigner.assign_windows("record", time, None)]


def test_days_of_another_time_zone_start_at_its_midnight() -> None:
    days_of_china = TumblingEventTimeWindows.of(Time.days(1), Time.hours(-8))
    assert windows_at(days_of_china, 0) == [(-8 * HOUR, 16 * HOUR)]
    assert windows_at(days_of_china, 16 * HOUR) == [(16 * HOUR, 40 * HOUR)]


def test_a_record_is_in_every_sliding_window_around_it_latest_first() -> None:
    assigner = SlidingEventTimeWindows.of(Time.seconds(10), Time.seconds(5))
    assert windows_at(assigner, 12_000) == [(10_000, 20_000), (5_000, 15_000)]


def test_a_slide_beyond_the_size_leaves_records_out() -> None:
    assigner = SlidingEventTimeWindows(3, 10, 0)
    assert windows_at(assigner, 12) == [(10, 13)]
    assert windows_at(assigner, 13) == []


@given(st.integers(-(10**15), 10**15), st.integers(1, 10**6), st.data())
def test_a_tumbling_window_contains_its_record_and_starts_at_the_offset(
    time: int, size: int, data: st.DataObject
) -> None:
    offset = data.draw(st.integers(1 - size, size - 1))
    ((start, end),) = windows_at(TumblingEventTimeWindows(size, offset), time)
    assert start <= time < end == start + size
    assert (start - offset) % size == 0


@pytest.mark.parametrize("length", [Time.seconds(2), Duration.of_seconds(2), timedelta(seconds=2)])
def test_lengths_may_be_of_any_type_for_lengths_of_time(length: Any) -> None:
    assert repr(TumblingEventTimeWindows.of(length)) == "TumblingEventTimeWindows(2000, 0)"


REFUSED = [
    (lambda: TumblingEventTimeWindows(0, 0), r"TumblingEventTimeWindows must satisfy size > 0 .* 0 ms"),
    (lambda: TumblingProcessingTimeWindows.of(Time.seconds(-1)), "size > 0"),
    (lambda: TumblingEventTimeWindows(10, 10), r"abs\(offset\) < size"),
    (lambda: TumblingEventTimeWindows(10, -10), r"abs\(offset\) < size"),
    (lambda: TumblingEventTimeWindows.of(10), r"must be a Time, such as Time.seconds\(10\)"),
    (lambda: TumblingEventTimeWindows(1.5, 0), "must be a whole number"),
    (lambda: SlidingEventTimeWindows(0, 5, 0), "size > 0"),
    (lambda: SlidingEventTimeWindows(10, 0, 0), r"abs\(offset\) < slide"),
    (lambda: SlidingProcessingTimeWindows(10, 5, 5), r"abs\(offset\) < slide"),
    (lambda: SlidingEventTimeWindows(10, -5, 0), r"abs\(offset\) < slide"),
    (lambda: EventTimeSessionWindows.with_gap(Time.seconds(0)), "gap > 0"),
    (lambda: ProcessingTimeSessionWindows(-1), "gap > 0"),
    (lambda: DynamicEventTimeSessionWindows(lambda record: 5), "needs a SessionWindowTimeGapExtractor"),
    (lambda: CountTumblingWindowAssigner(0), "size > 0"),
    (lambda: CountSlidingWindowAssigner(5, 0), "slide > 0"),
    (lambda: CountTrigger.of(0), "at least one record"),
    (lambda: ContinuousEventTimeTrigger.of(Time.seconds(0)), "interval > 0"),
    (lambda: PurgingTrigger.of(CountTrigger), "takes a Trigger"),
    (lambda: CountEvictor.of(-1), "cannot keep -1 records"),
    (lambda: window_namespaces(None), "must return a TypeSerializer"),
]


@pytest.mark.parametrize(("make", "message"), REFUSED)
def test_what_cannot_be_a_window_is_refused_where_it_is_written(make: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        make()


@pytest.mark.parametrize(
    ("serializer", "window", "namespace"),
    [
        (TimeWindowSerializer(), TimeWindow(-5, 7), (-5, 7)),
        (CountWindowSerializer(), CountWindow(3), 3),
        (GlobalWindowSerializer(), GlobalWindow.get(), 0),
    ],
)
def test_windows_survive_their_bytes_and_their_namespaces(
    serializer: Any, window: Any, namespace: Any
) -> None:
    stream = BytesIO()
    serializer.serialize(window, stream)
    stream.seek(0)
    assert serializer.deserialize(stream) == window
    namespaces = window_namespaces(serializer)
    assert namespaces.encode(window) == namespace
    assert namespaces.decode(namespace) == window
    assert hash(namespaces.decode(namespace)) == hash(window)


def test_a_global_window_is_for_everything() -> None:
    assert GlobalWindows.create().assign_windows("record", 5, None) == (GlobalWindow.get(),)  # type: ignore[arg-type]
