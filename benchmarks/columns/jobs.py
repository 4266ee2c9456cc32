"""Whole jobs in the local shell: source, hash exchange, keyed aggregation, sink; a checkpoint each second."""

from __future__ import annotations

import sys
import tempfile
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from tidegate.common import WatermarkStrategy
from tidegate.datastream import (
    Count,
    DataStream,
    Source,
    SourceReader,
    StreamExecutionEnvironment,
    StreamOperator,
)
from tidegate.operators.columnar.column_key import ColumnKey
from tidegate.operators.columnar.columnar_aggregate import Aggregates
from tidegate.operators.columnar.columnar_windows import ColumnarWindowOperator
from tidegate.operators.columnar.columns import as_timestamps
from tidegate.protocol.elements import Batch

from ..local_job import environment
from ..parts import row
from .common import COUNT_AND_SUM, ROUNDS, SCHEMA, Rate, batches, median, prepare_process, timed

ROWS = 65_536
RECORDS_PER_MS = 10
WINDOW_MS = 10_000


class RepeatedBatches(Source):
    """The same batches again and again; event time goes on. The position is the number of the next one."""

    def __init__(self, data: list[pa.RecordBatch], count: int) -> None:
        self.data = data
        self.count = count

    def create_splits(self, parallelism: int) -> list[Any]:
        return [0]

    def create_reader(self, splits: list[Any]) -> SourceReader:
        return RepeatedReader(self.data, self.count, splits)

    def max_source_parallelism(self) -> int | None:
        return 1


class RepeatedReader(SourceReader):
    def __init__(self, data: list[pa.RecordBatch], count: int, splits: list[int]) -> None:
        self.data = data
        self.count = count
        self.next = splits[0] if splits else count

    def poll(self, max_records: int) -> Batch | None:
        if self.next == self.count:
            return None
        number = self.next
        self.next += 1
        times = (np.arange(ROWS) + number * ROWS) // RECORDS_PER_MS
        return Batch(self.data[number % len(self.data)], as_timestamps(times))

    def snapshot_state(self) -> list[Any]:
        return [self.next]


class Watermarks(StreamOperator):
    """Ascending event times: the last of a batch is its watermark."""

    def process_batch(self, batch: Batch, input_index: int) -> None:
        self.emit(batch)
        assert batch.timestamps is not None
        self.output.emit_watermark(batch.timestamps[-1])


def source(env: StreamExecutionEnvironment, data: list[pa.RecordBatch], count: int) -> DataStream:
    stream = env.from_source(RepeatedBatches(data, count), WatermarkStrategy.no_watermarks(), "Batches")
    stream.transformation.columns = SCHEMA
    return stream


def running(count: int) -> list[Rate]:
    """Running count and sum; the results with the last count of a key are collected and checked."""
    data = batches(10_000, ROWS, 16)
    rates: list[Rate] = []
    every = pa.Table.from_batches([data[number % 16] for number in range(count)])
    expected = every.group_by("k").aggregate([("v", "count"), ("v", "sum")])
    largest = pc.max(expected["v_count"]).as_py()
    wanted = expected.filter(pc.equal(expected["v_count"], largest))
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as directory:
            results = source(environment(directory), data, count).key_by("k").aggregate(**COUNT_AND_SUM)
            last = results.uid("totals").filter_batches(lambda batch: pc.equal(batch["count"], largest))
            with timed(count * ROWS, rates):
                found = sorted(last.execute_and_collect())
        assert found == sorted(zip(*(wanted[name].to_pylist() for name in ("k", "v_count", "v_sum"))))
    return rates


def windows(count: int) -> list[Rate]:
    """Counts of 1,000 keys per ten seconds of event time; their sum is checked."""
    data = batches(1_000, ROWS, 16)
    rates: list[Rate] = []
    wanted = Aggregates(ColumnKey("k", SCHEMA), {"count": Count()}, SCHEMA)
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as directory:
            stream = source(environment(directory), data, count).transform("Watermarks", Watermarks())
            operator = ColumnarWindowOperator(wanted, (WINDOW_MS, WINDOW_MS, 0))
            results = stream.uid("watermarks").key_by("k").transform("Windows", operator).uid("windows")
            with timed(count * ROWS, rates):
                found = list(results.execute_and_collect())
        assert sum(result[3] for result in found) == count * ROWS
    return rates


def main() -> None:
    prepare_process()
    count = 16 if "--quick" in sys.argv else 400
    rate = median(running(count))
    row("running count and sum, 10k keys, one local job: ≥ 5 M/s", rate.text, rate.wall >= 5)
    rate = median(windows(count))
    row("tumbling 10 s count per key, 1,000 keys, one local job: ≥ 1.25 M/s", rate.text, rate.wall >= 1.25)


if __name__ == "__main__":
    main()
