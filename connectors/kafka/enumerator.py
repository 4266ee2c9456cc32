"""Finds the partitions of a source, and gives them to its readers."""

from __future__ import annotations

import logging
import re
import time
import zlib
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

from ...operators.sources.enumerators import SplitEnumerator, SplitEnumeratorContext
from .client import KafkaConnectorError, KafkaProperties, confluent, kafka_error, may_pass
from .partitions import BrokerOffsets, KafkaOffsetsInitializer, KafkaPartitionSplit, KafkaTopicPartition

logger = logging.getLogger(__name__)

_FIRST_PAUSE_MS = 100
_LONGEST_PAUSE_MS = 5_000


@dataclass(frozen=True)
class Subscription:
    """Which partitions are read. One of the three is set.

    Attributes:
        topics: All partitions of these.
        pattern: All partitions of topics whose whole name matches.
        partitions: These and no others.
    """

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: tuple[KafkaTopicPartition, ...] = ()

    def find(self, admin: Any, timeout_s: float) -> list[KafkaTopicPartition]:
        """The partitions that there are now.

        Raises:
            KafkaConnectorError: A topic or a partition that was named is not there.
        """
        there = admin.list_topics(timeout=timeout_s).topics
        if self.pattern is not None:
            names = [name for name in there if re.fullmatch(self.pattern, name)]
        else:
            names = sorted({*self.topics, *(each.topic for each in self.partitions)})
        missing = [name for name in names if name not in there or not there[name].partitions]
        if missing:
            reason = there[missing[0]].error if missing[0] in there else None
            raise KafkaConnectorError(
                f"the topics {missing} do not exist{f' ({reason})' if reason else ''}; create them, or "
                f"correct their names"
            )
        found = [KafkaTopicPartition(name, number) for name in names for number in there[name].partitions]
        if not self.partitions:
            return sorted(found)
        lost = [str(each) for each in self.partitions if each not in found]
        if lost:
            raise KafkaConnectorError(
                f"the partitions {lost} do not exist; there are {list(map(str, found))}"
            )
        return sorted(self.partitions)


@dataclass(frozen=True)
class EnumeratorSettings:
    """What a source tells its enumerator.

    Attributes:
        properties: Of the client that asks.
        subscription: What is read.
        starting: Where reading begins, in partitions that are there at the start.
        stopping: Where it ends; `None` for never.
    """

    properties: KafkaProperties
    subscription: Subscription
    starting: KafkaOffsetsInitializer
    stopping: KafkaOffsetsInitializer | None


@dataclass
class EnumeratorState:
    """What an enumerator knows.

    Attributes:
        known: Partitions that were found.
        waiting: Splits that no reader has.
        has_looked: Whether partitions were looked for: those found later are new, and read from the start.
    """

    known: list[KafkaTopicPartition] = field(default_factory=list)
    waiting: list[KafkaPartitionSplit] = field(default_factory=list)
    has_looked: bool = False


class KafkaEnumerator(SplitEnumerator):
    """Looks for partitions at the start and every `partition.discovery.interval.ms`."""

    def __init__(
        self, settings: EnumeratorSettings, context: SplitEnumeratorContext, state: EnumeratorState
    ) -> None:
        self._settings = settings
        self._context = context
        self._known = set(state.known)
        self._waiting = list(state.waiting)
        self._has_looked = state.has_looked
        self._retries = Retries(settings.properties)
        self._lookup = PartitionLookup(settings.properties, settings.subscription, settings.starting)

    def start(self) -> None:
        if not self._has_looked or self._interval_ms > 0:
            self._look(0)

    @property
    def _interval_ms(self) -> int:
        """How often to look again; 0 for never. What is read to an end is looked for once."""
        if self._settings.stopping is not None:
            return 0
        return max(0, self._settings.properties.own_ms("partition.discovery.interval.ms"))

    def _look(self, delay_ms: int) -> None:
        known, is_first = frozenset(self._known), not self._has_looked
        stopping = self._settings.stopping
        self._context.call_async(lambda: self._lookup.find(known, stopping, is_first), self._looked, delay_ms)

    def _looked(self, found: list[KafkaPartitionSplit] | None, problem: BaseException | None) -> None:
        if problem is not None:
            self._try_again(problem)
            return
        assert found is not None
        self._retries.succeeded()
        if found and self._has_looked:
            logger.info("new partitions: %s", ", ".join(str(split.partition) for split in found))
        self._has_looked = True
        self._known.update(split.partition for split in found)
        self._waiting += found
        self._assign()
        if self._interval_ms > 0:
            self._look(self._interval_ms)

    def _try_again(self, problem: BaseException) -> None:
        if not isinstance(problem, confluent().KafkaException):
            raise problem
        self._look(self._retries.pause_ms_after(problem))

    def _assign(self) -> None:
        """Give every waiting split to the reader that its name decides, if that runs."""
        readers = set(self._context.registered_readers())
        parallelism = self._context.current_parallelism()
        left = []
        for split in self._waiting:
            owner = owner_of(split.partition, parallelism)
            if owner in readers:
                self._context.assign_split(split, owner)
            else:
                left.append(split)
        self._waiting = left
        if self._settings.stopping is not None and self._has_looked:
            for subtask_id in readers:
                self._context.signal_no_more_splits(subtask_id)

    def add_splits_back(self, splits: list[Any], subtask_id: int) -> None:
        self._waiting += splits

    def add_reader(self, subtask_id: int) -> None:
        self._assign()

    def snapshot_state(self, checkpoint_id: int) -> EnumeratorState:
        return EnumeratorState(sorted(self._known), list(self._waiting), self._has_looked)


def owner_of(partition: KafkaTopicPartition, parallelism: int) -> int:
    """The subtask that reads a partition: those of one topic go round, from a start of its own."""
    return (zlib.crc32(partition.topic.encode()) + partition.partition) % parallelism


class PartitionLookup:
    """Asks the brokers which partitions there are, and where to begin in them. It waits for the answers.

    Args:
        properties: Of the client that asks.
        subscription: What is read.
        starting: Where reading begins, in partitions that are there at the start.
    """

    def __init__(
        self, properties: KafkaProperties, subscription: Subscription, starting: KafkaOffsetsInitializer
    ) -> None:
        self._properties = properties
        self._subscription = subscription
        self._starting = starting
        self._admin: Any = None
        self._problem: Any = None

    def find(
        self, known: Collection[KafkaTopicPartition], stopping: KafkaOffsetsInitializer | None, is_first: bool
    ) -> list[KafkaPartitionSplit]:
        """Splits of the partitions that are not known.

        Raises:
            KafkaConnectorError: Something that was named is not there.
            KafkaException: No broker answered, or one refused.
        """
        try:
            there = self._subscription.find(self._the_admin(), self._properties.request_timeout_s)
            found = [each for each in there if each not in known]
            broker = BrokerOffsets(self._admin, self._properties)
            # What appears while the job runs is read whole, wherever the job began.
            starting = self._starting if is_first else KafkaOffsetsInitializer.earliest()
            first = starting.resolve(broker, found) if found else {}
            last = stopping.resolve(broker, found, False) if found and stopping is not None else {}
        except confluent().KafkaException as error:
            # Why no broker answers is told to the callback, not to the call that timed out.
            self._admin.poll(0)
            problem, self._problem = self._problem, None
            raise error if problem is None else confluent().KafkaException(problem) from error
        return [KafkaPartitionSplit(each, first[each], last.get(each)) for each in found]

    def persistently(
        self,
        known: Collection[KafkaTopicPartition],
        is_first: bool,
        is_wanted: Callable[[KafkaTopicPartition], bool],
    ) -> dict[KafkaTopicPartition, int]:
        """Offsets of wanted partitions that are not known; tries again while no broker answers."""
        retries = Retries(self._properties)
        while True:
            try:
                found = self.find(known, None, is_first)
                return {split.partition: split.offset for split in found if is_wanted(split.partition)}
            except confluent().KafkaException as error:
                time.sleep(retries.pause_ms_after(error) / 1_000)

    def _the_admin(self) -> Any:
        if self._admin is None:
            import confluent_kafka.admin

            config = self._properties.for_admin("enumerator")
            config.update(error_cb=self._on_error, logger=logger)
            self._admin = confluent_kafka.admin.AdminClient(config)
        self._admin.poll(0)
        return self._admin

    def _on_error(self, error: Any) -> None:
        if not may_pass(error):
            self._problem = error


class Retries:
    """How long to wait after each failed lookup, and when to give up."""

    def __init__(self, properties: KafkaProperties) -> None:
        self._properties = properties
        self.succeeded()

    def succeeded(self) -> None:
        """A lookup worked: the next trouble is a new one."""
        self._pause_ms = _FIRST_PAUSE_MS
        self._since_s: float | None = None

    def pause_ms_after(self, problem: BaseException) -> int:
        """Milliseconds to wait before the next try.

        Raises:
            KafkaConnectorError: Trying again does not help, or was tried for long enough.
        """
        now_s = time.monotonic()
        self._since_s = since_s = now_s if self._since_s is None else self._since_s
        if not may_pass(problem) or now_s - since_s >= self._properties.retry_timeout_s:
            servers = self._properties.get("bootstrap.servers")
            raise kafka_error(f"the Kafka brokers {servers}", "looking for partitions", problem) from problem
        pause_ms = self._pause_ms
        logger.warning("looking for partitions failed: %s; again in %d ms", problem, pause_ms)
        self._pause_ms = min(_LONGEST_PAUSE_MS, 2 * pause_ms)
        return pause_ms
