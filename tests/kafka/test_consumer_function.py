"""The classic consumer: offsets in union list state, and commits that belong to a checkpoint."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, ClassVar

import pytest
from tidegate.common.errors import ConfigurationError, JobExecutionError
from tidegate.common.serialization import SimpleStringSchema
from tidegate.connectors.kafka.commits import MAX_PENDING, CommitTurns, PendingOffsets
from tidegate.datastream import RuntimeContext
from tidegate.datastream.connectors.kafka import (
    FlinkKafkaConsumer,
    FlinkKafkaProducer,
    KafkaTopicPartition,
    OffsetCommitMode,
    Semantic,
)

from ..datastream.jobs import Kept, environment
from .broker import WAIT_S, Broker
from .waiting import wait_until

FIRST, SECOND = KafkaTopicPartition("a", 0), KafkaTopicPartition("a", 1)


def consumer(broker: Broker, *topics: str, kind: type = FlinkKafkaConsumer, **properties: str) -> Any:
    config = {"bootstrap.servers": broker.servers, "group.id": f"g-{topics[0]}"}
    config.update({name.replace("_", "."): value for name, value in properties.items()})
    return kind(list(topics), SimpleStringSchema(), config).set_start_from_earliest()


def start(env: Any, function: Any, name: str) -> Any:
    stream = env.add_source(function, "kafka").uid("kafka").map(Kept(name)).uid("kept")
    stream.add_sink(lambda value: None).uid("end")
    return env.execute_async()


# ---------------------------------------------------------------- offsets that wait for their checkpoint


class Asked:
    """Stands where the consumer does, and keeps what it was asked to commit."""

    def __init__(self) -> None:
        self.offsets: list[int] = []

    def commit(self, offsets: list[Any], asynchronous: bool) -> None:
        self.offsets.append(offsets[0].offset)


def test_a_commit_begins_when_the_one_before_has_ended_and_takes_the_newest_offsets() -> None:
    turns, consumer = CommitTurns("reader (1/1)"), Asked()
    for offset in (1, 2, 3):
        turns.offer({FIRST: offset})
        turns.begin(consumer)
    assert consumer.offsets == [1]
    assert not turns.ended(None, [])
    turns.begin(consumer)
    assert consumer.offsets == [1, 3]
    assert not turns.is_waiting


def test_a_complete_checkpoint_takes_its_own_offsets_and_drops_older_ones() -> None:
    pending = PendingOffsets()
    for checkpoint_id in (1, 2, 3):
        pending.add(checkpoint_id, {FIRST: checkpoint_id})
    assert pending.take(2) == {FIRST: 2}
    assert list(pending) == [3]
    assert pending[3] == {FIRST: 3}


def test_an_unknown_checkpoint_takes_nothing_and_drops_nothing() -> None:
    pending = PendingOffsets()
    pending.add(5, {FIRST: 5})
    assert pending.take(6) is None
    assert pending.take(4) is None
    assert list(pending) == [5]


def test_of_too_many_checkpoints_without_an_end_the_oldest_are_dropped() -> None:
    pending = PendingOffsets()
    for checkpoint_id in range(MAX_PENDING + 3):
        pending.add(checkpoint_id, {FIRST: checkpoint_id})
    assert len(pending) == MAX_PENDING == 100
    assert next(iter(pending)) == 3


def test_offsets_of_a_snapshot_do_not_change_any_more() -> None:
    pending, offsets = PendingOffsets(), {FIRST: 1}
    pending.add(1, offsets)
    offsets[FIRST] = 2
    assert pending.take(1) == {FIRST: 1}


@pytest.mark.parametrize(
    ("is_checkpointing", "on_checkpoints", "periodic", "mode"),
    [
        (True, True, True, OffsetCommitMode.ON_CHECKPOINTS),
        (True, True, False, OffsetCommitMode.ON_CHECKPOINTS),
        (True, False, True, OffsetCommitMode.DISABLED),
        (False, True, True, OffsetCommitMode.KAFKA_PERIODIC),
        (False, True, False, OffsetCommitMode.DISABLED),
    ],
)
def test_commit_modes(
    is_checkpointing: bool, on_checkpoints: bool, periodic: bool, mode: OffsetCommitMode
) -> None:
    assert OffsetCommitMode.of(is_checkpointing, on_checkpoints, periodic) is mode


# ---------------------------------------------------------------- jobs


class Watching(FlinkKafkaConsumer):
    """Shows what it restored."""

    restored: ClassVar[list[Any]] = []

    def open(self, runtime_context: RuntimeContext) -> None:
        Watching.restored.append(self.restored_state)
        super().open(runtime_context)


def test_every_subtask_restores_all_offsets_and_a_new_partition_starts_from_its_beginning(
    broker: Broker, tmp_path: Path
) -> None:
    old, new = broker.topic(3), broker.topic(1)
    for partition in range(3):
        broker.produce(old, [b"%d-%d" % (partition, number) for number in range(4)], partition)
    Watching.restored = []
    client = start(environment(tmp_path, 2), consumer(broker, old, kind=Watching), "first")
    wait_until(lambda: len(Kept.results["first"]) == 12)
    path = client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result(WAIT_S)
    assert Watching.restored == [None, None]
    broker.produce(old, [b"more"], 1)
    broker.produce(new, [b"new-0", b"new-1"])
    options = {"execution.state-recovery.path": str(path)}
    env = environment(tmp_path / "again", 3, options)
    client = start(env, consumer(broker, old, new, kind=Watching).set_start_from_latest(), "second")
    wait_until(lambda: len(Kept.results["second"]) >= 3)
    client.cancel().result(WAIT_S)
    assert sorted(Kept.results["second"]) == ["more", "new-0", "new-1"]
    expected = [(KafkaTopicPartition(old, number), 4) for number in range(3)]
    assert [list(each.items()) for each in Watching.restored[2:]] == [expected] * 3


class FailsAt(Kept):
    """Fails once at a record, when the checkpoint of an earlier one is complete."""

    failed = threading.Event()

    def map(self, value: Any) -> Any:
        if value == "150" and not FailsAt.failed.is_set():
            FailsAt.failed.set()
            raise RuntimeError("crash")
        return super().map(value)


def test_after_a_failure_reading_goes_on_at_the_offsets_of_the_checkpoint(
    broker: Broker, tmp_path: Path
) -> None:
    topics = broker.topic(1), broker.topic(1)
    broker.produce(topics[0], [b"%d" % number for number in range(200)])
    FailsAt.failed.clear()
    env = environment(tmp_path)
    out = FlinkKafkaProducer(
        topics[1],
        SimpleStringSchema(),
        {"bootstrap.servers": broker.servers, "transactional.id": f"classic-{topics[1]}"},
        semantic=Semantic.EXACTLY_ONCE,
    )
    stream = env.add_source(consumer(broker, topics[0]), "kafka").uid("kafka")
    stream.map(FailsAt("failing")).uid("map").add_sink(out).uid("out")
    client = env.execute_async()
    wait_until(lambda: FailsAt.failed.is_set() and "199" in Kept.results["failing"])
    client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result(WAIT_S)
    assert [int(value) for value in broker.values(topics[1])] == list(range(200))


def test_offsets_are_committed_at_checkpoints_or_from_time_to_time_or_not_at_all(
    broker: Broker, tmp_path: Path
) -> None:
    topics = [broker.topic() for _ in range(3)]
    for topic in topics:
        broker.produce(topic, [b"1", b"2", b"3"])
    functions = [
        consumer(broker, topics[0]),
        consumer(broker, topics[1]).set_commit_offsets_on_checkpoints(False),
        consumer(broker, topics[2], enable_auto_commit="true", auto_commit_interval_ms="10"),
    ]
    environments = [environment(tmp_path / "0"), environment(tmp_path / "1"), environment()]
    clients = [
        start(env, function, topic)
        for env, function, topic in zip(environments, functions, topics, strict=True)
    ]
    wait_until(lambda: broker.committed(f"g-{topics[0]}", topics[0]) == 3)
    wait_until(lambda: broker.committed(f"g-{topics[2]}", topics[2]) == 3)
    clients[1].trigger_checkpoint()
    for client in clients:
        client.cancel().result(WAIT_S)
    assert broker.committed(f"g-{topics[1]}", topics[1]) < 0


def test_what_is_missing_or_wrong_is_an_error(broker: Broker) -> None:
    with pytest.raises(ConfigurationError, match=r"needs a topic, and the property bootstrap\.servers"):
        FlinkKafkaConsumer([], SimpleStringSchema(), {})
    with pytest.raises(ConfigurationError, match=r"needs the property transactional\.id"):
        FlinkKafkaProducer("t", SimpleStringSchema(), {}, semantic=Semantic.EXACTLY_ONCE)
    env = environment(options={"restart-strategy.type": "none"})
    client = start(env, consumer(broker, "no-such-topic"), "missing")
    with pytest.raises(JobExecutionError, match=r"topics \['no-such-topic'\] do not exist"):
        client.result()
