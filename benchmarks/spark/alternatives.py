"""A filter and a join with a small table: in a Spark stage, in pyarrow, and in DuckDB, in the same local job.

The three alternate. A run is timed from the start of the job to its last result, in the driver, with the
Spark session already started. Run it alone with `python -m benchmarks.spark.alternatives [--quick]`.
"""

from __future__ import annotations

import functools
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from tidegate.common import WatermarkStrategy
from tidegate.datastream import DataStream, StreamExecutionEnvironment

from ..parts import row
from .common import QUICK, ROUNDS, configuration, seconds, spark_session
from .stage import SameBatch

SIZES = (10_000, 100_000) if QUICK else (10_000, 100_000, 2_000_000)
BATCH_ROWS = 10_000
AIRPORTS = pa.table({"origin": pa.array(range(300), pa.int64()), "city": [f"city {n}" for n in range(300)]})
FLIGHTS = pa.schema([("flight", pa.int64()), ("origin", pa.int64()), ("delay", pa.float64())])
JOINED = pa.schema([*FLIGHTS, ("city", pa.string())])


def flights(count: int) -> pa.RecordBatch:
    numbers = np.random.default_rng(7)
    columns = [np.arange(count), numbers.integers(0, 300, count), numbers.uniform(-30, 90, count)]
    return pa.record_batch(columns, schema=FLIGHTS)


def in_spark(frame: Any) -> Any:
    spark = frame.sparkSession
    if not spark.catalog.tableExists("airports"):
        spark.createDataFrame(AIRPORTS.to_pandas()).createOrReplaceTempView("airports")
        spark.catalog.cacheTable("airports")
    return frame.where("delay > 0").join(spark.table("airports"), "origin", "left").select(*JOINED.names)


def in_pyarrow(batch: pa.RecordBatch) -> pa.Table:
    late = pa.Table.from_batches([batch]).filter(pc.greater(batch["delay"], 0))
    return late.join(AIRPORTS, "origin").select(JOINED.names)


@functools.lru_cache(maxsize=1)
def database() -> Any:
    """One for the process: a connection for each batch would cost more than the query."""
    import duckdb

    connection = duckdb.connect()
    connection.register("airports", AIRPORTS)
    return connection


def in_duckdb(batch: pa.RecordBatch) -> pa.Table:
    connection = database()
    connection.register("flights", pa.Table.from_batches([batch]))
    query = (
        "SELECT flight, origin, delay, city FROM flights LEFT JOIN airports USING (origin) WHERE delay > 0"
    )
    found: pa.Table = connection.execute(query).to_arrow_table()
    return found.cast(JOINED)


WAYS: dict[str, Callable[[DataStream], DataStream]] = {
    "Spark stage": lambda stream: stream.spark_stage(in_spark, JOINED, FLIGHTS),
    "pyarrow": lambda stream: stream.map_batches(in_pyarrow, JOINED),
    "DuckDB": lambda stream: stream.map_batches(in_duckdb, JOINED),
}


def run(way: Callable[[DataStream], DataStream], count: int) -> None:
    env = StreamExecutionEnvironment.get_execution_environment(configuration())
    source = SameBatch(flights(BATCH_ROWS), count // BATCH_ROWS)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "flights")
    totals = way(stream).map_batches(counted, COUNTS)
    with totals.execute_and_collect() as results:
        found = sum(records for (records,) in results)
    assert found > count // 2, found


COUNTS = pa.schema([("records", pa.int64())])


def counted(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.record_batch([pa.array([batch.num_rows])], schema=COUNTS)


def report() -> None:
    """Print the rows of the table."""
    for count in SIZES:
        found: dict[str, list[float]] = {name: [] for name in WAYS}
        for each_round in range(ROUNDS + 1):
            for name, way in WAYS.items():
                took_s = seconds(functools.partial(run, way, count))
                if each_round:
                    # The first round warms up.
                    found[name].append(took_s)
        medians = {name: statistics.median(times) for name, times in found.items()}
        row(
            f"a filter and a join with 300 rows, {count:,} records",
            ", ".join(f"{name} {median_s:.2f} s" for name, median_s in medians.items()),
            None,
        )


if __name__ == "__main__":
    with spark_session():
        report()
