"""Producers: one that hands messages over in order and notices what failed, and one in a transaction."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Sequence
from typing import Any

from .client import KafkaConnectorError, KafkaProperties, confluent, kafka_error
from .serialization import KafkaMessage

logger = logging.getLogger(__name__)

_CLOSE_TIMEOUT_S = 5.0
_STATISTICS_MS = 50


class MessageProducer:
    """Sends messages, and raises at the next call when one could not be delivered.

    Args:
        properties: Of the producer.
        where: The operator and subtask, for errors.
        purpose: Ends the client's id.
        fixed: Properties that the user cannot change.
    """

    def __init__(
        self, properties: KafkaProperties, where: str, purpose: str, fixed: dict[str, Any] | None = None
    ) -> None:
        self._where = where
        self._retry_timeout_s = properties.retry_timeout_s
        self._failure: Any = None
        config = producer_config(properties, purpose, fixed or {})
        config.update(on_delivery=self._delivered, error_cb=self._on_error, logger=logger)
        self._producer = confluent().Producer(config)
        # Two thirds, so that the batch at hand fits, too.
        self._limit = int(config["queue.buffering.max.messages"]) * 2 // 3

    def is_ready(self) -> bool:
        """Whether there is room for another batch."""
        self._producer.poll(0)
        return len(self._producer) < self._limit

    def send(self, messages: Sequence[KafkaMessage]) -> None:
        """Hand messages over. Waits only while librdkafka's queue is full."""
        produce = self._producer.produce
        for message in messages:
            options: dict[str, Any] = {}
            if message.partition is not None:
                options["partition"] = message.partition
            if message.timestamp_ms is not None:
                options["timestamp"] = message.timestamp_ms
            if message.headers:
                options["headers"] = list(message.headers)
            while True:
                try:
                    produce(message.topic, message.value, message.key, **options)
                    break
                except BufferError:
                    self._producer.poll(0.1)
                    self.raise_failure()
                except confluent().KafkaException as error:
                    raise kafka_error(self._where, f"writing to {message.topic}", error) from error
        self._producer.poll(0)
        self.raise_failure()

    def flush(self) -> None:
        """Wait until the brokers have everything.

        Raises:
            KafkaConnectorError: They refused something, or did not answer in time.
        """
        left = self._producer.flush(self._retry_timeout_s)
        self.raise_failure()
        if left:
            raise KafkaConnectorError(
                f"{self._where}: the brokers have not taken {left} messages within "
                f"{self._retry_timeout_s:g} s; check bootstrap.servers and that the brokers run, or "
                f"raise retry.timeout.ms"
            )

    def raise_failure(self) -> None:
        """Raise what the brokers said since."""
        if self._failure is not None:
            raise self._failure

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None and self._failure is None:
            self._failure = kafka_error(self._where, f"writing to {message.topic()}", error)

    def _on_error(self, error: Any) -> None:
        if error.fatal() and self._failure is None:
            self._failure = kafka_error(self._where, "writing", error)

    def close(self, purges: bool = True) -> None:
        """End.

        Args:
            purges: Whether what is not sent is thrown away, or may still be sent for some seconds.
        """
        if purges:
            self._producer.purge(True, True, False)
        self._producer.flush(_CLOSE_TIMEOUT_S)


class TransactionalProducer(MessageProducer):
    """A producer with one transaction in its life: its name is never used again.

    A name that were used again would be the same to the broker, down to the epoch: to commit again what a
    checkpoint holds, after a crash, could then commit records that came later.

    Args:
        properties: Of the producer.
        where: The operator and subtask, for errors.
        transactional_id: The name.
    """

    def __init__(self, properties: KafkaProperties, where: str, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        self.producer_id, self.epoch = -1, -1
        super().__init__(properties, where, transactional_id, {
            "transactional.id": transactional_id,
            # The only place where librdkafka says under which id and epoch it writes.
            "statistics.interval.ms": _STATISTICS_MS,
            "stats_cb": self._take_statistics,
        })  # fmt: skip

    def begin(self) -> None:
        """Get an id and an epoch from the broker, and begin.

        Raises:
            KafkaConnectorError: The broker refuses, or does not answer in time.
        """
        kafka = confluent()
        try:
            self._producer.init_transactions(self._retry_timeout_s)
            self._producer.begin_transaction()
        except kafka.KafkaException as error:
            raise kafka_error(
                self._where, f"beginning the transaction {self.transactional_id}", error
            ) from error
        deadline_s = time.monotonic() + self._retry_timeout_s
        while self.epoch < 0:
            self._producer.poll(_STATISTICS_MS / 1_000)
            self.raise_failure()
            if time.monotonic() > deadline_s:
                raise KafkaConnectorError(
                    f"{self._where}: librdkafka does not say the producer id of {self.transactional_id}"
                )

    def _take_statistics(self, text: str) -> None:
        if self.epoch >= 0:
            return
        found = json.loads(text).get("eos", {})
        if found.get("idemp_state") == "Assigned":
            self.producer_id, self.epoch = int(found["producer_id"]), int(found["producer_epoch"])

    def commit(self) -> None:
        """Commit. May be called again when it failed.

        Raises:
            KafkaException: It failed.
        """
        self._producer.commit_transaction(self._retry_timeout_s)

    def abort(self) -> None:
        """Abort within some seconds; else the broker does it after `transaction.timeout.ms`.

        librdkafka drops what it has not sent, and waits for the answers to what it has: records that reach
        the broker after the end of their transaction would be in one that no request ends (KIP-890).
        """
        kafka = confluent()
        try:
            self._producer.abort_transaction(_CLOSE_TIMEOUT_S)
        except kafka.KafkaException as error:
            logger.warning(
                "%s: aborting %s failed (%s); the broker does it after transaction.timeout.ms",
                self._where, self.transactional_id, error,
            )  # fmt: skip

    def close(self, purges: bool = True) -> None:
        """Leave the transaction as it is: who restores the checkpoint may still commit it."""
        self._producer.purge(True, True, False)


class NextProducer:
    """Prepares the producer of the next transaction while the one before is in use.

    It takes some round trips and up to a tenth of a second to begin, for which no barrier should wait.

    Args:
        properties: Of the producers.
        where: The operator and subtask, for errors.
    """

    def __init__(self, properties: KafkaProperties, where: str) -> None:
        self._properties = properties
        self._where = where
        self._thread: threading.Thread | None = None
        self._made: TransactionalProducer | None = None
        self._error: Exception | None = None

    def prepare(self, transactional_id: str) -> None:
        """Begin to begin a transaction."""

        def work() -> None:
            try:
                producer = TransactionalProducer(self._properties, self._where, transactional_id)
                producer.begin()
                self._made = producer
            except Exception as error:
                self._error = error

        self._thread = threading.Thread(target=work, name=f"tidegate-{transactional_id}", daemon=True)
        self._thread.start()

    def take(self) -> TransactionalProducer:
        """The producer, when it has begun."""
        assert self._thread is not None, "prepare() comes before"
        self._thread.join()
        self._thread = None
        error, self._error = self._error, None
        if error is not None:
            raise error
        made, self._made = self._made, None
        assert made is not None
        return made

    def close(self) -> None:
        """Drop what was prepared: nothing was written in it."""
        if self._thread is not None:
            # Not left behind inside librdkafka: the interpreter may be about to end.
            self._thread.join(_CLOSE_TIMEOUT_S)
        self._made = None


def producer_config(properties: KafkaProperties, purpose: str, fixed: dict[str, Any]) -> dict[str, Any]:
    """The configuration of a producer."""
    defaults = {
        "acks": "all",
        "enable.idempotence": True,
        "linger.ms": 5,
        "queue.buffering.max.messages": 100_000,
        # Success is the rule, and a call of Python's for every message is dear.
        "delivery.report.only.error": True,
        "log.connection.close": "false",
    }
    return properties.for_client(purpose, defaults, fixed)
