"""Reads the partitions of one subtask."""

from __future__ import annotations

import itertools
import logging
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from ...common.output_tag import OutputTag
from ...operators.base import OperatorContext
from ...operators.checkpointed import CheckpointListener
from ...operators.sources.sources import SourceReader
from ...protocol.elements import Batch, RowBatch
from .client import KafkaProperties, confluent, name_of
from .commits import OffsetCommits
from .connections import ConnectionWatch, end
from .deserialization import Decoder, KafkaRecordDeserializationSchema, UndecodableMessages
from .partitions import KafkaPartitionSplit, KafkaTopicPartition

logger = logging.getLogger(__name__)

_SECOND = itemgetter(1)


@dataclass(frozen=True)
class ReaderSettings:
    """What a source tells its readers.

    Attributes:
        properties: Of the consumer.
        schema: Makes records of messages.
        undecodable: What happens to messages that the schema cannot read.
        ends: Whether there are stopping offsets.
    """

    properties: KafkaProperties
    schema: KafkaRecordDeserializationSchema
    undecodable: UndecodableMessages
    ends: bool


class KafkaReader(SourceReader, CheckpointListener):
    """One consumer for all partitions of a subtask.

    librdkafka fetches in threads of its own, up to `queued.max.messages.kbytes`; `poll` takes what is there.
    A position steps when the records before it are handed over, and not before.
    """

    def __init__(self, settings: ReaderSettings) -> None:
        self._settings = settings
        self._splits: dict[KafkaTopicPartition, KafkaPartitionSplit] = {}
        self._split_ids: frozenset[str] = frozenset()
        self._fetched: deque[tuple[KafkaTopicPartition, list[Any]]] = deque()
        self._log_ends: dict[KafkaTopicPartition, int] = {}
        self._polled = ""
        self._aside: list[tuple[OutputTag, Batch]] = []
        self._consumer: Any = None
        self._kafka: Any = None
        self._commits: OffsetCommits | None = None

    def open(self, context: OperatorContext) -> None:
        settings = self._settings
        self._where = f"operator {context.name_with_subtask}"
        self._subtask_index = context.subtask_index
        self._watch = ConnectionWatch(self._where, settings.properties.retry_timeout_s)
        settings.schema.open(context)
        self._decoder = Decoder(settings.schema, settings.undecodable, self._where)
        group = context.metrics.add_group("kafka")
        self._skipped = group.counter("undecodable")
        self._failed_commits = group.counter("failedCommits")
        if settings.properties.get("group.id") and settings.properties.own_flag(
            "commit.offsets.on.checkpoint"
        ):
            self._commits = OffsetCommits(self._where)

    # ------------------------------------------------------------ splits

    def add_splits(self, splits: list[Any]) -> None:
        kafka = confluent()
        open_splits = [split for split in splits if not split.is_finished]
        if self._commits is not None:
            for split in splits:
                if split.is_finished:
                    self._commits.partition_ended(split.partition, split.offset)
        if not open_splits:
            return
        self._splits.update({split.partition: split for split in open_splits})
        self._splits_changed()
        self._the_consumer().incremental_assign(
            [kafka.TopicPartition(s.partition.topic, s.partition.partition, s.offset) for s in open_splits]
        )

    def split_ids(self) -> frozenset[str] | None:
        return self._split_ids

    def polled_split(self) -> str:
        return self._polled

    def _splits_changed(self) -> None:
        self._split_ids = frozenset(map(str, self._splits))

    def _finish(self, partition: KafkaTopicPartition) -> None:
        kafka = confluent()
        split = self._splits.pop(partition)
        if self._commits is not None:
            self._commits.partition_ended(partition, split.offset)
        self._splits_changed()
        self._the_consumer().incremental_unassign(
            [kafka.TopicPartition(partition.topic, partition.partition)]
        )

    def _the_consumer(self) -> Any:
        if self._consumer is None:
            config = consumer_config(self._settings.properties, f"source-{self._subtask_index}")
            self._kafka = confluent()
            config.update(error_cb=self._watch.on_error, on_commit=self._on_commit, logger=logger)
            if self._settings.ends:
                config["enable.partition.eof"] = True
            self._consumer = self._kafka.Consumer(config)
        return self._consumer

    # ------------------------------------------------------------ records

    def poll(self, max_records: int) -> Batch | None:
        if not self._fetched:
            self._finish_at_log_ends()
            if self._consumer is not None:
                self._fetch(max_records)
            if not self._splits and self._settings.ends:
                return None
        while self._fetched:
            partition, messages = self._fetched.popleft()
            if partition in self._splits:
                return self._handed_over(partition, messages)
        return RowBatch([])

    def take_side_outputs(self) -> Sequence[tuple[OutputTag, Batch]]:
        if not self._aside:
            return ()
        aside, self._aside = self._aside, []
        return aside

    def _fetch(self, max_records: int) -> None:
        messages = self._consumer.consume(max_records, 0)
        if self._splits:
            self._watch.check(self._consumer, next(iter(self._splits)).topic)
        if not messages:
            return
        # Not `list.count(None)`: comparing a KafkaError with None raises, later and elsewhere.
        if any(map(self._kafka.Message.error, messages)):
            messages = [message for message in messages if not self._is_error(message)]
        if messages:
            self._watch.message_came()
        if len(self._splits) == 1:
            if messages:
                self._fetched.append((next(iter(self._splits)), messages))
            return
        self._fetched.extend(self._runs(messages))

    def _runs(self, messages: list[Any]) -> Iterator[tuple[KafkaTopicPartition, list[Any]]]:
        """The long runs of one partition that a fetch brings, without a call of Python's for each message."""
        message_type = self._kafka.Message
        has_several_topics = len({partition.topic for partition in self._splits}) > 1
        for of_number in _cut(messages, message_type.partition):
            for run in _cut(of_number, message_type.topic) if has_several_topics else (of_number,):
                yield KafkaTopicPartition(run[0].topic(), run[0].partition()), run

    def _handed_over(self, partition: KafkaTopicPartition, messages: list[Any]) -> Batch:
        split = self._splits[partition]
        stop = split.stopping_offset
        if stop is not None and messages[-1].offset() >= stop:
            messages = messages[: bisect_left([message.offset() for message in messages], stop)]
            position = stop
        else:
            position = messages[-1].offset() + 1
        batch = self._decoded(messages) if messages else RowBatch([])
        # Only now: a message that fails the job comes again after the restart.
        self._splits[partition] = split.at(position)
        self._polled = str(partition)
        if self._splits[partition].is_finished:
            self._finish(partition)
        return batch

    def _decoded(self, messages: list[Any]) -> Batch:
        records, messages, bad = self._decoder.decode(messages)
        if bad:
            self._skipped.inc(len(bad))
            tag = self._settings.undecodable.dead_letters
            if tag is not None:
                self._aside.append((tag, RowBatch(list(bad))))
        if not messages:
            return RowBatch([])
        self._decoded_from = messages
        # A topic of an old format has no times; all messages of a partition are of one kind.
        if messages[0].timestamp()[0] == self._kafka.TIMESTAMP_NOT_AVAILABLE:
            return Batch(records)
        return Batch(records, list(map(_SECOND, map(self._kafka.Message.timestamp, messages))))

    # ------------------------------------------------------------ trouble

    def polled_place(self, index: int | None) -> str | None:
        first, last = self._decoded_from[0], self._decoded_from[-1]
        partition = f"{first.topic()}-{first.partition()}"
        if index is not None:
            return f"{partition}, offset {self._decoded_from[index].offset()}"
        return f"{partition}, offsets {first.offset()} to {last.offset()}"

    def _is_error(self, message: Any) -> bool:
        error = message.error()
        if error is None:
            return False
        partition = KafkaTopicPartition(message.topic(), message.partition())
        if name_of(error) == "_PARTITION_EOF":
            self._log_ends[partition] = message.offset()
            return True
        split = self._splits.get(partition)
        refused = self._watch.refused(message, None if split is None else split.offset)
        if refused is not None:
            raise refused
        return True

    def _finish_at_log_ends(self) -> None:
        """Behind the last record there may be marks of transactions only, which no message shows."""
        log_ends, self._log_ends = self._log_ends, {}
        for partition, offset in log_ends.items():
            split = self._splits.get(partition)
            if split is not None and split.stopping_offset is not None and offset >= split.stopping_offset:
                self._splits[partition] = split.at(offset)
                self._finish(partition)

    # ------------------------------------------------------------ checkpoints

    def prepare_snapshot(self, checkpoint_id: int) -> None:
        if self._commits is not None:
            positions = {partition: split.offset for partition, split in self._splits.items()}
            self._commits.snapshot(checkpoint_id, positions)

    def snapshot_state(self) -> list[Any]:
        return list(self._splits.values())

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        if self._commits is not None:
            self._commits.complete(checkpoint_id)
            self._begin_commit()

    def _begin_commit(self) -> None:
        if self._commits is not None and self._consumer is not None and not self._watch.is_down:
            self._commits.turns.begin(self._consumer)

    def _on_commit(self, error: Any, partitions: list[Any]) -> None:
        # State decides where a restart begins; what Kafka knows is for people who watch.
        if self._commits is not None and self._commits.turns.ended(error, partitions):
            self._failed_commits.inc()
        self._begin_commit()

    def close(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            end(consumer, self._watch, None if self._commits is None else self._commits.turns)


def _cut(messages: list[Any], key: Callable[[Any], Any]) -> Iterator[list[Any]]:
    """The longest runs of messages with one key."""
    start = 0
    for _, run in itertools.groupby(map(key, messages)):
        end = start + len(list(run))
        yield messages[start:end]
        start = end


def consumer_config(properties: KafkaProperties, purpose: str) -> dict[str, Any]:
    """The configuration of a consumer whose partitions and offsets the job decides."""
    defaults = {
        # A position that the broker does not have is an error, unless the user says otherwise.
        "auto.offset.reset": "error",
        "group.id": "tidegate",
        "isolation.level": "read_committed",
        "queued.max.messages.kbytes": "16384",
        # Else a short pause of the task leaves the fetcher idle for long.
        "fetch.queue.backoff.ms": "10",
        "fetch.wait.max.ms": "100",
        "log.connection.close": "false",
    }
    return properties.for_client(
        purpose, defaults, {"enable.auto.commit": False, "enable.auto.offset.store": False}
    )
