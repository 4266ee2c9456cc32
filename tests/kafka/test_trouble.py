"""The Kafka source while its brokers fail, come back, refuse, or have lost what was to be read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from tidegate.common import WatermarkStrategy
from tidegate.common.errors import JobExecutionError
from tidegate.common.serialization import SimpleStringSchema
from tidegate.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource, KafkaSourceBuilder

from ..datastream.jobs import Kept, environment
from ..free_ports import free_port
from .broker import WAIT_S, Broker
from .waiting import wait_until

NO_RESTART = {"restart-strategy.type": "none"}


@pytest.fixture
def own_broker() -> Iterator[Callable[..., Broker]]:
    """Starts brokers that a test may stop."""
    started: list[Broker] = []

    def start(*arguments: Any) -> Broker:
        started.append(Broker(*arguments))
        return started[-1]

    yield start
    for each in started:
        each.stop()


def builder(servers: str, topic: str) -> KafkaSourceBuilder:
    made = KafkaSource.builder().set_bootstrap_servers(servers).set_topics(topic).set_group_id("g")
    return made.set_value_only_deserializer(SimpleStringSchema()).set_property("retry.timeout.ms", "3000")


def start(source: KafkaSource, name: str, directory: Path | None = None, **options: str) -> Any:
    env = environment(directory, options={**NO_RESTART, **options})
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "kafka").uid("kafka")
    stream.map(Kept(name)).uid("kept").add_sink(lambda value: None).uid("end")
    return env.execute_async()


def test_a_broker_that_comes_late_is_waited_for(own_broker: Callable[..., Broker]) -> None:
    port = free_port()
    source = builder(f"127.0.0.1:{port}", "late").set_property("retry.timeout.ms", "30000")
    source.set_bounded(KafkaOffsetsInitializer.latest()).set_property(
        "socket.connection.setup.timeout.ms", "1000"
    )
    # A topic that does not exist would end the job, so the broker must have it when the source first sees it.
    broker = own_broker(port)
    broker.topic(1, "late")
    broker.produce("late", [b"1"])
    broker.pause()
    client = start(source.build(), "late")
    broker.resume()
    client.result()
    assert Kept.results["late"] == ["1"]


def test_when_all_brokers_are_gone_for_too_long_the_job_fails(own_broker: Callable[..., Broker]) -> None:
    broker = own_broker()
    broker.produce(broker.topic(1, "gone"), [b"1"])
    client = start(builder(broker.servers, "gone").build(), "gone")
    wait_until(lambda: Kept.results["gone"] == ["1"])
    broker.stop()
    with pytest.raises(
        JobExecutionError, match=r"reconnecting to the brokers for 3 s failed.*bootstrap.servers"
    ):
        client.result()


def test_a_broker_that_does_not_answer_for_a_while_is_waited_for_in_mid_run(
    own_broker: Callable[..., Broker], tmp_path: Path
) -> None:
    broker = own_broker()
    broker.topic(1, "pause")
    broker.produce("pause", [b"1"])
    source = builder(broker.servers, "pause").set_property("retry.timeout.ms", "30000")
    source.set_property("socket.timeout.ms", "1000")
    client = start(source.build(), "pause", tmp_path)
    wait_until(lambda: Kept.results["pause"] == ["1"])
    broker.pause()
    before = client.trigger_checkpoint()
    # Offsets cannot be committed now, and checkpoints do not need that.
    assert client.trigger_checkpoint() > before
    broker.resume()
    broker.produce("pause", [b"2"])
    wait_until(lambda: Kept.results["pause"] == ["1", "2"])
    client.cancel().result(WAIT_S)


def test_a_commit_that_fails_does_not_fail_the_job(own_broker: Callable[..., Broker], tmp_path: Path) -> None:
    broker = own_broker()
    broker.produce(broker.topic(1, "commits"), [b"1"])
    source = builder(broker.servers, "commits").set_property("retry.timeout.ms", "60000")
    client = start(source.build(), "commits", tmp_path)
    wait_until(lambda: Kept.results["commits"] == ["1"])
    wait_until(lambda: broker.committed("g", "commits") == 1)
    broker.stop()
    before = client.trigger_checkpoint()
    assert client.trigger_checkpoint() > before
    client.cancel().result(WAIT_S)


def test_wrong_credentials_fail_the_job_and_the_error_says_so(own_broker: Callable[..., Broker]) -> None:
    broker = own_broker(None, ("--authentication",))
    source = builder(broker.servers, "any").set_property("retry.timeout.ms", "3000").set_properties({
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": "nobody",
        "sasl.password": "wrong",
    })  # fmt: skip
    with pytest.raises(JobExecutionError, match=r"refuses the credentials; correct sasl.username"):
        start(source.build(), "credentials").result()


def test_records_that_the_broker_no_longer_has_fail_the_job_unless_the_loss_is_accepted(
    tmp_path: Path,
) -> None:
    # librdkafka's mock cluster answers a fetch behind the end as Kafka does; the real broker here does not.
    clusters = [Producer({"test.mock.num.brokers": 1}) for _ in range(2)]
    servers = []
    for cluster, count in zip(clusters, (5, 2), strict=True):
        (found,) = cluster.list_topics(timeout=WAIT_S).brokers.values()
        servers.append(f"{found.host}:{found.port}")
        for number in range(count):
            cluster.produce("t", str(number), partition=0)
        assert cluster.flush(WAIT_S) == 0
    client = start(builder(servers[0], "t").build(), "full", tmp_path)
    wait_until(lambda: len(Kept.results["full"]) == 5)
    path = client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result(WAIT_S)
    restored = {"execution.state-recovery.path": str(path)}
    with pytest.raises(
        JobExecutionError, match=r"t-0 from offset 5 failed.*The broker deleted these records"
    ):
        start(builder(servers[1], "t").build(), "lost", tmp_path / "2", **restored).result()
    accepted = builder(servers[1], "t").set_property("auto.offset.reset", "earliest").build()
    client = start(accepted, "accepted", tmp_path / "3", **restored)
    wait_until(lambda: Kept.results["accepted"] == ["0", "1"])
    client.cancel().result(WAIT_S)
