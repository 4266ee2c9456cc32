"""Tells Kafka how far a job has come. Only for people who watch: state decides on a restore."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .client import confluent
from .partitions import KafkaTopicPartition

logger = logging.getLogger(__name__)

_PATIENCE_S, _POLL_S = 5.0, 0.05

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
        self.turns = CommitTurns(where)
        self._pending = PendingOffsets()
        self._ended: dict[KafkaTopicPartition, int] = {}

    def partition_ended(self, partition: KafkaTopicPartition, offset: int) -> None:
        """A partition was read to its end, and is in no later snapshot."""
        self._ended[partition] = offset

    def snapshot(self, checkpoint_id: int, offsets: Mapping[KafkaTopicPartition, int]) -> None:
        """A snapshot is taken."""
        self._pending.add(checkpoint_id, {**self._ended, **offsets})

    def complete(self, checkpoint_id: int) -> None:
        """A checkpoint is complete: its offsets are the next to be committed."""
        offsets = self._pending.take(checkpoint_id)
        if offsets:
            self.turns.offer(offsets)


class CommitTurns:
    """Commits one after the other, always the newest.

    librdkafka repeats a commit that it could not send at once, for instance because it still looks for the
    group's coordinator, and then an older one may come after a newer one and take its place.

    Args:
        where: The operator and subtask, for the log.
    """

    def __init__(self, where: str) -> None:
        self._where = where
        self._next: Mapping[KafkaTopicPartition, int] = {}
        self._is_under_way = False
        self._fails = False

    @property
    def is_waiting(self) -> bool:
        """Whether there are offsets that were not sent."""
        return bool(self._next)

    def offer(self, offsets: Mapping[KafkaTopicPartition, int]) -> None:
        """These are to be committed, instead of older ones that still wait."""
        self._next = offsets

    def begin(self, consumer: Any) -> None:
        """Commit what waits, unless a commit is under way."""
        if self._next and not self._is_under_way:
            offsets, self._next = self._next, {}
            self._is_under_way = _commit(consumer, offsets, self._where)

    def ended(self, error: Any, partitions: Sequence[Any]) -> bool:
        """The consumer's `on_commit`; whether the commit failed, which is logged when it begins and ends."""
        self._is_under_way = False
        reasons = [each.error for each in partitions if each.error is not None]
        reason = error if error is not None else next(iter(reasons), None)
        if reason is not None and not self._fails:
            logger.warning("%s: committing offsets to Kafka fails: %s", self._where, reason)
        elif reason is None and self._fails:
            logger.info("%s: committing offsets to Kafka works again", self._where)
        self._fails = reason is not None
        return self._fails

    def finish(self, consumer: Any) -> bool:
        """Commit what waits, and wait a moment for the answer; whether there was one."""
        deadline_s = time.monotonic() + _PATIENCE_S
        self.begin(consumer)
        while self._is_under_way and time.monotonic() < deadline_s:
            consumer.poll(_POLL_S)
            self.begin(consumer)
        return not self._is_under_way


def _commit(consumer: Any, offsets: Mapping[KafkaTopicPartition, int], where: str) -> bool:
    """Commit offsets without waiting. What becomes of it goes to the consumer's `on_commit`, if it began."""
    kafka = confluent()
    try:
        consumer.commit(
            offsets=[kafka.TopicPartition(each.topic, each.partition, at) for each, at in offsets.items()],
            asynchronous=True,
        )
    except kafka.KafkaException as error:
        logger.warning("%s: committing offsets failed: %s", where, error)
        return False
    return True
