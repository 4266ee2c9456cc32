"""Tells Kafka how far a job has come. Only for people who watch: state decides on a restore."""

from __future__ import annotations

import logging
from collections.abc import Mapping
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

    @property
    def checkpoint_ids(self) -> list[int]:
        """The checkpoints whose end is not known, oldest first."""
        return list(self._by_checkpoint)

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
