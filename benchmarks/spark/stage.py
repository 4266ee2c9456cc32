"""An epoch in a Spark stage of a job, beside the same work done directly on the same session.

Directly means what a PySpark program would write: `createDataFrame` of a pandas DataFrame, with Arrow
switched on, the function, `toPandas`. The stage's time is that between the results of two epochs of a
running local job, so it has the source, the exchange, checks of types and the way to the next operator in
it. The two alternate.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np
import pyarrow as pa
from tidegate.common import WatermarkStrategy
from tidegate.datastream import Source, SourceReader, StreamExecutionEnvironment
from tidegate.protocol.elements import Batch

from ..parts import row
from .common import QUICK, ROUNDS, configuration, seconds, spark_session

EPOCHS = 4 if QUICK else 10
GOAL = 1.5
RESULT = pa.schema(
    [("id", pa.int64()), ("amount", pa.float64()), ("name", pa.string()), ("tax", pa.float64())]
)
TIMES = pa.schema([("at", pa.float64()), ("records", pa.int64())])


def taxed(frame: Any) -> Any:
    """A filter and a new column."""
    return frame.where("amount > 0").selectExpr("id", "amount", "name", "amount * 0.2D as tax")


def records(count: int) -> pa.RecordBatch:
    numbers = np.random.default_rng(7)
    return pa.record_batch(
        {
            "id": np.arange(count),
            "amount": numbers.uniform(1, 100, count),
            "name": [f"name-{number % 1_000}" for number in range(count)],
        }
    )


class SameBatch(Source):
    """The same Arrow batch, again and again."""

    def __init__(self, batch: pa.RecordBatch, times: int) -> None:
        self.batch, self.times = batch, times

    def create_splits(self, parallelism: int) -> list[Any]:
        return [0]

    def create_reader(self, splits: list[Any]) -> SourceReader:
        return _Reader(self, splits)


class _Reader(SourceReader):
    def __init__(self, source: SameBatch, splits: list[int]) -> None:
        self.source, self.done = source, splits[0] if splits else source.times

    def poll(self, max_records: int) -> Batch | None:
        if self.done == self.source.times:
            return None
        self.done += 1
        return Batch(self.source.batch)

    def snapshot_state(self) -> list[Any]:
        return [self.done]


def noted(batch: pa.RecordBatch) -> pa.RecordBatch:
    """When a batch of results arrived, and how many they are."""
    return pa.record_batch([pa.array([time.perf_counter()]), pa.array([batch.num_rows])], schema=TIMES)


def epochs_of_job(batch: pa.RecordBatch) -> list[float]:
    """Seconds between the results of epochs."""
    env = StreamExecutionEnvironment.get_execution_environment(configuration())
    source = SameBatch(batch, EPOCHS + 1)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "batches")
    results = stream.spark_stage(taxed, RESULT, batch.schema, max_epoch_records=batch.num_rows)
    ends, seen = [], 0
    with results.map_batches(noted, TIMES).execute_and_collect() as times:
        for at, count in times:
            seen += count
            if seen % batch.num_rows == 0:
                ends.append(at)
    assert seen == batch.num_rows * (EPOCHS + 1), seen
    return np.diff(ends).tolist()


def epochs_directly(spark: Any, batch: pa.RecordBatch) -> list[float]:
    frame = batch.to_pandas()

    def epoch() -> None:
        found = taxed(spark.createDataFrame(frame)).toPandas()
        assert len(found) == batch.num_rows

    return [seconds(epoch) for _ in range(EPOCHS)]


def report(spark: Any) -> None:
    """Print the rows of the table."""
    for count in (1_000, 20_000) if QUICK else (1_000, 20_000, 200_000):
        batch = records(count)
        epochs_of_job(batch)
        epochs_directly(spark, batch)
        job, direct = [], []
        for _ in range(ROUNDS):
            job += epochs_of_job(batch)
            direct += epochs_directly(spark, batch)
        job_ms, direct_ms = (1_000 * statistics.median(found) for found in (job, direct))
        row(
            f"an epoch of {count:,} records in a stage, at most {GOAL} x the same directly",
            f"{job_ms:.0f} ms, {direct_ms:.0f} ms: {job_ms / direct_ms:.2f} x",
            job_ms <= GOAL * direct_ms,
        )


if __name__ == "__main__":
    with spark_session() as session:
        report(session)
