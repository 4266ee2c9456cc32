"""The Kafka source against a real broker, in jobs of the local shell."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from tidegate.common import WatermarkStrategy
from tidegate.common.errors import ConfigurationError, JobExecutionError
from tidegate.common.serialization import ByteArraySchema, SimpleStringSchema
from tidegate.datastream import MapFunction, OutputTag, ProcessFunction, StreamExecutionEnvironment
from tidegate.datastream.connectors.kafka import (
    DeadLetter,
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaRecordDeserializationSchema,
    KafkaSource,
    KafkaSourceBuilder,
    KafkaTopicPartition,
)

from ..datastream.jobs import environment
from ..free_ports import free_port
from .broker import WAIT_S, Broker
from .waiting import wait_until

NO_WATERMARKS = WatermarkStrategy.no_watermarks()
LATEST = KafkaOffsetsInitializer.latest()


def numbered(count: int, first: int = 0) -> list[bytes]:
    return [str(number).encode() for number in range(first, first + count)]


def builder(broker: Broker, *topics: str) -> KafkaSourceBuilder:
    made = KafkaSource.builder().set_bootstrap_servers(broker.servers).set_group_id("tests")
    made.set_value_only_deserializer(SimpleStringSchema())
    return made.set_topics(*topics) if topics else made


def read(env: StreamExecutionEnvironment, source: KafkaSource, *maps: MapFunction) -> list[Any]:
    stream = env.from_source(source, NO_WATERMARKS, "kafka").uid("kafka")
    for number, function in enumerate(maps):
        stream = stream.map(function).uid(f"map-{number}")
    with stream.execute_and_collect() as results:
        return list(results)


def fails(source: KafkaSource, match: str) -> None:
    with pytest.raises(JobExecutionError, match=match):
        read(environment(options={"restart-strategy.type": "none"}), source)


# ---------------------------------------------------------------- where reading begins and ends


@pytest.mark.parametrize("parallelism", [1, 2, 4])
def test_every_record_of_every_partition_is_read_once_and_in_order(broker: Broker, parallelism: int) -> None:
    topics = [broker.topic(3), broker.topic(1)]
    for partition in range(3):
        broker.produce(topics[0], [b"%d-%d" % (partition, number) for number in range(20)], partition)
    broker.produce(topics[1], numbered(5))
    found = read(environment(parallelism=parallelism), builder(broker, *topics).set_bounded(LATEST).build())
    for partition in range(3):
        expected = [f"{partition}-{number}" for number in range(20)]
        assert [value for value in found if value.startswith(f"{partition}-")] == expected
    assert [value for value in found if "-" not in value] == ["0", "1", "2", "3", "4"]
    assert len(found) == 65


def test_reading_begins_and_ends_at_given_offsets(broker: Broker) -> None:
    topic = broker.topic(2)
    broker.produce(topic, numbered(10), 0)
    broker.produce(topic, numbered(10, 100), 1)
    first, second = KafkaTopicPartition(topic, 0), KafkaTopicPartition(topic, 1)
    source = builder(broker).set_partitions([first]).set_bounded(KafkaOffsetsInitializer.offsets({first: 7}))
    source.set_starting_offsets(KafkaOffsetsInitializer.offsets({first: 4}))
    assert read(environment(), source.build()) == ["4", "5", "6"]
    both = builder(broker, topic).set_bounded(LATEST)
    both.set_starting_offsets(
        KafkaOffsetsInitializer.offsets({first: 8, second: 77}, KafkaOffsetResetStrategy.LATEST)
    )
    assert read(environment(), both.build()) == ["8", "9"]


def test_reading_begins_at_a_time(broker: Broker) -> None:
    topic = broker.topic()
    broker.produce(topic, numbered(3))
    between_ms = time.time_ns() // 1_000_000 + 5
    # The broker goes by its own clock.
    wait_until(lambda: time.time_ns() // 1_000_000 > between_ms + 5)
    broker.produce(topic, numbered(3, 10))
    source = builder(broker, topic).set_bounded(LATEST)
    source.set_starting_offsets(KafkaOffsetsInitializer.timestamp(between_ms))
    assert read(environment(), source.build()) == ["10", "11", "12"]


def test_reading_begins_at_committed_offsets_or_where_the_strategy_says(
    broker: Broker, tmp_path: Path
) -> None:
    topic = broker.topic()
    broker.produce(topic, numbered(4))
    group = f"group of {topic}"

    def started(strategy: KafkaOffsetResetStrategy) -> KafkaSource:
        source = builder(broker, topic).set_group_id(group).set_bounded(LATEST)
        return source.set_starting_offsets(KafkaOffsetsInitializer.committed_offsets(strategy)).build()

    fails(started(KafkaOffsetResetStrategy.NONE), "has no committed offset .* commit one, or choose")
    assert read(environment(), started(KafkaOffsetResetStrategy.LATEST)) == []
    assert read(environment(tmp_path), started(KafkaOffsetResetStrategy.EARLIEST)) == ["0", "1", "2", "3"]
    # The last checkpoint of that job committed where it ended.
    wait_until(lambda: broker.committed(group, topic) == 4)
    broker.produce(topic, numbered(2, 10))
    assert read(environment(), started(KafkaOffsetResetStrategy.NONE)) == ["10", "11"]


class Collected(MapFunction):
    """Keeps what passes, and tells when there is so much."""

    values: ClassVar[list[Any]] = []
    changed: ClassVar[threading.Condition] = threading.Condition()

    def map(self, value: Any) -> Any:
        with Collected.changed:
            Collected.values.append(value)
            Collected.changed.notify_all()
        return value

    @staticmethod
    def wait_for(count: int) -> list[Any]:
        with Collected.changed:
            assert Collected.changed.wait_for(lambda: len(Collected.values) >= count, WAIT_S)
            return list(Collected.values)


@pytest.fixture
def collected() -> Iterator[type[Collected]]:
    Collected.values = []
    yield Collected
    Collected.values = []


def test_topics_that_appear_later_are_found_and_read_from_their_beginning(
    broker: Broker, collected: type[Collected], tmp_path: Path
) -> None:
    name = broker.topic(1, "pattern-0")
    broker.produce(name, numbered(3))
    broker.topic(1, "other-pattern")
    first = KafkaOffsetsInitializer.offsets(
        {KafkaTopicPartition(name, 0): 1}, KafkaOffsetResetStrategy.LATEST
    )
    source = builder(broker).set_topic_pattern("pattern-.*").set_starting_offsets(first)
    source.set_property("partition.discovery.interval.ms", "20")
    env = environment(tmp_path, 2)
    env.from_source(source.build(), NO_WATERMARKS, "kafka").uid("kafka").map(collected()).uid("map")
    env.from_collection([1]).print("started")
    client = env.execute_async()
    assert collected.wait_for(2) == ["1", "2"]
    later = broker.topic(2, "pattern-1")
    broker.produce(later, numbered(3, 10), 0)
    broker.produce(later, numbered(3, 20), 1)
    assert set(collected.wait_for(8)) == {"1", "2", "10", "11", "12", "20", "21", "22"}
    path = client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result(WAIT_S)
    # What was known stays known: after the restore only what is new is read.
    collected.values.clear()
    broker.produce(broker.topic(1, "pattern-2"), numbered(2, 30))
    broker.produce(later, numbered(1, 40), 1)
    env = environment(tmp_path / "again", 1, {"execution.state-recovery.path": str(path)})
    env.from_source(source.build(), NO_WATERMARKS, "kafka").uid("kafka").map(collected()).uid("map")
    env.from_collection([1]).print("started")
    client = env.execute_async()
    assert set(collected.wait_for(3)) == {"30", "31", "40"}
    client.cancel().result(WAIT_S)
    assert len(collected.values) == 3


# ---------------------------------------------------------------- failures


class FailsOnce(MapFunction):
    """Fails at some records, each once, when another checkpoint is complete than at the last failure."""

    left: ClassVar[set[str]] = set()

    def map(self, value: Any) -> Any:
        if value in FailsOnce.left:
            FailsOnce.left.discard(value)
            raise RuntimeError(f"crash at {value}")
        return value


@pytest.mark.parametrize("parallelism", [1, 2])
def test_after_failures_no_record_is_lost_or_doubled(
    broker: Broker, tmp_path: Path, parallelism: int
) -> None:
    topic = broker.topic(2)
    broker.produce(topic, numbered(300), 0)
    broker.produce(topic, numbered(300, 1_000), 1)
    FailsOnce.left = {"50", "150", "299", "1100", "1299"}
    source = builder(broker, topic).set_bounded(LATEST).build()
    options = {"restart-strategy.fixed-delay.attempts": "20", "tidegate.batch.size": "7"}
    found = read(environment(tmp_path, parallelism, options), source, FailsOnce())
    assert not FailsOnce.left
    assert sorted(map(int, found)) == [*range(300), *range(1_000, 1_300)]


def test_offsets_are_committed_when_their_checkpoint_is_complete(broker: Broker, tmp_path: Path) -> None:
    topics = broker.topic(), broker.topic()
    for topic, commits in zip(topics, ("true", "false"), strict=True):
        broker.produce(topic, numbered(3))
        source = builder(broker, topic).set_group_id(f"g-{topic}").set_bounded(LATEST)
        source.set_property("commit.offsets.on.checkpoint", commits)
        read(environment(tmp_path / topic), source.build())
    wait_until(lambda: broker.committed(f"g-{topics[0]}", topics[0]) == 3)
    assert broker.committed(f"g-{topics[1]}", topics[1]) < 0


# ---------------------------------------------------------------- event time


class Lateness(ProcessFunction):
    """Emits the time of each record, and whether the watermark had passed it already."""

    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Any:
        yield value, ctx.timestamp() <= ctx.timer_service().current_watermark()


def test_watermarks_are_made_of_each_partition_so_no_partition_makes_another_late(broker: Broker) -> None:
    topic = broker.topic(2)
    # The same times in both; whichever is read first, the other must not be late.
    times = [1_000 * number for number in range(1, 301)]
    for partition in range(2):
        broker.produce(topic, numbered(300, 1_000 * partition), partition, timestamps=times)
    env = environment(options={"tidegate.batch.size": "10", "pipeline.auto-watermark-interval": "1 ms"})
    source = builder(broker, topic).set_bounded(LATEST).build()
    stream = env.from_source(source, WatermarkStrategy.for_monotonous_timestamps(), "kafka")
    with stream.process(Lateness()).execute_and_collect() as results:
        found = list(results)
    assert len(found) == 600
    assert not [value for value, is_late in found if is_late]


# ---------------------------------------------------------------- messages


class OnlyDigits(SimpleStringSchema):
    def deserialize(self, message: bytes) -> Any:
        return int(message)


def with_bad_messages(broker: Broker) -> str:
    topic = broker.topic()
    broker.produce(topic, [b"0", b"one", b"2", None, b"four", b"5"], keys=[b"k"] * 6)
    return topic


def test_a_message_that_cannot_be_read_fails_the_job_and_says_where_it_is(broker: Broker) -> None:
    topic = with_bad_messages(broker)
    source = builder(broker, topic).set_bounded(LATEST).set_value_only_deserializer(OnlyDigits())
    fails(source.build(), rf"the message at {topic}-0 offset 1 cannot be read: ValueError.*b'one'")


class FailsOn(MapFunction):
    def __init__(self, bad: bytes) -> None:
        self._bad = bad

    def map(self, value: bytes) -> bytes:
        if value == self._bad:
            raise ValueError("not this one")
        return value


def test_an_error_of_an_operator_on_a_message_names_its_partition_and_offset(broker: Broker) -> None:
    topic = with_bad_messages(broker)
    source = builder(broker, topic).set_bounded(LATEST).set_value_only_deserializer(ByteArraySchema())
    with pytest.raises(JobExecutionError, match=rf"not this one.*record was read from {topic}-0, offset 1"):
        read(environment(), source.build(), FailsOn(b"one"))


def test_messages_that_cannot_be_read_are_skipped_if_so_wished(broker: Broker) -> None:
    topic = with_bad_messages(broker)
    source = builder(broker, topic).set_bounded(LATEST).set_value_only_deserializer(OnlyDigits())
    assert read(environment(), source.set_skip_undecodable().build()) == [0, 2, 5]


def test_messages_that_cannot_be_read_go_to_a_side_output_if_so_wished(broker: Broker) -> None:
    topic = with_bad_messages(broker)
    tag = OutputTag("dead")
    source = builder(broker, topic).set_bounded(LATEST).set_value_only_deserializer(OnlyDigits())
    stream = environment().from_source(source.set_dead_letters(tag).build(), NO_WATERMARKS, "kafka")
    with (
        stream.map(lambda value: ("good", value))
        .union(stream.get_side_output(tag))
        .execute_and_collect() as r
    ):
        found = list(r)
    letters = [each for each in found if isinstance(each, DeadLetter)]
    assert [each for each in found if isinstance(each, tuple)] == [("good", 0), ("good", 2), ("good", 5)]
    assert [(each.offset, each.key, each.value) for each in letters] == [
        (1, b"k", b"one"),
        (4, b"k", b"four"),
    ]
    assert letters[0].topic == topic
    assert "invalid literal" in letters[0].error


def test_keys_and_values_are_read_together(broker: Broker) -> None:
    topic = broker.topic()
    broker.produce(topic, [b"1", None], keys=[b"a", b"b"])
    schema = KafkaRecordDeserializationSchema.key_value(SimpleStringSchema(), ByteArraySchema())
    source = builder(broker, topic).set_bounded(LATEST).set_deserializer(schema).build()
    assert read(environment(), source) == [("a", b"1"), ("b", None)]


# ---------------------------------------------------------------- what is missing or wrong


def test_a_topic_that_is_not_there_fails_the_job(broker: Broker) -> None:
    fails(builder(broker, "nowhere").build(), r"topics \['nowhere'\] do not exist.*create them")


def test_a_partition_that_is_not_there_fails_the_job(broker: Broker) -> None:
    topic = broker.topic()
    source = builder(broker).set_partitions([KafkaTopicPartition(topic, 3)]).build()
    fails(source, rf"partitions \['{topic}-3'\] do not exist; there are \['{topic}-0'\]")


def test_a_broker_that_does_not_come_fails_the_job_after_a_while(broker: Broker) -> None:
    source = builder(broker, "any").set_bootstrap_servers(f"127.0.0.1:{free_port()}")
    source.set_property("retry.timeout.ms", "100").set_property("socket.timeout.ms", "100")
    fails(source.build(), "looking for partitions failed.*check bootstrap.servers")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda b: b.set_property("no.such.property", "1"), "does not take these properties.*no.such"),
        (lambda b: b.set_property("value.deserializer", "java"), "names a Java class"),
        (lambda b: b.set_property("retry.timeout.ms", "soon"), "must be a number of milliseconds"),
        (lambda b: b.set_property("commit.offsets.on.checkpoint", "1"), "must be true or false"),
        (lambda b: b.set_topics("another"), "told twice what to read"),
        (lambda b: KafkaSource.builder(), "has no brokers"),
        (lambda b: KafkaSource.builder().set_bootstrap_servers("x"), "has nothing to read"),
        (lambda b: KafkaSource.builder().set_bootstrap_servers("x").set_topics("t"), "has no deserializer"),
        (lambda b: KafkaSource.builder().set_topic_pattern("("), "no regular expression"),
    ],
)
def test_a_source_that_cannot_work_is_refused_in_the_driver(broker: Broker, change: Any, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        read(environment(), change(builder(broker, "topic")).build())
