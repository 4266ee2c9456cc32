"""Kafka source to count in one task, compared with a bare loop around `consume`.

The broker is the one of the tests, in a process of its own on loopback. Records are 100 bytes. The bare loop
takes batches with `Consumer.consume` and reads the value of every message. The job has one task: the source,
and an operator that counts. Both read the same topic in turns, in the same process.
"""

from __future__ import annotations

import argparse
from typing import ClassVar

from confluent_kafka import Consumer, Producer, TopicPartition
from tidegate.common import Configuration, WatermarkStrategy
from tidegate.common.serialization import ByteArraySchema
from tidegate.datastream import StreamExecutionEnvironment, StreamOperator
from tidegate.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaSource,
    KafkaTopicPartition,
)
from tidegate.protocol.elements import Batch

from tests.kafka.broker import Broker

from ..parts import compare, row

RECORD = bytes(100)
GOAL_PER_S = 500_000
GOAL_RATIO = 0.7
BATCH = 4_096
PARTITIONS = 4


class Count(StreamOperator):
    """Counts what passes, and ends there."""

    counted: ClassVar[int] = 0

    def process_batch(self, batch: Batch, input_index: int) -> None:
        """Count."""
        Count.counted += len(batch)


def fill(broker: Broker, records: int) -> str:
    """A topic with so many records in all."""
    topic = broker.topic(PARTITIONS)
    producer = Producer({
        "bootstrap.servers": broker.servers,
        "linger.ms": 50,
        "queue.buffering.max.messages": 1_000_000,
    })  # fmt: skip
    for number in range(records):
        while True:
            try:
                producer.produce(topic, RECORD, partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.05)
    assert producer.flush(120) == 0
    return topic


def bare(broker: Broker, topic: str, records: int) -> None:
    """Read all records in a loop around `consume`."""
    consumer = Consumer({
        "bootstrap.servers": broker.servers,
        "group.id": "bare",
        "enable.auto.commit": False,
        "queued.max.messages.kbytes": 16_384,
        "fetch.queue.backoff.ms": 10,
    })  # fmt: skip
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    counted = 0
    while counted < records:
        messages = consumer.consume(BATCH, 1)
        counted += len([message.value() for message in messages if message.error() is None])
    consumer.close()


def source(broker: Broker, topic: str, records: int) -> None:
    """Read all records by a job."""
    ends = {KafkaTopicPartition(topic, number): records // PARTITIONS for number in range(PARTITIONS)}
    kafka = (
        KafkaSource.builder()
        .set_bootstrap_servers(broker.servers)
        .set_topics(topic)
        .set_group_id("source")
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_bounded(KafkaOffsetsInitializer.offsets(ends))
        .set_value_only_deserializer(ByteArraySchema())
        .build()
    )
    configuration = Configuration()
    configuration.set_string("execution.target", "local")
    env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(1)
    stream = env.from_source(kafka, WatermarkStrategy.no_watermarks(), "kafka")
    stream.transform("count", Count()).add_sink(lambda value: None)
    Count.counted = 0
    env.execute("kafka-benchmark")
    assert Count.counted == records, Count.counted


def main() -> None:
    """Measure and print the rows of the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.connectors.kafka", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one round with 200,000 records")
    records, rounds = (200_000, 1) if parser.parse_args().quick else (2_000_000, 3)
    broker = Broker()
    try:
        topic = fill(broker, records)
        rate = compare(
            "Kafka source to count, one task",
            "a bare loop",
            records,
            lambda: source(broker, topic, records),
            lambda: bare(broker, topic, records),
            GOAL_RATIO,
            rounds,
        )
    finally:
        broker.stop()
    row(f"the same >= {GOAL_PER_S:,} records/s", f"{rate:,.0f} records/s", rate >= GOAL_PER_S)


if __name__ == "__main__":
    main()
