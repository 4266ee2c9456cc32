"""The workloads on Spark Structured Streaming, micro-batch after micro-batch of a source of numbers.

`builtin` is Spark's own aggregation, without Python; `pandas` a vectorised function; `state` is
`applyInPandasWithState` and `transform` is `transformWithStateInPandas`, with Python called for every key.
Spark makes every micro-batch durable, so there is no run without checkpoints.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pandas as pd
from measure import DISORDER_MS, MULTIPLIER, RECORDS_PER_MS, WINDOW_MS, Orders, Tally, leave_mark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import (
    DataStreamWriter,
    StatefulProcessor,
    StatefulProcessorHandle,
    StreamingQuery,
)
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
RESULT = "key long, count long, total long"
STATE = "count long, total long"
# Spark waits ten seconds, which no setting changes, until the Python process that reads a stateful
# processor's schema connects. On a busy machine its imports take longer.
LATE_WORKER = "Python worker failed to connect back"
ATTEMPTS = 5
Builder = Callable[[Orders, DataFrame], DataFrame]
Taker = Callable[[Tally, DataFrame, bool], None]


def session(orders: Orders) -> SparkSession:
    """One executor thread and one partition of state for each of parallelism."""
    settings = {
        "spark.master": f"local[{orders.parallelism}]",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.driver.memory": "4g",
        "spark.sql.shuffle.partitions": str(orders.parallelism),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    }
    if orders.backend == "rocksdb" or orders.mode == "transform":
        settings["spark.sql.streaming.stateStore.providerClass"] = ROCKSDB
    builder = SparkSession.builder.appName("benchmark")
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def rows_of_a_batch(orders: Orders) -> int:
    """A quarter of the records, an eighth for windows; where keys repeat in a batch every key has as many."""
    rows = max(orders.records // (8 if orders.workload == "W4" else 4), 1)
    return rows - rows % orders.keys if rows > orders.keys else rows


def numbers_of(spark: SparkSession, orders: Orders, rows: int) -> DataFrame:
    """The numbers from 0 on, so many in every micro-batch."""
    source = spark.readStream.format("rate-micro-batch")
    return source.option("rowsPerBatch", rows).option("numPartitions", orders.parallelism).load()


def with_key(orders: Orders, numbers: DataFrame) -> DataFrame:
    """W2's key beside each number."""
    return numbers.select((F.col("value") * MULTIPLIER % orders.keys).alias("key"), "value")


def add_one_and_filter(frames: Iterable[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """W1's functions over whole columns."""
    for frame in frames:
        added = frame["value"] + 1
        yield pd.DataFrame({"value": added[added % 2 == 1]})


def stateless(orders: Orders, numbers: DataFrame) -> DataFrame:
    """W1."""
    return numbers.select("value").mapInPandas(add_one_and_filter, "value long")


def built_in(orders: Orders, numbers: DataFrame) -> DataFrame:
    """W2 as an aggregation."""
    return with_key(orders, numbers).groupBy("key").agg(
        F.count("*").alias("count"), F.sum("value").alias("total")
    )  # fmt: skip


def windows(orders: Orders, numbers: DataFrame) -> DataFrame:
    """W4 as an aggregation."""
    value = F.col("value")
    time_ms = F.floor(value / RECORDS_PER_MS) + DISORDER_MS - value * 40503 % DISORDER_MS
    keyed = numbers.select(
        (value * MULTIPLIER % orders.keys).alias("key"), "value", F.timestamp_millis(time_ms).alias("time")
    )
    window = F.window("time", f"{WINDOW_MS} milliseconds")
    return (
        keyed.withWatermark("time", f"{DISORDER_MS} milliseconds")
        .groupBy(window, "key")
        .agg(F.count("*").alias("count"), F.sum("value").alias("total"))
        .select(F.unix_millis("window.start").alias("start"), "key", "count", "total")
    )


def running(count: int, total: int, frames: Iterable[pd.DataFrame]) -> tuple[int, int, pd.DataFrame]:
    """A key's running counts and sums, in a loop, and where they end."""
    counts, totals = [], []
    for frame in frames:
        for value in frame["value"].tolist():
            count += 1
            total += value
            counts.append(count)
            totals.append(total)
    return count, total, pd.DataFrame({"count": counts, "total": totals})


def update_group(
    key: tuple[int], frames: Iterable[pd.DataFrame], state: GroupState
) -> Iterator[pd.DataFrame]:
    """W2 for one key and micro-batch, as `applyInPandasWithState` calls it."""
    count, total, results = running(*(state.get if state.exists else (0, 0)), frames)
    state.update((count, total))
    results.insert(0, "key", key[0])
    yield results


def pandas_state(orders: Orders, numbers: DataFrame) -> DataFrame:
    """W2 by `applyInPandasWithState`."""
    grouped = with_key(orders, numbers).groupBy("key")
    return grouped.applyInPandasWithState(update_group, RESULT, STATE, "append", GroupStateTimeout.NoTimeout)


class CountSum(StatefulProcessor):
    """W2 for `transformWithStateInPandas`."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.state = handle.getValueState("count_sum", STATE)

    def handleInputRows(
        self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any
    ) -> Iterator[pd.DataFrame]:
        count, total, results = running(*(self.state.get() or (0, 0)), rows)
        self.state.update((count, total))
        results.insert(0, "key", key[0])
        yield results

    def close(self) -> None:
        pass


def transformed(orders: Orders, numbers: DataFrame) -> DataFrame:
    """W2 by `transformWithStateInPandas`."""
    grouped = with_key(orders, numbers).groupBy("key")
    return grouped.transformWithStateInPandas(CountSum(), RESULT, "Append", "None")


def take_count(tally: Tally, results: DataFrame, is_last: bool) -> None:
    """Counts what W1 lets through."""
    tally.add_sums(results.count(), 0, 0)


def take_records(tally: Tally, results: DataFrame, is_last: bool) -> None:
    """Sums up results that came one for each record."""
    records, counts, totals = results.agg(
        F.count("*"), F.coalesce(F.sum("count"), F.lit(0)), F.coalesce(F.sum("total"), F.lit(0))
    ).first()
    tally.add_sums(records, counts, totals)


def take_final(tally: Tally, results: DataFrame, is_last: bool) -> None:
    """Of results of which there is one for each key and micro-batch, those that are final.

    Where keys repeat in a batch every batch has all keys, so the last one has all final values; where they
    do not there is one record for each key.
    """
    orders = tally.orders
    if rows_of_a_batch(orders) % orders.keys == 0 and not is_last:
        results.agg(F.sum("count"), F.sum("total")).first()
        return
    take_records(tally, results, is_last)


def take_windows(tally: Tally, results: DataFrame, is_last: bool) -> None:
    """The windows that are sure to be closed, one by one."""
    orders = tally.orders
    closed_ms = (orders.records // RECORDS_PER_MS - DISORDER_MS) // WINDOW_MS * WINDOW_MS
    closed = results.where(F.col("start") < closed_ms).collect()
    tally.add_windows((row["key"], row["start"], row["count"], row["total"]) for row in closed)


JOBS: dict[tuple[str, str], tuple[Builder, Taker, str]] = {
    ("W1", "pandas"): (stateless, take_count, "append"),
    ("W4", "builtin"): (windows, take_windows, "append"),
    ("*", "builtin"): (built_in, take_final, "update"),
    ("*", "state"): (pandas_state, take_records, "append"),
    ("*", "transform"): (transformed, take_records, "append"),
}


def run(stream: DataStreamWriter, tally: Tally, done: threading.Event) -> StreamingQuery:
    """Starts a query and waits until its last micro-batch is done; the query then goes on with empty ones."""
    query = stream.start()
    attempts = 1
    while not done.wait(0.05):
        error = query.exception()
        if error is None:
            continue
        if LATE_WORKER not in str(error) or tally.records or attempts == ATTEMPTS:
            raise RuntimeError(str(error))
        # Nothing has been processed, and the next start begins the clock anew.
        attempts += 1
        query = stream.start()
    return query


def main() -> None:
    """Runs one job until all of its records are through."""
    orders = Orders.from_argv()
    build, take, output_mode = JOBS.get((orders.workload, orders.mode)) or JOBS["*", orders.mode]
    rows = rows_of_a_batch(orders)
    batches = -(-orders.records // rows)
    # A window closes in the micro-batch after the one that moves the watermark.
    last = batches if orders.workload == "W4" else batches - 1
    tally = Tally(orders)
    done = threading.Event()

    def handle(results: DataFrame, batch_id: int) -> None:
        if batch_id == 0:
            leave_mark(orders.marks_dir, "start")
        if batch_id <= last:
            take(tally, results, batch_id == last)
            tally.last_ns = time.monotonic_ns()
        if batch_id >= last:
            done.set()

    spark = session(orders)
    spark.sparkContext.setLogLevel("ERROR")
    numbers = numbers_of(spark, orders, rows)
    if orders.workload != "W4":
        numbers = numbers.where(F.col("value") < orders.records)
    stream = build(orders, numbers).writeStream.outputMode(output_mode).foreachBatch(handle)
    query = run(stream.option("checkpointLocation", orders.state_dir), tally, done)
    tally.source_records = (last + 1) * rows if orders.workload == "W4" else orders.records
    tally.close()
    query.stop()
    spark.stop()


if __name__ == "__main__":
    main()
