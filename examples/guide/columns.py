"""Columns from end to end: functions on batches, running aggregates, windows, state of many keys."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from tidegate.common import Configuration, Types, WatermarkStrategy
from tidegate.common.time import Time
from tidegate.datastream import (
    Count,
    DataStream,
    KeyedBatchFunction,
    Max,
    Mean,
    Quantile,
    RuntimeContext,
    StreamExecutionEnvironment,
    Sum,
)
from tidegate.datastream.state import ValueStateDescriptor
from tidegate.datastream.window import TumblingEventTimeWindows

ORDERS = pa.table(
    {
        "shop": ["north", "south", "north", "south", "north", "east"],
        "price": [4.0, 2.5, 6.0, 1.0, 2.0, 9.0],
        "pieces": [1, 4, 2, 10, 1, 1],
        "time_ms": [1_000, 2_000, 9_000, 11_000, 12_000, 21_000],
    }
)
AMOUNTS = pa.schema({"shop": pa.string(), "amount": pa.float64()})
LARGEST = pa.schema({"shop": pa.string(), "largest": pa.float64()})


def amounts(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.record_batch({"shop": batch["shop"], "amount": pc.multiply(batch["price"], batch["pieces"])})


class LargestSoFar(KeyedBatchFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.largest = runtime_context.get_state(ValueStateDescriptor("largest", Types.DOUBLE()))

    def process_batch(self, batch: pa.RecordBatch, ctx: KeyedBatchFunction.Context) -> pa.RecordBatch:
        largest = np.array([value or 0.0 for value in self.largest.get_many(ctx.keys)])
        np.maximum.at(largest, ctx.codes, batch["amount"].to_numpy())
        self.largest.put_many(ctx.keys, largest.tolist())
        return pa.record_batch({"shop": pa.array(ctx.keys), "largest": largest})


def orders() -> DataStream:
    configuration = Configuration()
    configuration.set_string("execution.target", "local")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(1)
    return env.from_arrow(ORDERS, "time_ms", WatermarkStrategy.for_monotonous_timestamps())


def show(title: str, results: DataStream) -> None:
    print(title)
    for record in results.execute_and_collect():
        print("  ", *(round(value, 2) if isinstance(value, float) else value for value in record))


if __name__ == "__main__":
    sums = orders().map_batches(amounts, AMOUNTS)
    large = sums.filter_batches(lambda batch: pc.greater(batch["amount"], 5))
    show("large orders", large)

    running = orders().map_batches(amounts, AMOUNTS).key_by("shop")
    show("running", running.aggregate(orders=Count(), total=Sum("amount"), mean=Mean("amount")))

    windows = orders().key_by("shop").window(TumblingEventTimeWindows.of(Time.seconds(10)))
    show("per ten seconds", windows.aggregate(orders=Count(), dearest=Max("price")))

    median = orders().key_by("shop").window(TumblingEventTimeWindows.of(Time.seconds(60)))
    show("median pieces", median.aggregate(median=Quantile("pieces", 0.5, accuracy=0.001)))

    keyed = orders().map_batches(amounts, AMOUNTS).key_by("shop")
    show("largest so far", keyed.process_batches(LargestSoFar(), LARGEST))
