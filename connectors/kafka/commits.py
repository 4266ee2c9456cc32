"""Tells Kafka how far a job has come. Only for people who watch: state decides on a restore."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .client import confluent
from .partitions import KafkaTopicPartition

logger = logging.getLogger(__name__)

MAX_PENDING = 100
"""So many checkpoints may be without an end; of more, the oldest are forgotten."""


class PendingOffsets:
    """Offsets by the checkpoint that they belong to, oldest first."""

    def __init__(self) -> None:
        self._by_checkpoint: dict[int, dict[KafkaTopicPartition, int]] = {}

    def __len__(self) -> int:
        return len(self._by_checkpoint)

    def __iter__(self) -> Iterator[int]:
        """The checkpoints, oldest first."""
        return iter(self._by_checkpoint)

    def __getitem__(self, checkpoint_id: int) -> Mapping[KafkaTopicPartition, int]:
        return self._by_checkpoint[checkpoint_id]

    def add(self, checkpoint_id: int, offsets: Mapping[KafkaTopicPartition, int]) -> None:
        """A snapshot for this checkpoint holds these offsets."""
        self._by_checkpoint[checkpoint_id] = dict(offsets)
        while len(self._by_checkpoint) > MAX_PENDING:
            del self._by_checkpoint[next(iter(self._by_checkpoint))]

    def take(self, checkpoint_id: int) -> dict[KafkaTopicPartition, int] | None:
        """The checkpoint is complete: its offsets, and those of older ones are dropped; `None` if unknown."""
        if checkpoint_id not in self._by_checkpoint:
            return None
        taken = self._by_checkpoint.pop(checkpoint_id)
        for older in [each for each in self._by_checkpoint if each < checkpoint_id]:
            del self._by_checkpoint[older]
        return taken


class OffsetCommits:
    """Commits the offsets of complete checkpoints, without waiting.

    Args:
        where: The operator and subtask, for the log.
    """

    def __init__(self, where: str) -> None:
        self._where = where
        self._pending = PendingOffsets()
        self._ended: dict[KafkaTopicPartition, int] = {}
        self._outcome = CommitOutcome(where)

    def partition_ended(self, partition: KafkaTopicPartition, offset: int) -> None:
        """A partition was read to its end, and is in no later snapshot."""
        self._ended[partition] = offset

    def snapshot(self, checkpoint_id: int, offsets: Mapping[KafkaTopicPartition, int]) -> None:
        """A snapshot is taken."""
        self._pending.add(checkpoint_id, {**self._ended, **offsets})

    def complete(self, checkpoint_id: int, consumer: Any) -> None:
        """A checkpoint is complete."""
        offsets = self._pending.take(checkpoint_id)
        if offsets:
            commit(consumer, offsets, self._where)

    def ended(self, error: Any, partitions: Sequence[Any]) -> bool:
        """The consumer's `on_commit`; whether the commit failed."""
        return self._outcome.failed(error, partitions)


class CommitOutcome:
    """Logs when commits begin to fail, and when they work again.

    Args:
        where: The operator and subtask.
    """

    def __init__(self, where: str) -> None:
        self._where = where
        self._fails = False

    def failed(self, error: Any, partitions: Sequence[Any]) -> bool:
        """Whether a commit failed."""
        reasons = [each.error for each in partitions if each.error is not None]
        reason = error if error is not None else next(iter(reasons), None)
        if reason is not None and not self._fails:
            logger.warning("%s: committing offsets to Kafka fails: %s", self._where, reason)
        elif reason is None and self._fails:
            logger.info("%s: committing offsets to Kafka works again", self._where)
        self._fails = reason is not None
        return self._fails


def commit(consumer: Any, offsets: Mapping[KafkaTopicPartition, int], where: str) -> None:
    """Commit offsets without waiting. What becomes of it goes to the consumer's `on_commit`."""
    kafka = confluent()
    try:
        consumer.commit(
            offsets=[kafka.TopicPartition(each.topic, each.partition, at) for each, at in offsets.items()],
            asynchronous=True,
        )
    except kafka.KafkaException as error:
        logger.warning("%s: committing offsets failed: %s", where, error)
