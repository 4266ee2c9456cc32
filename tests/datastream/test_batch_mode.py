"""Batch mode: bounded sources, final values, event time that passes at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from tidegate.common import WatermarkStrategy
from tidegate.common.errors import ConfigurationError
from tidegate.common.watermark_strategy import TimestampAssigner
from tidegate.datastream import (
    KeyedProcessFunction,
    RuntimeExecutionMode,
    Source,
    SourceReader,
    StreamExecutionEnvironment,
)
from tidegate.protocol.elements import Batch

from .jobs import environment

RECORDS = [("a", 3), ("b", 5), ("a", 1), ("a", 2), ("b", 4)]


def batch(directory: Any = None, parallelism: int = 1, **options: str) -> StreamExecutionEnvironment:
    env = environment(directory, parallelism, options)
    return env.set_runtime_mode(RuntimeExecutionMode.BATCH)


@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("backend", ["hashmap", "lmdb"])
@pytest.mark.parametrize(
    ("aggregate", "expected"),
    [
        (lambda keyed: keyed.reduce(lambda one, two: (one[0], one[1] + two[1])), [("a", 6), ("b", 9)]),
        (lambda keyed: keyed.sum(1), [("a", 6), ("b", 9)]),
        (lambda keyed: keyed.min(1), [("a", 1), ("b", 4)]),
        (lambda keyed: keyed.max(1), [("a", 3), ("b", 5)]),
        (lambda keyed: keyed.min_by(1), [("a", 1), ("b", 4)]),
        (lambda keyed: keyed.max_by(1), [("a", 3), ("b", 5)]),
    ],
)
def test_aggregates_emit_final_values_only(
    aggregate: Callable[[Any], Any], expected: Any, backend: str, parallelism: int, tmp_path: Any
) -> None:
    options = {"state.backend.type": backend, "tidegate.local-dir": str(tmp_path)}
    env = batch(parallelism=parallelism, **options)
    keyed = env.from_collection(RECORDS).key_by(lambda record: record[0])
    assert sorted(aggregate(keyed).execute_and_collect()) == expected


def test_one_aggregate_may_follow_another() -> None:
    env = batch(parallelism=2)
    sums = env.from_collection(RECORDS).key_by(lambda record: record[0]).sum(1)
    total = sums.map(lambda record: record[1]).key_by(lambda value: 0).sum()
    assert list(total.execute_and_collect()) == [15]


def test_final_values_come_once_with_checkpoints_too(tmp_path: Any) -> None:
    env = batch(tmp_path, parallelism=2)
    keyed = env.from_collection([(number % 10, 1) for number in range(20_000)]).key_by(
        lambda record: record[0]
    )
    assert sorted(keyed.sum(1).uid("sum").execute_and_collect()) == [(key, 2_000) for key in range(10)]


class Seen(KeyedProcessFunction):
    """Tells the watermark with every record, and how its timer came."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        ctx.timer_service().register_event_time_timer(5)
        yield "record", ctx.timestamp(), ctx.timer_service().current_watermark()

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
        yield "timer", timestamp, ctx.timer_service().current_watermark()


def test_event_time_passes_at_the_end() -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(_SecondField())
    env = batch(**{"pipeline.auto-watermark-interval": "1 ms"})
    stamped = env.from_collection([("a", 1), ("a", 1_000)]).assign_timestamps_and_watermarks(strategy)
    results = list(stamped.key_by(lambda record: record[0]).process(Seen()).execute_and_collect())
    lowest, highest = -(1 << 63), (1 << 63) - 1
    assert results == [("record", 1, lowest), ("record", 1_000, lowest), ("timer", 5, highest)]


class _SecondField(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[1])


class Later(KeyedProcessFunction):
    """Waits an hour of processing time."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        service = ctx.timer_service()
        service.register_processing_time_timer(service.current_processing_time() + 3_600_000)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
        yield ctx.get_current_key(), ctx.time_domain().name


def test_timers_of_processing_time_fire_at_the_end() -> None:
    keyed = batch().from_collection([1, 2]).key_by(lambda value: value)
    assert sorted(keyed.process(Later()).execute_and_collect()) == [
        (1, "PROCESSING_TIME"),
        (2, "PROCESSING_TIME"),
    ]
    keyed = environment().from_collection([1, 2]).key_by(lambda value: value)
    assert list(keyed.process(Later()).execute_and_collect()) == []


class Endless(Source):
    def create_splits(self, parallelism: int) -> list[Any]:
        return [0]

    def create_reader(self, splits: list[Any]) -> SourceReader:
        return _Three()


class _Three(SourceReader):
    """Says nothing of its end, and ends after three records all the same."""

    def __init__(self) -> None:
        self.left = 3

    def poll(self, max_records: int) -> Batch | None:
        self.left -= 1
        return None if self.left < 0 else Batch([1])

    def snapshot_state(self) -> list[Any]:
        return [self.left]


def summed(env: StreamExecutionEnvironment) -> list[Any]:
    source = env.from_source(Endless(), WatermarkStrategy.no_watermarks(), "Endless")
    return list(source.key_by(lambda value: 0).sum().execute_and_collect())


def test_a_source_that_may_never_end_cannot_run_in_batch_mode() -> None:
    with pytest.raises(ConfigurationError, match=r"'Endless' \(test_batch_mode.py:\d+\) may never end"):
        summed(batch())


def test_automatic_mode_is_batch_mode_where_every_source_ends() -> None:
    automatic = RuntimeExecutionMode.AUTOMATIC
    assert summed(environment().set_runtime_mode(automatic)) == [1, 2, 3]
    keyed = environment().set_runtime_mode(automatic).from_collection([1, 2]).key_by(lambda value: 0)
    assert list(keyed.sum().execute_and_collect()) == [3]


def test_the_mode_can_come_from_outside() -> None:
    keyed = (
        environment(options={"execution.runtime-mode": "batch"})
        .from_collection([1, 2])
        .key_by(lambda value: 0)
    )
    assert list(keyed.sum().execute_and_collect()) == [3]
    with pytest.raises(ConfigurationError, match="takes a RuntimeExecutionMode, not 'BATCH'"):
        environment().set_runtime_mode("BATCH")  # type: ignore[arg-type]
