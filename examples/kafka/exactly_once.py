"""Kafka, keyed state, Kafka: counts words, exactly once from end to end.

    python examples/kafka/exactly_once.py --brokers localhost:9092 --input lines --output counts

Each message of the input topic is a word. For each the job writes `word count` to the output topic: the
count is 1 for the first such word, 2 for the second, and so on, without a gap or a repetition, wherever
processes die. Read the output with `isolation.level=read_committed`. With `--bounded` the job ends where the
topic ends now.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from tidegate.common import Configuration, Types, WatermarkStrategy
from tidegate.common.serialization import SimpleStringSchema
from tidegate.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from tidegate.datastream.connectors.base import DeliveryGuarantee
from tidegate.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from tidegate.datastream.state import ValueStateDescriptor


class Count(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: str, ctx: KeyedProcessFunction.Context) -> Iterable[str]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield f"{value} {count}"


def source(arguments: argparse.Namespace) -> KafkaSource:
    builder = (
        KafkaSource.builder()
        .set_bootstrap_servers(arguments.brokers)
        .set_topics(arguments.input)
        .set_group_id("word-count")
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_value_only_deserializer(SimpleStringSchema())
    )
    if arguments.bounded:
        builder.set_bounded(KafkaOffsetsInitializer.latest())
    return builder.build()


def sink(arguments: argparse.Namespace) -> KafkaSink:
    serializer = (
        KafkaRecordSerializationSchema.builder()
        .set_topic(arguments.output)
        .set_value_serialization_schema(SimpleStringSchema())
        .build()
    )
    return (
        KafkaSink.builder()
        .set_bootstrap_servers(arguments.brokers)
        .set_record_serializer(serializer)
        .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        .set_transactional_id_prefix("word-count")
        .build()
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--brokers", default="localhost:9092")
    parser.add_argument("--input", default="lines")
    parser.add_argument("--output", default="counts")
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
    words = env.from_source(source(arguments), WatermarkStrategy.no_watermarks(), "words").uid("words")
    counts = words.key_by(lambda word: word, Types.STRING()).process(Count()).uid("count")
    counts.sink_to(sink(arguments)).uid("counts")
    env.execute("word-count")


if __name__ == "__main__":
    main()
