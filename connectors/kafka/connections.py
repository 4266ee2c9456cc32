"""Notices when no broker answers any more, and when they refuse us."""

from __future__ import annotations

import logging
import time
from typing import Any

from .client import KafkaConnectorError, confluent, kafka_error, may_pass, name_of
from .commits import CommitTurns

logger = logging.getLogger(__name__)

_PROBE_S = 2.0


class ConnectionWatch:
    """What a consumer hears of its connections. librdkafka reconnects by itself, for ever.

    Args:
        where: The operator and subtask, for errors.
        retry_timeout_s: How long to go on without any broker, in seconds.
    """

    def __init__(self, where: str, retry_timeout_s: float) -> None:
        self._where = where
        self._retry_timeout_s = retry_timeout_s
        self._problem: Any = None
        self._down_since_s: float | None = None

    def on_error(self, error: Any) -> None:
        """The consumer's `error_cb`."""
        if not may_pass(error) or error.fatal():
            self._problem = error
        elif name_of(error) == "_ALL_BROKERS_DOWN" and self._down_since_s is None:
            logger.warning("%s: no broker answers; trying for %g s", self._where, self._retry_timeout_s)
            self._down_since_s = time.monotonic()

    @property
    def is_down(self) -> bool:
        """Whether no broker answers, as far as is known."""
        return self._down_since_s is not None

    def message_came(self) -> None:
        """A broker answered."""
        self._down_since_s = None

    def check(self, consumer: Any, topic: str) -> None:
        """Look whether to go on.

        Args:
            consumer: To ask the brokers, once it has been quiet for too long.
            topic: What to ask for.

        Raises:
            KafkaConnectorError: The brokers refuse us, or none has answered for too long.
        """
        problem, self._problem = self._problem, None
        if problem is not None:
            raise kafka_error(self._where, "talking to the brokers", problem)
        if self._down_since_s is None or time.monotonic() - self._down_since_s < self._retry_timeout_s:
            return
        try:
            self._probe(consumer, topic)
        except confluent().KafkaException as error:
            what = f"reconnecting to the brokers for {self._retry_timeout_s:g} s"
            raise kafka_error(self._where, what, error) from error

    def answers(self, consumer: Any) -> bool:
        """Ask the brokers, and wait for at most two seconds."""
        try:
            self._probe(consumer, None)
        except confluent().KafkaException:
            return False
        return True

    def _probe(self, consumer: Any, topic: str | None) -> None:
        # There may only have been no records since they came back.
        consumer.list_topics(topic, timeout=_PROBE_S)
        self._down_since_s = None

    def refused(self, message: Any, offset: int | None) -> KafkaConnectorError | None:
        """The error to raise for a message that is one, or `None` if it may pass.

        Args:
            message: Its `error()` is set.
            offset: From where its partition was read, if known.
        """
        error = message.error()
        what = f"reading {message.topic()}-{message.partition()}"
        if may_pass(error):
            logger.warning("%s: %s: %s", self._where, what, error.str())
            return None
        if offset is not None:
            what += f" from offset {offset}"
        if name_of(error) not in ("_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE"):
            return kafka_error(self._where, what, error)
        return KafkaConnectorError(
            f"{self._where}: {what} failed: {error.str()}. The broker deleted these records, or the topic "
            f"was made anew. To accept the loss, set the property auto.offset.reset to earliest or latest"
        )


def end(consumer: Any, watch: ConnectionWatch, turns: CommitTurns | None) -> None:
    """End a consumer, with its last commit.

    Without a broker it is only dropped: closing would wait a minute for commits that do not matter, and it
    is in no group that it could leave.
    """
    if watch.is_down and (turns is None or not turns.is_waiting or not watch.answers(consumer)):
        return
    if turns is None or turns.finish(consumer):
        consumer.close()
