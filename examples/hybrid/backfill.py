"""Backfill from Parquet, then go on from Kafka, as one job: the running total of each shop.

    python examples/hybrid/backfill.py --history DIRECTORY --topic orders --output DIRECTORY

The files hold orders of the past, in columns `number`, `shop`, `price` and `at` (milliseconds since 1970).
The topic holds orders as JSON objects with the same fields. The job reads all files, then the topic from the
first message behind the latest order of the files. For each order it writes `shop, orders so far, total so
far`, once, wherever processes die. With `--bounded` it ends where the topic ends when it is reached.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from tidegate.common import Configuration, Duration, Types, WatermarkStrategy
from tidegate.common.watermark_strategy import TimestampAssigner
from tidegate.datastream import Boundedness, KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from tidegate.datastream.connectors.file_system import FileSink, FileSource, JsonLinesFormat
from tidegate.datastream.connectors.hybrid_source import HybridSource, SourceSwitchContext
from tidegate.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource
from tidegate.datastream.formats.json import JsonRowDeserializationSchema
from tidegate.datastream.state import ValueStateDescriptor

FIELDS = ["number", "shop", "price", "at"]
ORDER = Types.ROW_NAMED(FIELDS, [Types.LONG(), Types.STRING(), Types.DOUBLE(), Types.LONG()])
TOTALS = pa.schema([("shop", pa.string()), ("orders", pa.int64()), ("total", pa.float64())])


class OrderTime(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[3])


class RunningTotal(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        so_far = Types.TUPLE([Types.LONG(), Types.DOUBLE()])
        self.so_far = runtime_context.get_state(ValueStateDescriptor("so far", so_far))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        orders, total = self.so_far.value() or (0, 0.0)
        self.so_far.update((orders + 1, total + value[2]))
        yield ctx.get_current_key(), orders + 1, total + value[2]


def latest_order(orders: list[Any]) -> int:
    """How far a batch of orders is."""
    return int(max(order[3] for order in orders))


def source(arguments: argparse.Namespace) -> HybridSource:
    brokers, topic, is_bounded = arguments.brokers, arguments.topic, arguments.bounded

    def live_orders(context: SourceSwitchContext) -> KafkaSource:
        builder = (
            KafkaSource.builder()
            .set_bootstrap_servers(brokers)
            .set_topics(topic)
            .set_starting_offsets(KafkaOffsetsInitializer.timestamp(context.end_position + 1))
            .set_value_only_deserializer(JsonRowDeserializationSchema.builder().type_info(ORDER).build())
        )
        if is_bounded:
            builder.set_bounded(KafkaOffsetsInitializer.latest())
        return builder.build()

    boundedness = Boundedness.BOUNDED if is_bounded else Boundedness.CONTINUOUS_UNBOUNDED
    history = FileSource(arguments.history, columns=FIELDS)
    builder = HybridSource.builder(history, position_of=latest_order)
    return builder.add_source(live_orders, boundedness).build()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--history", required=True)
    parser.add_argument("--brokers", default="localhost:9092")
    parser.add_argument("--topic", default="orders")
    parser.add_argument("--output", required=True)
    parser.add_argument("--bounded", action="store_true")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="an option of the job"
    )
    arguments = parser.parse_args()
    configuration = Configuration()
    configuration.set_string("execution.checkpointing.interval", "10 s")
    for setting in arguments.set:
        key, _, value = setting.partition("=")
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    by_order = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5))
    watermarks = by_order.with_timestamp_assigner(OrderTime())
    orders = env.from_source(source(arguments), watermarks, "orders").uid("orders")
    totals = orders.key_by(lambda order: order[1], Types.STRING()).process(RunningTotal()).uid("totals")
    totals.sink_to(FileSink(arguments.output, TOTALS, file_format=JsonLinesFormat())).uid("files")
    env.execute("backfill")


if __name__ == "__main__":
    main()
