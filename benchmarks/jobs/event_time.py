"""W4: a count and a sum per key in tumbling windows of ten seconds, over records out of order.

Called for each record (`stateful` in the sense of Flink's AggregateFunction), or in columns.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
from tidegate.common import Duration, Types, WatermarkStrategy
from tidegate.common.time import Time
from tidegate.common.watermark_strategy import TimestampAssigner
from tidegate.datastream import (
    AggregateFunction,
    Count,
    DataStream,
    ProcessWindowFunction,
    Source,
    SourceReader,
    StreamExecutionEnvironment,
    Sum,
)
from tidegate.datastream.window import TimeWindow, TumblingEventTimeWindows
from tidegate.operators.columnar.columns import as_timestamps
from tidegate.protocol.elements import Batch

from ..peers.measure import (
    DISORDER_MS,
    MULTIPLIER,
    RECORDS_PER_MS,
    WINDOW_MS,
    Orders,
    event_time_ms,
)
from .parts import KeyOf, TallySink, TimedReader, configuration

RESULT = Types.TUPLE([Types.LONG(), Types.LONG(), Types.LONG(), Types.LONG()])
COLUMNS = pa.schema({"k": pa.int64(), "v": pa.int64()})
Accumulator = tuple[int, int]


class InterleavedNumbers(Source):
    """The numbers 0 … records-1; subtask s of p has every p-th from s on, so that all are equally far.

    Args:
        orders: how many there are.
        as_columns: Arrow batches of key and number, with event times, made without a loop.
    """

    def __init__(self, orders: Orders, as_columns: bool = False) -> None:
        self._orders = orders
        self._as_columns = as_columns

    def create_splits(self, parallelism: int) -> list[Any]:
        return [(first, parallelism) for first in range(parallelism)]

    def create_reader(self, splits: list[Any]) -> SourceReader:
        kind = _Columns if self._as_columns else _Numbers
        return TimedReader(kind(self._orders, splits), self._orders.marks_dir)


class _Numbers(SourceReader):
    def __init__(self, orders: Orders, splits: list[tuple[int, int]]) -> None:
        self._orders = orders
        self._split = splits[0] if splits else None

    def poll(self, max_records: int) -> Batch | None:
        numbers = self._take(max_records)
        return None if numbers is None else Batch(list(numbers))

    def snapshot_state(self) -> list[Any]:
        return [] if self._split is None else [self._split]

    def _take(self, count: int) -> range | None:
        if self._split is None or self._split[0] >= self._orders.records:
            return None
        first, step = self._split
        stop = min(first + count * step, self._orders.records)
        numbers = range(first, stop, step)
        self._split = (first + len(numbers) * step, step)
        return numbers


class _Columns(_Numbers):
    ROWS = 65_536

    def poll(self, max_records: int) -> Batch | None:
        taken = self._take(self.ROWS)
        if taken is None:
            return None
        numbers = np.arange(taken.start, taken.stop, taken.step, dtype=np.int64)
        # Below 2^32 each, so no product of a number of a run leaves 64 bits.
        keys = numbers * MULTIPLIER % self._orders.keys
        times = numbers // RECORDS_PER_MS + DISORDER_MS - numbers * 40503 % DISORDER_MS
        return Batch(pa.record_batch({"k": keys, "v": numbers}, schema=COLUMNS), as_timestamps(times))


class _EventTime(TimestampAssigner):
    def extract_timestamp(self, value: int, record_timestamp: int) -> int:
        return event_time_ms(value)


class CountAndSum(AggregateFunction):
    """How many records a window has, and their sum."""

    def create_accumulator(self) -> Accumulator:
        return 0, 0

    def add(self, value: int, accumulator: Accumulator) -> Accumulator:
        return accumulator[0] + 1, accumulator[1] + value

    def get_result(self, accumulator: Accumulator) -> Accumulator:
        return accumulator

    def merge(self, acc_a: Accumulator, acc_b: Accumulator) -> Accumulator:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class WithKeyAndStart(ProcessWindowFunction):
    """Adds the key and the start of the window to a result."""

    def process(
        self, key: int, context: ProcessWindowFunction.Context, elements: Iterable[Accumulator]
    ) -> Iterable[tuple[int, int, int, int]]:
        window: TimeWindow = context.window()
        for count, total in elements:
            yield key, window.start, count, total


def windows(orders: Orders) -> StreamExecutionEnvironment:
    """W4, ready to be executed; `mode` is `columns` for Arrow batches."""
    env = StreamExecutionEnvironment.get_execution_environment(configuration(orders))
    env.set_parallelism(orders.parallelism)
    results = _columnar(env, orders) if orders.mode == "columns" else _per_record(env, orders)
    results.uid("windows").sink_to(TallySink(orders)).uid("tally")
    return env


def _per_record(env: StreamExecutionEnvironment, orders: Orders) -> DataStream:
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(DISORDER_MS))
    numbers = env.from_source(
        InterleavedNumbers(orders),
        strategy.with_timestamp_assigner(_EventTime()),
        "numbers",
        Types.LONG(),
    ).uid("numbers")
    windowed = numbers.key_by(KeyOf(orders.keys), key_type=Types.LONG()).window(_tumbling())
    return windowed.aggregate(
        CountAndSum(),
        WithKeyAndStart(),
        accumulator_type=Types.TUPLE([Types.LONG(), Types.LONG()]),
        output_type=RESULT,
    )


def _columnar(env: StreamExecutionEnvironment, orders: Orders) -> DataStream:
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(DISORDER_MS))
    numbers = env.from_source(InterleavedNumbers(orders, as_columns=True), strategy, "numbers").uid("numbers")
    numbers.transformation.columns = COLUMNS
    totals = numbers.key_by("k").window(_tumbling()).aggregate(count=Count(), total=Sum("v"))
    return totals.map_batches(_as_result, _RESULT_COLUMNS)


_RESULT_COLUMNS = pa.schema(
    {"k": pa.int64(), "start": pa.int64(), "count": pa.int64(), "total": pa.int64()},
)


def _as_result(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.record_batch(
        {"k": batch["k"], "start": batch["window_start"], "count": batch["count"], "total": batch["total"]},
        schema=_RESULT_COLUMNS,
    )


def _tumbling() -> TumblingEventTimeWindows:
    return TumblingEventTimeWindows.of(Time.milliseconds(WINDOW_MS))
