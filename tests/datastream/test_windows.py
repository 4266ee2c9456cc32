"""Windows and joins in whole jobs: from a source to the driver."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tidegate.common import Types, WatermarkStrategy
from tidegate.common.errors import ConfigurationError
from tidegate.common.time import Time
from tidegate.datastream import (
    AggregateFunction,
    CoGroupFunction,
    DataStream,
    FlatJoinFunction,
    JoinFunction,
    OutputTag,
    ProcessAllWindowFunction,
    ProcessJoinFunction,
    ProcessWindowFunction,
    ReduceFunction,
    RuntimeContext,
    Source,
    SourceReader,
    StreamExecutionEnvironment,
    TimeWindow,
)
from tidegate.datastream.window import (
    CountEvictor,
    CountTrigger,
    DeltaTrigger,
    EventTimeSessionWindows,
    GlobalWindows,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from tidegate.protocol.elements import Batch

from .jobs import environment

Record = tuple[str, int, int]
"""Key, value and event time in milliseconds."""


class Timed(Source):
    """Records with the event times in them, a few in a batch."""

    def __init__(self, records: list[Any]) -> None:
        self.records = records

    def create_splits(self, parallelism: int) -> list[Any]:
        return [0]

    def create_reader(self, splits: list[Any]) -> SourceReader:
        return TimedReader(self.records, splits)


class TimedReader(SourceReader):
    def __init__(self, records: list[Any], positions: list[int]) -> None:
        self._records = records
        self._position = positions[0] if positions else len(records)

    def poll(self, max_records: int) -> Batch | None:
        part = self._records[self._position : self._position + 3]
        self._position += len(part)
        return Batch(part, [record[-1] for record in part]) if part else None

    def snapshot_state(self) -> list[Any]:
        return [self._position]


RECORDS = [("a", 1, 1), ("b", 10, 2), ("a", 2, 4), ("a", 3, 11), ("b", 20, 14), ("a", 4, 12), ("a", 5, 31)]


def key_of(record: Any) -> Any:
    return record[0]


def stream_of(env: StreamExecutionEnvironment, records: list[Any] = RECORDS) -> DataStream:
    return env.from_source(Timed(records), WatermarkStrategy.no_watermarks(), "timed")


def results(stream: DataStream) -> list[Any]:
    return sorted(stream.execute_and_collect(limit=1_000), key=repr)


class Total(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Record, accumulator: int) -> int:
        return accumulator + value[1]

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


class Placed(ProcessWindowFunction[Any, Any, str, TimeWindow]):
    def process(
        self, key: str, context: ProcessWindowFunction.Context[TimeWindow], elements: Iterable[Any]
    ) -> Iterator[Any]:
        yield key, context.window().start, context.window().end, list(elements)


TEN = TumblingEventTimeWindows.of(Time.milliseconds(10))


@pytest.mark.parametrize("parallelism", [1, 2])
def test_the_end_of_the_input_fires_every_window_by_event_time(parallelism: int) -> None:
    windows = stream_of(environment(parallelism=parallelism)).key_by(key_of).window(TEN)
    assert results(windows.aggregate(Total(), Placed(), accumulator_type=Types.LONG())) == [
        ("a", 0, 10, [3]), ("a", 10, 20, [7]), ("a", 30, 40, [5]), ("b", 0, 10, [10]), ("b", 10, 20, [20])
    ]  # fmt: skip


def test_sliding_windows_and_sessions() -> None:
    sliding = SlidingEventTimeWindows.of(Time.milliseconds(20), Time.milliseconds(10))
    windows = stream_of(environment()).key_by(key_of).window(sliding)
    assert results(windows.aggregate(Total(), Placed())) == [
        ("a", -10, 10, [3]), ("a", 0, 20, [10]), ("a", 10, 30, [7]), ("a", 20, 40, [5]),
        ("a", 30, 50, [5]), ("b", -10, 10, [10]), ("b", 0, 20, [30]), ("b", 10, 30, [20]),
    ]  # fmt: skip
    sessions = EventTimeSessionWindows.with_gap(Time.milliseconds(8))
    windows = stream_of(environment()).key_by(key_of).window(sessions)
    assert results(windows.process(Placed())) == [
        ("a", 1, 20, [("a", 1, 1), ("a", 2, 4), ("a", 3, 11), ("a", 4, 12)]),
        ("a", 31, 39, [("a", 5, 31)]),
        ("b", 14, 22, [("b", 20, 14)]),
        ("b", 2, 10, [("b", 10, 2)]),
    ]


class Larger(ReduceFunction):
    def reduce(self, value1: Any, value2: Any) -> Any:
        return max(value1, value2, key=lambda record: record[1])


def test_a_reduce_with_and_without_a_window_function() -> None:
    windows = stream_of(environment()).key_by(key_of).window(TEN)
    expected = [("a", 2, 4), ("a", 4, 12), ("a", 5, 31), ("b", 10, 2), ("b", 20, 14)]
    assert results(windows.reduce(Larger())) == expected
    windows = stream_of(environment()).key_by(key_of).window(TEN)
    applied = windows.reduce(Larger(), lambda key, window, found: [(window.start, *found)])
    assert [result[1] for result in results(applied)] == [
        ("a", 2, 4), ("b", 10, 2), ("a", 4, 12), ("b", 20, 14), ("a", 5, 31)
    ]  # fmt: skip


def test_count_windows_fire_only_when_full() -> None:
    counted = stream_of(environment()).key_by(key_of).count_window(2)
    assert results(counted.aggregate(Total())) == [3, 30, 7]
    counted = stream_of(environment()).key_by(key_of).count_window(3, 1)
    assert results(counted.aggregate(Total())) == [12, 6, 9]


class Everything(ProcessAllWindowFunction[Any, Any, TimeWindow]):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.parallelism = runtime_context.get_number_of_parallel_subtasks()

    def process(
        self, context: ProcessAllWindowFunction.Context[TimeWindow], elements: Iterable[Any]
    ) -> Iterator[Any]:
        yield context.window().start, sorted(value for _, value, _ in elements), self.parallelism


def test_windows_of_everything_run_in_one_subtask() -> None:
    windows = stream_of(environment(parallelism=2)).window_all(TEN)
    assert results(windows.process(Everything())) == [
        (0, [1, 2, 10], 1), (10, [3, 4, 20], 1), (30, [5], 1)
    ]  # fmt: skip
    windows = stream_of(environment()).window_all(TEN)
    assert results(windows.aggregate(Total())) == [13, 27, 5]


def test_triggers_and_evictors_of_a_stream() -> None:
    windows = stream_of(environment()).key_by(key_of).window(GlobalWindows.create())
    purging = windows.trigger(PurgingTrigger.of(CountTrigger.of(2)))
    assert results(purging.aggregate(Total())) == [3, 30, 7]
    windows = stream_of(environment()).key_by(key_of).window(GlobalWindows.create())
    evicting = windows.trigger(CountTrigger.of(2)).evictor(CountEvictor.of(1))
    assert results(evicting.aggregate(Total())) == [2, 20, 4]


def test_windows_survive_crashes_and_checkpoints(tmp_path: Path) -> None:
    # The map before the windows fails once, between two checkpoints.
    records = [("a" if number % 3 else "b", 1, number) for number in range(600)]
    env = environment(tmp_path, parallelism=2)
    marker = tmp_path / "failed"

    def fail_once(record: Any) -> Any:
        if record[2] == 400 and not marker.exists():
            marker.touch()
            raise RuntimeError("once")
        return record

    windows = (
        stream_of(env, records)
        .map(fail_once)
        .key_by(key_of)
        .window(TumblingEventTimeWindows.of(Time.milliseconds(1_000)))
    )
    assert results(windows.aggregate(Total(), Placed())) == [("a", 0, 1000, [400]), ("b", 0, 1000, [200])]
    assert marker.exists()


# ------------------------------------------------------------ joins

LEFT = [("a", "l1", 1), ("a", "l2", 11), ("b", "l3", 3), ("c", "l4", 4)]
RIGHT = [("x", "r1", 2, "a"), ("x", "r2", 8, "a"), ("x", "r3", 25, "a"), ("x", "r4", 5, "b")]


def times_of(records: list[Any]) -> list[Any]:
    """The same records with their event time last."""
    return [(*record[:2], record[3], record[2]) for record in records]


class Pair(JoinFunction):
    def join(self, first: Any, second: Any) -> Any:
        return first[1], second[1]


class Twice(FlatJoinFunction):
    def join(self, first: Any, second: Any) -> Iterable[Any] | None:
        return None if first[0] == "b" else [(first[1], second[1])] * 2


class Names(CoGroupFunction):
    def co_group(self, first: list[Any], second: list[Any]) -> Iterator[Any]:
        yield [record[1] for record in first], [record[1] for record in second]


def third(record: Any) -> Any:
    return record[2]


def test_a_window_join_pairs_what_has_one_key_in_one_window() -> None:
    def joined(function: Any) -> list[Any]:
        env = environment(parallelism=2)
        left, right = stream_of(env, LEFT), stream_of(env, times_of(RIGHT))
        return results(left.join(right).where(key_of).equal_to(third).window(TEN).apply(function))

    pairs = [("l1", "r1"), ("l1", "r2"), ("l3", "r4")]
    assert joined(Pair()) == pairs
    assert joined(lambda first, second: (first[1], second[1])) == pairs
    assert joined(Twice()) == [("l1", "r1")] * 2 + [("l1", "r2")] * 2


def test_a_co_group_brings_both_sides_of_a_key_together_also_when_one_is_empty() -> None:
    env = environment(parallelism=2)
    left, right = stream_of(env, LEFT), stream_of(env, times_of(RIGHT))
    grouped = left.co_group(right).where(key_of).equal_to(third).window(TEN).apply(Names())
    assert results(grouped) == [
        (["l1"], ["r1", "r2"]), (["l2"], []), (["l3"], ["r4"]), (["l4"], []), ([], ["r3"])
    ]  # fmt: skip


class Near(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Iterator[Any]:
        yield left[1], right[1], ctx.get_timestamp()


@pytest.mark.parametrize(
    ("exclusive", "expected"),
    [
        ("", [("l1", "r1", 2), ("l2", "r2", 11), ("l3", "r4", 5)]),
        ("lower", [("l1", "r1", 2), ("l3", "r4", 5)]),
        ("upper", [("l1", "r1", 2), ("l2", "r2", 11)]),
    ],
)
def test_an_interval_join_pairs_records_that_are_close(exclusive: str, expected: list[Any]) -> None:
    env = environment(parallelism=2)
    left, right = stream_of(env, LEFT), stream_of(env, times_of(RIGHT))
    near = left.key_by(key_of).interval_join(right.key_by(third))
    near_by = near.between(Time.milliseconds(-3), Time.milliseconds(2))
    if exclusive == "lower":
        near_by.lower_bound_exclusive()
    if exclusive == "upper":
        near_by.upper_bound_exclusive()
    assert results(near_by.process(Near())) == expected


# ------------------------------------------------------------ what is refused


def refused() -> list[Any]:
    def keyed() -> Any:
        return stream_of(environment()).key_by(key_of)

    sessions = EventTimeSessionWindows.with_gap(Time.seconds(1))
    return [
        (lambda: keyed().window("ten seconds"), "take a WindowAssigner"),
        (lambda: keyed().count_window(0), "size > 0"),
        (lambda: keyed().window(TEN).trigger("never"), r"trigger\(\) takes a Trigger"),
        (lambda: keyed().window(TEN).evictor(CountTrigger.of(2)), r"evictor\(\) takes an Evictor"),
        (lambda: keyed().window(sessions).trigger(DeltaTrigger.of(1, max)), "DeltaTrigger cannot"),
        (lambda: keyed().window(TEN).allowed_lateness(-1), "cannot be negative"),
        (lambda: keyed().window(TEN).allowed_lateness(1.5), "must be a Time"),
        (lambda: keyed().window(TEN).side_output_late_data("late"), "takes an OutputTag"),
        (lambda: keyed().window(TEN).reduce(5), "neither callable nor has a method reduce"),
        (lambda: keyed().window(TEN).aggregate(Larger()), "has no method create_accumulator"),
        (lambda: keyed().window(TEN).aggregate(Total(), 5), "neither callable"),
        (lambda: keyed().window(TEN).process(5), "neither callable nor has a method process"),
        (
            lambda: keyed().interval_join(keyed()).between(Time.seconds(2), Time.seconds(1)),
            "lower bound .* must not be above",
        ),
        (
            lambda: (
                keyed()
                .interval_join(keyed())
                .between(Time.seconds(1), Time.seconds(1))
                .lower_bound_exclusive()
                .process(Near())
            ),
            "lower bound .* must not be above",
        ),
    ]


@pytest.mark.parametrize("number", range(len(refused())))
def test_what_cannot_work_is_refused_where_it_is_written(number: int) -> None:
    call, message = refused()[number]
    with pytest.raises(ConfigurationError, match=message):
        call()


def test_late_records_go_to_their_side_output() -> None:
    late = OutputTag("late")
    windows = stream_of(environment()).key_by(key_of).window(TEN).side_output_late_data(late)
    counted = windows.aggregate(Total())
    assert results(counted.get_side_output(late)) == []
