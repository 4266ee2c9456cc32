"""Strategies in `from_source` and on streams, and sources that wait for each other."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from tidegate.common import Duration, WatermarkStrategy
from tidegate.common.errors import ConfigurationError, JobExecutionError
from tidegate.common.watermark_strategy import TimestampAssigner
from tidegate.datastream import (
    DataStream,
    MapFunction,
    ProcessFunction,
    Source,
    SourceReader,
    StreamExecutionEnvironment,
)
from tidegate.datastream.connectors.number_seq import NumberSequenceSource
from tidegate.protocol.elements import Batch

from .jobs import environment


class Itself(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return value  # type: ignore[no-any-return]


class Times(ProcessFunction):
    """The record, its time, and the watermark when it came."""

    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Any:
        yield value, ctx.timestamp()


def monotonous() -> WatermarkStrategy:
    return WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Itself())


def collect(stream: DataStream) -> list[Any]:
    with stream.execute_and_collect() as results:
        return list(results)


def test_a_strategy_of_a_source_gives_its_records_times() -> None:
    stream = environment().from_source(NumberSequenceSource(1, 5), monotonous(), "numbers")
    assert collect(stream.process(Times())) == [(n, n) for n in range(1, 6)]


def test_a_strategy_of_a_stream_replaces_the_times_of_its_source() -> None:
    env = environment()
    stream = env.from_collection([3, 1, 2]).assign_timestamps_and_watermarks(monotonous())
    assert collect(stream.process(Times())) == [(3, 3), (1, 1), (2, 2)]


def test_a_source_without_times_takes_a_strategy_that_needs_none() -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    assert collect(environment().from_source(NumberSequenceSource(1, 3), strategy, "numbers")) == [1, 2, 3]


def test_a_null_time_fails_the_job_and_names_the_record() -> None:
    env = environment()
    stream = env.from_collection([1, None]).assign_timestamps_and_watermarks(monotonous())
    with pytest.raises(JobExecutionError, match=r"the timestamp of the record None is None"):
        collect(stream)


def test_alignment_is_for_sources() -> None:
    strategy = monotonous().with_watermark_alignment("g", Duration.of_millis(5))
    with pytest.raises(ConfigurationError, match="works for sources only"):
        environment().from_collection([1]).assign_timestamps_and_watermarks(strategy)


# ---------------------------------------------------------------- alignment


class Steps(Source):
    """The multiples of `step` up to `end`, one at a time."""

    def __init__(self, step: int, end: int) -> None:
        self.step = step
        self.end = end

    def create_splits(self, parallelism: int) -> list[Any]:
        return [0]

    def create_reader(self, splits: list[Any]) -> SourceReader:
        return StepsReader(self, splits)

    def max_source_parallelism(self) -> int | None:
        return 1


class StepsReader(SourceReader):
    def __init__(self, source: Steps, splits: list[int]) -> None:
        self.source = source
        self.position = splits[0]

    def poll(self, max_records: int) -> Batch | None:
        if self.position > self.source.end:
            return None
        values = [self.position]
        self.position += self.source.step
        return Batch(values)

    def snapshot_state(self) -> list[Any]:
        return [self.position]


class Furthest(MapFunction):
    """How far one of two sources ever was ahead of the other, until that ended."""

    reached: ClassVar[dict[str, int]] = {}
    ahead: ClassVar[int] = 0

    def __init__(self, name: str) -> None:
        self.name = name

    def map(self, value: Any) -> Any:
        Furthest.reached[self.name] = value
        if Furthest.reached.get("slow", 300) < 300 and "fast" in Furthest.reached:
            Furthest.ahead = max(Furthest.ahead, Furthest.reached["fast"] - Furthest.reached["slow"])
        return value


def two_sources(env: StreamExecutionEnvironment, strategy: WatermarkStrategy) -> list[Any]:
    Furthest.reached, Furthest.ahead = {}, 0
    fast = env.from_source(Steps(100, 20_000), strategy, "fast").map(Furthest("fast"))
    slow = env.from_source(Steps(1, 300), strategy, "slow").map(Furthest("slow"))
    return collect(fast.union(slow))


def test_a_fast_source_waits_for_the_slow_one_of_its_group() -> None:
    strategy = monotonous().with_watermark_alignment("g", Duration.of_millis(250), Duration.of_millis(1))
    got = two_sources(environment(), strategy)
    assert sorted(got) == sorted([*range(0, 20_001, 100), *range(301)])
    # The drift, and the step that took it beyond.
    assert Furthest.ahead <= 250 + 100


def test_without_alignment_the_fast_source_runs_ahead() -> None:
    two_sources(environment(), monotonous())
    assert Furthest.ahead > 10_000


def test_an_aligned_job_goes_on_after_a_crash(tmp_path: Any) -> None:
    strategy = monotonous().with_watermark_alignment("g", Duration.of_millis(250), Duration.of_millis(1))
    env = environment(tmp_path)
    fast = env.from_source(Steps(100, 20_000), strategy, "fast").uid("fast")
    slow = env.from_source(Steps(1, 300), strategy, "slow").uid("slow").map(CrashOnce()).uid("crash")
    CrashOnce.armed = True
    assert sorted(collect(fast.union(slow))) == sorted([*range(0, 20_001, 100), *range(301)])
    assert not CrashOnce.armed


class CrashOnce(MapFunction):
    armed: ClassVar[bool] = True

    def map(self, value: Any) -> Any:
        if value == 200 and CrashOnce.armed:
            CrashOnce.armed = False
            raise RuntimeError("crash")
        return value
