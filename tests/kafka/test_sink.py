"""The Kafka sink against a real broker: every record once, wherever the process of its job is killed."""

from __future__ import annotations

import hashlib
import os
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from tidegate.common import WatermarkStrategy
from tidegate.common.errors import ConfigurationError, JobExecutionError
from tidegate.common.failpoints import VARIABLE
from tidegate.common.serialization import SimpleStringSchema
from tidegate.connectors.kafka.transactions import TransactionName
from tidegate.coordinator.control.job_client import JobClient
from tidegate.datastream.connectors.base import DeliveryGuarantee
from tidegate.datastream.connectors.kafka import (
    KafkaMessage,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSinkBuilder,
)
from tidegate.operators.base import OperatorContext

from ..datastream.jobs import HeldSource, environment
from ..forked import Forks
from ..free_ports import free_port
from .broker import WAIT_S, Broker
from .log import committed_values, open_transactions

EXAMPLE = Path(__file__).parents[2] / "examples" / "kafka" / "exactly_once.py"
GUARANTEES = list(DeliveryGuarantee)


def builder(broker: Broker, topic: str, guarantee: DeliveryGuarantee) -> KafkaSinkBuilder:
    serializer = KafkaRecordSerializationSchema.builder().set_topic(topic)
    serializer.set_value_serialization_schema(SimpleStringSchema())
    made = KafkaSink.builder().set_bootstrap_servers(broker.servers).set_delivery_guarantee(guarantee)
    return made.set_transactional_id_prefix(f"tests-{topic}").set_record_serializer(serializer.build())


@pytest.mark.parametrize("is_checkpointing", [False, True])
@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_every_record_is_written_and_visible_in_the_end(
    broker: Broker, tmp_path: Path, guarantee: DeliveryGuarantee, is_checkpointing: bool
) -> None:
    topic = broker.topic()
    env = environment(tmp_path if is_checkpointing else None)
    stream = env.from_collection(list(map(str, range(100))))
    stream.sink_to(builder(broker, topic, guarantee).build()).uid("sink")
    env.execute()
    assert sorted(map(int, broker.values(topic))) == list(range(100))


@contextmanager
def armed(points: str) -> Iterator[None]:
    os.environ[VARIABLE] = points
    try:
        yield
    finally:
        del os.environ[VARIABLE]


@pytest.mark.parametrize(
    "points",
    [
        "process@sink:3:raise,process@sink:9:raise",
        "snapshot_sync@sink:2:raise,acknowledge@sink:3:raise,process@sink:12:raise",
        "notify@sink:1:raise,commit_before@sink/0:2:raise",
        "commit_mid@sink:1:raise,commit_after@sink:2:raise",
    ],
)
def test_after_failures_nothing_is_doubled_and_no_transaction_stays_open(
    broker: Broker, tmp_path: Path, points: str
) -> None:
    topic = broker.topic()
    options = {
        "restart-strategy.fixed-delay.attempts": "10",
        "execution.checkpointing.tolerable-failed-checkpoints": "10",
    }
    env = environment(tmp_path, 2, options)
    source = env.from_source(HeldSource(120, snapshots=3), WatermarkStrategy.no_watermarks(), "numbers")
    sink = builder(broker, topic, DeliveryGuarantee.EXACTLY_ONCE).build()
    source.uid("numbers").map(str).uid("map").disable_chaining().sink_to(sink).uid("sink")
    with armed(points):
        client = env.execute_async()
    client.result()
    assert [report.fired for report in client.report().fail_points] == [1] * len(points.split(","))
    assert sorted(map(int, committed_values(broker.servers, topic))) == list(range(120))
    assert open_transactions(broker.servers, topic) == 0


class NotOpenedTheSecondTime(KafkaRecordSerializationSchema):
    """Fails before its sink has a transaction, when a job has restarted once."""

    def __init__(self, topic: str, opened: Path) -> None:
        self._topic = topic
        self._opened = opened

    def open(self, context: OperatorContext) -> None:
        times = len(self._opened.read_text()) if self._opened.exists() else 0
        self._opened.write_text("x" * (times + 1))
        if times == 1:
            raise OSError("not now")

    def serialize(self, value: Any) -> KafkaMessage:
        return KafkaMessage(self._topic, value=value.encode())


def test_an_attempt_without_transactions_does_not_hide_those_of_the_one_before(
    broker: Broker, tmp_path: Path
) -> None:
    topic = broker.topic()
    # Records come before the first barrier, and the first checkpoint fails, and the job with it.
    options = {"restart-strategy.fixed-delay.attempts": "10", "execution.checkpointing.interval": "300 ms"}
    env = environment(tmp_path, 1, options)
    source = env.from_source(HeldSource(120, snapshots=2), WatermarkStrategy.no_watermarks(), "numbers")
    schema = NotOpenedTheSecondTime(topic, tmp_path / "opened")
    sink = builder(broker, topic, DeliveryGuarantee.EXACTLY_ONCE).set_record_serializer(schema).build()
    source.uid("numbers").map(str).uid("map").disable_chaining().sink_to(sink).uid("sink")
    with armed("snapshot_sync@sink:1:raise"):
        client = env.execute_async()
    client.result()
    assert client.report().restarts == 2
    assert sorted(map(int, committed_values(broker.servers, topic))) == list(range(120))
    assert open_transactions(broker.servers, topic) == 0


def test_transactions_are_found_behind_an_attempt_that_was_not_notified(
    broker: Broker, tmp_path: Path
) -> None:
    topic = broker.topic()
    options = {"restart-strategy.fixed-delay.attempts": "10", "execution.checkpointing.interval": "300 ms"}
    env = environment(tmp_path, 1, options)
    source = env.from_source(HeldSource(120, snapshots=4), WatermarkStrategy.no_watermarks(), "numbers")
    sink = builder(broker, topic, DeliveryGuarantee.EXACTLY_ONCE).build()
    source.uid("numbers").map(str).uid("map").disable_chaining().sink_to(sink).uid("sink")
    # The second attempt completes a checkpoint, from which the third one starts, and is not notified of it.
    with armed("snapshot_sync@sink:1:raise,notify@sink:1:raise"):
        client = env.execute_async()
    client.result()
    assert client.report().restarts == 2
    assert sorted(map(int, committed_values(broker.servers, topic))) == list(range(120))
    assert open_transactions(broker.servers, topic) == 0


# ---------------------------------------------------------------- killed processes


def leave_open(broker: Broker, topic: str, name: TransactionName) -> Producer:
    """Begin a transaction with a record, as a process does that dies then."""
    producer = Producer({"bootstrap.servers": broker.servers, "transactional.id": str(name)})
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()
    producer.produce(topic, b"lost")
    producer.flush(WAIT_S)
    return producer


@pytest.mark.parametrize("points", ["", "notify@sink:1:raise"])
def test_open_transactions_of_another_job_are_found_behind_attempts_that_had_none(
    broker: Broker, tmp_path: Path, points: str
) -> None:
    topic = broker.topic()

    def job(options: dict[str, str]) -> JobClient:
        env = environment(tmp_path, 1, options)
        source = env.from_source(HeldSource(120, snapshots=3), WatermarkStrategy.no_watermarks(), "numbers")
        sink = builder(broker, topic, DeliveryGuarantee.EXACTLY_ONCE).build()
        source.uid("numbers").map(str).uid("map").sink_to(sink).uid("sink")
        return env.execute_async()

    first = job({})
    path = first.stop_with_savepoint(False, str(tmp_path / "savepoints")).result(WAIT_S)
    of_job = hashlib.sha256(f"{first.get_job_id()}\0sink".encode()).hexdigest()[:8]
    producer = leave_open(broker, topic, TransactionName(f"tests-{topic}", of_job, 0, 4, 1))
    assert open_transactions(broker.servers, topic) == 1
    with armed(points):
        second = job({"execution.state-recovery.path": path})
    second.result()
    assert second.report().restarts == (1 if points else 0)
    assert open_transactions(broker.servers, topic) == 0
    assert sorted(map(int, committed_values(broker.servers, topic))) == list(range(120))
    del producer


def run_example(
    forks: Forks, broker: Broker, topics: list[str], directory: Path, points: str, parallelism: int
) -> int:
    """Run the example, from the newest checkpoint that there is."""
    found = {int(path.parent.name[4:]): path.parent for path in directory.glob("chk/*/chk-*/MANIFEST")}
    settings = {
        "execution.target": "local",
        "parallelism.default": str(parallelism),
        "execution.checkpointing.interval": "50 ms",
        "execution.checkpointing.dir": str(directory / "chk"),
        "tidegate.local-dir": str(directory / "local"),
        # Small batches, so that there are records between the checkpoints.
        "tidegate.batch.size": "5",
        **({"execution.state-recovery.path": str(found[max(found)])} if found else {}),
    }
    arguments = ["--bounded", "--brokers", broker.servers, "--input", topics[0], "--output", topics[1]]
    for key, value in settings.items():
        arguments += ["--set", f"{key}={value}"]
    ended = forks(points, str(EXAMPLE), *arguments)
    assert ended in (0, -signal.SIGKILL)
    return ended


WORDS = [b"word-%d" % (number % 17) for number in range(300)]
EXPECTED = sorted(
    f"{word.decode()} {count}".encode()
    for word, last in Counter(WORDS).items()
    for count in range(1, last + 1)
)


def test_a_killed_job_goes_on_and_every_count_is_in_the_topic_once(
    forks: Forks, broker: Broker, tmp_path: Path
) -> None:
    topics = [broker.topic(2), broker.topic(2)]
    broker.produce(topics[0], WORDS[:150], 0)
    broker.produce(topics[0], WORDS[150:], 1)
    # One subtask has committed by then, the other has not.
    assert run_example(forks, broker, topics, tmp_path, "commit_mid@counts:1:kill", 2) == -signal.SIGKILL
    # What it had prepared is committed with another parallelism.
    assert run_example(forks, broker, topics, tmp_path, "", 1) == 0
    assert sorted(committed_values(broker.servers, topics[1], 2)) == EXPECTED


# ---------------------------------------------------------------- messages and errors


class Routed(KafkaRecordSerializationSchema):
    """Everything that a message can say; nothing for odd numbers."""

    def __init__(self, topic: str) -> None:
        self.topic = topic

    def serialize(self, value: int) -> KafkaMessage | None:
        if value % 2:
            return None
        text = str(value).encode()
        return KafkaMessage(self.topic, text, b"k" + text, 1, 1_000 + value, (("h", b"v"),))


def test_a_schema_decides_on_key_partition_time_and_headers(broker: Broker) -> None:
    topic = broker.topic(2)
    env = environment()
    sink = (
        builder(broker, topic, DeliveryGuarantee.AT_LEAST_ONCE).set_record_serializer(Routed(topic)).build()
    )
    env.from_collection([1, 2, 3, 4]).sink_to(sink)
    env.execute()
    assert not broker.messages(topic, 0)
    found = [(m.key(), m.value(), m.timestamp()[1], m.headers()) for m in broker.messages(topic, 1)]
    assert found == [(b"k2", b"2", 1_002, [("h", b"v")]), (b"k4", b"4", 1_004, [("h", b"v")])]


def test_each_record_goes_to_the_topic_of_the_selector(broker: Broker) -> None:
    topics = [broker.topic(), broker.topic()]
    serializer = KafkaRecordSerializationSchema.builder().set_topic_selector(lambda v: topics[int(v) % 2])
    serializer.set_value_serialization_schema(SimpleStringSchema())
    serializer.set_key_serialization_schema(SimpleStringSchema())
    env = environment()
    sink = builder(broker, "", DeliveryGuarantee.AT_LEAST_ONCE).set_record_serializer(serializer.build())
    env.from_collection(["1", "2", "3"]).sink_to(sink.build())
    env.execute()
    assert [[m.key() for m in broker.messages(topic)] for topic in topics] == [[b"2"], [b"1", b"3"]]


@pytest.mark.parametrize("guarantee", [DeliveryGuarantee.AT_LEAST_ONCE, DeliveryGuarantee.EXACTLY_ONCE])
def test_a_broker_that_does_not_answer_fails_the_job(broker: Broker, guarantee: DeliveryGuarantee) -> None:
    sink = builder(broker, "any", guarantee).set_bootstrap_servers(f"127.0.0.1:{free_port()}")
    sink.set_property("retry.timeout.ms", "300")
    env = environment(options={"restart-strategy.type": "none"})
    env.from_collection(["1"]).sink_to(sink.build())
    with pytest.raises(JobExecutionError, match=r"bootstrap.servers"):
        env.execute()


def test_a_transaction_must_live_longer_than_a_checkpoint(broker: Broker, tmp_path: Path) -> None:
    env = environment(tmp_path, options={"execution.checkpointing.timeout": "20 min"})
    env.from_collection(["1"]).sink_to(builder(broker, "t", DeliveryGuarantee.EXACTLY_ONCE).build())
    with pytest.raises(ConfigurationError, match=r"transaction.timeout.ms is 900000 ms, but .* 1200010 ms"):
        env.execute()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda b: b.set_transactional_id_prefix(""), "needs set_transactional_id_prefix"),
        (lambda b: b.set_bootstrap_servers(""), "has no brokers"),
        (lambda b: b.set_property("no.such.property", "1"), "does not take these properties"),
        (lambda b: b.set_bootstrap_servers("host"), "write host:port"),
        (
            lambda b: b.set_properties({"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}),
            "PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512, not OAUTHBEARER",
        ),
        (lambda b: KafkaSink.builder().set_bootstrap_servers("x:1"), "has no serializer"),
    ],
)
def test_a_sink_that_cannot_work_is_refused_in_the_driver(broker: Broker, change: Any, says: str) -> None:
    def run() -> None:
        env = environment()
        made = change(builder(broker, "t", DeliveryGuarantee.EXACTLY_ONCE)).build()
        env.from_collection(["1"]).sink_to(made)
        env.execute()

    with pytest.raises(ConfigurationError, match=says):
        run()
