"""Partitions of topics, and the offsets in them at which reading begins and ends."""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ...common.errors import ConfigurationError
from .client import KafkaConnectorError, KafkaProperties, confluent


@dataclass(frozen=True, order=True)
class KafkaTopicPartition:
    """One partition of a topic.

    Args:
        topic: Name of the topic.
        partition: Number of the partition, from 0.
    """

    topic: str
    partition: int

    def get_topic(self) -> str:
        """Name of the topic."""
        return self.topic

    def get_partition(self) -> int:
        """Number of the partition."""
        return self.partition

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class KafkaPartitionSplit:
    """A partition, the offset to read next, and the offset before which to stop."""

    partition: KafkaTopicPartition
    offset: int
    stopping_offset: int | None = None

    @property
    def is_finished(self) -> bool:
        """Whether there is nothing more to read."""
        return self.stopping_offset is not None and self.offset >= self.stopping_offset

    def at(self, offset: int) -> KafkaPartitionSplit:
        """The same further on."""
        return replace(self, offset=offset)


class KafkaOffsetResetStrategy(enum.Enum):
    """What to do where no offset is known, or the known one does not exist (any more)."""

    LATEST = "latest"
    EARLIEST = "earliest"
    NONE = "none"


class _Kind(enum.Enum):
    EARLIEST = "earliest"
    LATEST = "latest"
    COMMITTED = "committed"
    TIMESTAMP = "timestamp"
    GIVEN = "given"


@dataclass(frozen=True)
class KafkaOffsetsInitializer:
    """Where reading begins, or ends. Obtain one from the static methods."""

    kind: _Kind
    reset: KafkaOffsetResetStrategy
    timestamp_ms: int = 0
    given: tuple[tuple[KafkaTopicPartition, int], ...] = ()

    @staticmethod
    def earliest() -> KafkaOffsetsInitializer:
        """The first record that is still there."""
        return KafkaOffsetsInitializer(_Kind.EARLIEST, KafkaOffsetResetStrategy.EARLIEST)

    @staticmethod
    def latest() -> KafkaOffsetsInitializer:
        """Behind the last record, at the moment when the partition is found."""
        return KafkaOffsetsInitializer(_Kind.LATEST, KafkaOffsetResetStrategy.LATEST)

    @staticmethod
    def committed_offsets(
        offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.NONE,
    ) -> KafkaOffsetsInitializer:
        """What the group committed; for a partition without that, what the strategy says."""
        return KafkaOffsetsInitializer(_Kind.COMMITTED, offset_reset_strategy)

    @staticmethod
    def timestamp(timestamp: int) -> KafkaOffsetsInitializer:
        """The first record whose time is at or after this one; behind the last if there is none.

        Args:
            timestamp: Milliseconds since the epoch.
        """
        return KafkaOffsetsInitializer(_Kind.TIMESTAMP, KafkaOffsetResetStrategy.LATEST, timestamp)

    @staticmethod
    def offsets(
        offsets: Mapping[KafkaTopicPartition, int],
        offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.EARLIEST,
    ) -> KafkaOffsetsInitializer:
        """Given offsets; for a partition that is not named, or lacks the offset, what the strategy says."""
        return KafkaOffsetsInitializer(_Kind.GIVEN, offset_reset_strategy, 0, tuple(sorted(offsets.items())))

    def resolve(
        self, broker: BrokerOffsets, partitions: Collection[KafkaTopicPartition], is_start: bool = True
    ) -> dict[KafkaTopicPartition, int]:
        """The offset of each partition. Asks the broker, and waits for its answers.

        Args:
            broker: Answers.
            partitions: Those that are asked for.
            is_start: Whether reading begins there, so that there must be something to read, or its end.

        Raises:
            KafkaConnectorError: There is no offset for a partition, and the strategy is `NONE`.
        """
        if self.kind is _Kind.EARLIEST:
            return broker.earliest(partitions)
        if self.kind is _Kind.LATEST:
            return broker.latest(partitions)
        if self.kind is _Kind.TIMESTAMP:
            return broker.at_time(partitions, self.timestamp_ms)
        known = broker.committed(partitions) if self.kind is _Kind.COMMITTED else dict(self.given)
        if not is_start and known.keys() >= set(partitions):
            # What is to come may be named, too.
            return {each: known[each] for each in partitions}
        first, last = broker.earliest(partitions), broker.latest(partitions)
        return {each: self._checked(each, known.get(each), first[each], last[each]) for each in partitions}

    def _checked(self, partition: KafkaTopicPartition, offset: int | None, first: int, last: int) -> int:
        if offset is not None and first <= offset <= last:
            return offset
        if self.reset is KafkaOffsetResetStrategy.EARLIEST:
            return first
        if self.reset is KafkaOffsetResetStrategy.LATEST:
            return last
        what = "no committed offset" if offset is None else f"no offset {offset}"
        raise KafkaConnectorError(
            f"partition {partition} has {what} (it has {first} to {last}); commit one, or choose "
            f"KafkaOffsetResetStrategy.EARLIEST or LATEST"
        )


class BrokerOffsets:
    """Asks a broker for offsets.

    Args:
        admin: An `AdminClient`.
        properties: Say whose committed offsets count, and whether the end is that of what is committed.
    """

    def __init__(self, admin: Any, properties: KafkaProperties) -> None:
        self._admin = admin
        self._group_id = properties.get("group.id")
        self._is_committed_only = properties.get("isolation.level") != "read_uncommitted"
        self._timeout_s = properties.request_timeout_s

    def earliest(self, partitions: Collection[KafkaTopicPartition]) -> dict[KafkaTopicPartition, int]:
        """The first offset of each."""
        return self._listed(partitions, _admin().OffsetSpec.earliest())

    def latest(self, partitions: Collection[KafkaTopicPartition]) -> dict[KafkaTopicPartition, int]:
        """The offset behind the last record of each."""
        return self._listed(partitions, _admin().OffsetSpec.latest())

    def at_time(
        self, partitions: Collection[KafkaTopicPartition], timestamp_ms: int
    ) -> dict[KafkaTopicPartition, int]:
        """The first offset of each at or after a time, else that behind the last record."""
        found = self._listed(partitions, _admin().OffsetSpec.for_timestamp(timestamp_ms))
        missing = [each for each, offset in found.items() if offset < 0]
        return {**found, **(self.latest(missing) if missing else {})}

    def committed(self, partitions: Collection[KafkaTopicPartition]) -> dict[KafkaTopicPartition, int]:
        """What the group committed, for partitions where it did.

        Raises:
            ConfigurationError: There is no group.
        """
        if not self._group_id:
            raise ConfigurationError("committed offsets belong to a group: call set_group_id()")
        kafka = confluent()
        asked = [kafka.TopicPartition(each.topic, each.partition) for each in sorted(partitions)]
        request = kafka.ConsumerGroupTopicPartitions(self._group_id, asked)
        futures = self._admin.list_consumer_group_offsets([request], request_timeout=self._timeout_s)
        answer = futures[self._group_id].result(self._timeout_s)
        return {
            KafkaTopicPartition(each.topic, each.partition): each.offset
            for each in answer.topic_partitions
            if each.offset >= 0 and each.error is None
        }

    def _listed(
        self, partitions: Collection[KafkaTopicPartition], spec: Any
    ) -> dict[KafkaTopicPartition, int]:
        if not partitions:
            return {}
        kafka = confluent()
        isolation = "READ_COMMITTED" if self._is_committed_only else "READ_UNCOMMITTED"
        futures = self._admin.list_offsets(
            {kafka.TopicPartition(each.topic, each.partition): spec for each in partitions},
            isolation_level=getattr(kafka.IsolationLevel, isolation),
            request_timeout=self._timeout_s,
        )
        return {
            KafkaTopicPartition(each.topic, each.partition): int(future.result(self._timeout_s).offset)
            for each, future in futures.items()
        }


def _admin() -> Any:
    confluent()
    import confluent_kafka.admin

    return confluent_kafka.admin
