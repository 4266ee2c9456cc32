"""Strategies give records their times and streams their watermarks, a batch at a time."""

from __future__ import annotations

from typing import Any

import pytest
from tidegate.common import Duration
from tidegate.common.errors import ConfigurationError, UserCodeError
from tidegate.common.watermark_generators import NO_TIMESTAMP
from tidegate.common.watermark_strategy import (
    TimestampAssigner,
    WatermarkGenerator,
    WatermarkOutput,
    WatermarkStrategy,
)
from tidegate.operators.event_time import TimestampsAndWatermarksOperator
from tidegate.protocol.elements import MAX_WATERMARK_MS

from .harness import OperatorUnderTest

Test = OperatorUnderTest[TimestampsAndWatermarksOperator]


def stream(strategy: WatermarkStrategy) -> Test:
    return OperatorUnderTest(TimestampsAndWatermarksOperator(strategy)).open()


def pass_ms(test: Test, milliseconds: int) -> None:
    """Time passes, in steps of the interval of automatic watermarks."""
    for _ in range(milliseconds // 200):
        test.now_ms += 200
        test.processing_time.run_due()


class Itself(TimestampAssigner):
    """Every record is its own time."""

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return value  # type: ignore[no-any-return]


class Later(TimestampAssigner):
    """A record happened ten milliseconds later than it said."""

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return 0 if record_timestamp == NO_TIMESTAMP else record_timestamp + 10


def bounded(milliseconds: int) -> WatermarkStrategy:
    return WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(milliseconds))


def test_the_assigner_sees_the_time_before_and_gives_the_one_after() -> None:
    test = stream(WatermarkStrategy.no_watermarks().with_timestamp_assigner(Later()))
    test.process(["a", "b"], [1, 2])
    test.process(["c"])
    assert test.records() == [("a", 11), ("b", 12), ("c", 0)]


def test_a_bounded_stream_is_at_its_highest_time_less_the_bound_and_a_millisecond() -> None:
    test = stream(bounded(5).with_timestamp_assigner(Itself()))
    test.process([10, 30, 20])
    assert test.watermarks == []
    pass_ms(test, 200)
    assert test.watermarks == [24]
    test.process([15])
    pass_ms(test, 200)
    assert test.watermarks == [24]
    test.process([40])
    pass_ms(test, 200)
    assert test.watermarks == [24, 34]


def test_a_monotonous_stream_is_a_millisecond_behind_its_last_record() -> None:
    test = stream(WatermarkStrategy.for_monotonous_timestamps())
    test.process(["a", "b"], [-7, 3])
    pass_ms(test, 200)
    assert test.watermarks == [2]


def test_records_without_times_advance_nothing() -> None:
    test = stream(WatermarkStrategy.for_monotonous_timestamps())
    test.process(["a", "b"])
    pass_ms(test, 1_000)
    assert test.records() == [("a", None), ("b", None)]
    assert test.watermarks == []


def test_only_the_last_watermark_of_upstream_passes() -> None:
    test = stream(WatermarkStrategy.for_monotonous_timestamps())
    test.operator.process_watermark(5)
    test.operator.process_status(True)
    assert (test.watermarks, test.statuses) == ([], [])
    test.operator.process_watermark(MAX_WATERMARK_MS)
    assert test.watermarks == [MAX_WATERMARK_MS]


# ---------------------------------------------------------------- generators


class Punctuated(WatermarkGenerator):
    """A record "w" of some time is a watermark of that time."""

    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        if event == "w":
            output.emit_watermark(event_timestamp)

    def on_periodic_emit(self, output: WatermarkOutput) -> None: ...


def test_a_punctuated_generator_cuts_the_batch_behind_the_record_it_saw() -> None:
    test = stream(WatermarkStrategy.for_generator(Punctuated()))
    test.process(["a", "w", "b", "w", "c"], [1, 2, 3, 4, 5])
    assert [batch.values for batch in test.emitted] == [["a", "w"], ["b", "w"], ["c"]]
    assert [list(batch.timestamps or []) for batch in test.emitted] == [[1, 2], [3, 4], [5]]
    assert test.watermarks == [2, 4]


class Counting(WatermarkGenerator):
    """The number of records, from time to time."""

    def __init__(self) -> None:
        self.count = 0

    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        self.count += 1

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        output.emit_watermark(self.count)


def test_a_periodic_generator_is_asked_every_interval_and_nothing_goes_back() -> None:
    test = stream(WatermarkStrategy.for_generator(Counting()))
    for _ in range(3):
        test.process(["x", "y"])
        pass_ms(test, 400)
    assert test.watermarks == [2, 4, 6]


def test_two_streams_of_one_strategy_do_not_share_a_generator() -> None:
    strategy = bounded(0).with_timestamp_assigner(Itself())
    first, second = stream(strategy), stream(strategy)
    first.process([100])
    second.process([5])
    pass_ms(second, 200)
    assert second.watermarks == [4]


# ---------------------------------------------------------------- idleness


def test_a_stream_without_records_becomes_idle_and_a_record_wakes_it() -> None:
    test = stream(bounded(0).with_timestamp_assigner(Itself()).with_idleness(Duration.of_seconds(1)))
    test.process([10])
    pass_ms(test, 1_000)
    assert test.statuses == []
    pass_ms(test, 400)
    assert test.statuses == [True]
    pass_ms(test, 2_000)
    assert test.statuses == [True]
    test.process([20])
    pass_ms(test, 200)
    assert test.statuses == [True, False]
    assert test.watermarks == [9, 19]


def test_a_stream_that_never_had_a_record_becomes_idle_too() -> None:
    test = stream(bounded(0).with_idleness(Duration.of_millis(400)))
    pass_ms(test, 600)
    assert test.statuses == [True]


def test_a_steady_stream_never_becomes_idle() -> None:
    test = stream(bounded(0).with_timestamp_assigner(Itself()).with_idleness(Duration.of_millis(400)))
    for number in range(20):
        test.process([number])
        pass_ms(test, 200)
    assert test.statuses == []


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("timestamp", "advice"),
    [
        (None, "filter out those that have none"),
        ("now", "it must be an int"),
        (1.0, "it must be an int"),
        (True, "it must be an int"),
        (1 << 63, "it must fit into 64 bits"),
        (MAX_WATERMARK_MS, "less than the last watermark"),
        (-(1 << 63), "it must fit into 64 bits"),
    ],
)
def test_an_impossible_time_names_operator_record_and_what_to_do(timestamp: Any, advice: str) -> None:
    test = stream(bounded(0).with_timestamp_assigner(Itself()))
    with pytest.raises(UserCodeError) as failure:
        test.process([1, timestamp, 3])
    assert f"Totals (1/2): the timestamp of the record {timestamp!r} is {timestamp!r}" in str(failure.value)
    assert advice in str(failure.value)


@pytest.mark.parametrize("timestamp", [-1, -(1 << 63) + 1, (1 << 63) - 2])
def test_times_before_1970_and_far_ahead_are_times(timestamp: int) -> None:
    test = stream(WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Itself()))
    test.process([timestamp])
    pass_ms(test, 200)
    assert test.records() == [(timestamp, timestamp)]


class Broken(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return value["time"]  # type: ignore[no-any-return]


def test_an_assigner_that_raises_names_the_record() -> None:
    test = stream(bounded(0).with_timestamp_assigner(Broken()))
    with pytest.raises(
        UserCodeError, match=r"extract_timestamp\(\) raised KeyError: 'time' on the record {}"
    ):
        test.process([{"time": 1}, {}, {"time": 3}])


class Raising(WatermarkGenerator):
    def __init__(self, where: str) -> None:
        self.where = where

    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        if self.where == "on_event":
            raise ValueError("boom")
        if self.where == "watermark":
            output.emit_watermark(None)  # type: ignore[arg-type]

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        raise ValueError("boom")


def test_a_generator_that_raises_names_its_method() -> None:
    with pytest.raises(UserCodeError, match=r"on_event\(\) raised ValueError: boom on the record 'x'"):
        stream(WatermarkStrategy.for_generator(Raising("on_event"))).process(["x"])
    with pytest.raises(UserCodeError, match=r"on_periodic_emit\(\) raised ValueError: boom"):
        pass_ms(stream(WatermarkStrategy.for_generator(Raising("periodic"))), 200)
    with pytest.raises(UserCodeError, match="None cannot be a watermark"):
        stream(WatermarkStrategy.for_generator(Raising("watermark"))).process(["x"])


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: bounded(-1), "max_out_of_orderness is -1 ms"),
        (lambda: WatermarkStrategy.for_bounded_out_of_orderness(5), "takes a Duration, not 5"),
        (lambda: bounded(0).with_idleness(Duration.of_millis(0)), "idle_timeout is 0 ms"),
        (lambda: bounded(0).with_timestamp_assigner(lambda value, before: 1), "takes a TimestampAssigner"),
        (lambda: WatermarkStrategy.for_generator(Counting), "takes a WatermarkGenerator"),
        (
            lambda: bounded(0).with_watermark_alignment("g", Duration.of_millis(-1)),
            "max_allowed_watermark_drift is -1 ms",
        ),
    ],
)
def test_a_strategy_that_cannot_work_is_refused_at_once(make: Any, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        make()
