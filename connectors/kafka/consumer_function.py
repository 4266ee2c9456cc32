"""The Kafka source as a function (PyFlink's `FlinkKafkaConsumer`): a textbook use of union list state.

Source of the semantics: Flink's `FlinkKafkaConsumerBase`. `KafkaSource` is what new programs use.
"""

from __future__ import annotations

import enum
import logging
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from ...common.errors import ConfigurationError
from ...common.serialization import DeserializationSchema
from ...common.typeinfo import TypeInformation
from ...operators.checkpointed import (
    CheckpointedFunction,
    CheckpointListener,
    FunctionInitializationContext,
    FunctionSnapshotContext,
)
from ...operators.runtime_context import RuntimeContext
from ...operators.sources.source_context import SourceContext
from ...operators.sources.source_function import RichParallelSourceFunction
from ...state.descriptors import ListStateDescriptor
from .client import KafkaProperties, confluent, name_of
from .commits import CommitTurns, PendingOffsets
from .connections import ConnectionWatch, end
from .deserialization import Decoder, KafkaRecordDeserializationSchema, UndecodableMessages
from .enumerator import PartitionLookup, Subscription, owner_of
from .partitions import KafkaOffsetResetStrategy, KafkaOffsetsInitializer, KafkaTopicPartition
from .reader import consumer_config

logger = logging.getLogger(__name__)

_CHUNK = 256
_WAIT_S = 0.05


class OffsetCommitMode(enum.Enum):
    """When offsets are committed to Kafka; there they are for people who watch, and state decides."""

    DISABLED = "disabled"
    ON_CHECKPOINTS = "on-checkpoints"
    KAFKA_PERIODIC = "kafka-periodic"

    @staticmethod
    def of(is_checkpointing: bool, on_checkpoints: bool, periodic: bool) -> OffsetCommitMode:
        """The mode of a job.

        Args:
            is_checkpointing: Whether it takes checkpoints.
            on_checkpoints: `set_commit_offsets_on_checkpoints`.
            periodic: The property `enable.auto.commit`, which counts without checkpoints only.
        """
        if is_checkpointing:
            return OffsetCommitMode.ON_CHECKPOINTS if on_checkpoints else OffsetCommitMode.DISABLED
        return OffsetCommitMode.KAFKA_PERIODIC if periodic else OffsetCommitMode.DISABLED


class FlinkKafkaConsumer(RichParallelSourceFunction, CheckpointedFunction, CheckpointListener):
    """Reads topics in all subtasks; each subtask keeps its offsets in union list state.

    Because a restored subtask sees the offsets of all partitions, it can pick those that are its own now,
    whatever the parallelism was, and tell a partition that is new, which it reads from its beginning.

    Args:
        topics: One topic, or several.
        deserialization_schema: Makes records of the messages' values, or of whole messages.
        properties: librdkafka's, and those of this connector; `bootstrap.servers` is needed.

    Attributes:
        restored_state: The offsets of all partitions by the restored checkpoint, ordered by partition; `None`
            without one.
        pending_offsets_to_commit: By checkpoint, what to commit when it is complete; at most 100.
    """

    _to_commit: dict[KafkaTopicPartition, int] | None = None

    def __init__(
        self,
        topics: str | Sequence[str],
        deserialization_schema: DeserializationSchema | KafkaRecordDeserializationSchema,
        properties: Mapping[str, Any],
    ) -> None:
        names = (topics,) if isinstance(topics, str) else tuple(topics)
        if not names or not properties.get("bootstrap.servers"):
            raise ConfigurationError("FlinkKafkaConsumer needs a topic, and the property bootstrap.servers")
        self._subscription = Subscription(topics=names)
        self._value_schema = deserialization_schema
        self._properties = KafkaProperties(properties)
        reset = KafkaOffsetResetStrategy(str(properties.get("auto.offset.reset", "latest")))
        self._starting = KafkaOffsetsInitializer.committed_offsets(reset)
        self._commits_on_checkpoints = True
        self.restored_state: dict[KafkaTopicPartition, int] | None = None
        self.pending_offsets_to_commit = PendingOffsets()

    # ------------------------------------------------------------ settings

    def set_start_from_earliest(self) -> FlinkKafkaConsumer:
        """Without state, begin with the first record."""
        return self._start_from(KafkaOffsetsInitializer.earliest())

    def set_start_from_latest(self) -> FlinkKafkaConsumer:
        """Without state, begin behind the last record."""
        return self._start_from(KafkaOffsetsInitializer.latest())

    def set_start_from_timestamp(self, startup_offsets_timestamp: int) -> FlinkKafkaConsumer:
        """Without state, begin with the first record at or after a time, in milliseconds since the epoch."""
        return self._start_from(KafkaOffsetsInitializer.timestamp(startup_offsets_timestamp))

    def set_start_from_group_offsets(self) -> FlinkKafkaConsumer:
        """Without state, begin at what the group committed, else as `auto.offset.reset` says. The default."""
        reset = KafkaOffsetResetStrategy(self._properties.get("auto.offset.reset", "latest"))
        return self._start_from(KafkaOffsetsInitializer.committed_offsets(reset))

    def set_start_from_specific_offsets(
        self, offsets: Mapping[KafkaTopicPartition, int]
    ) -> FlinkKafkaConsumer:
        """Without state, begin at these offsets; with the first record of a partition that is not named."""
        return self._start_from(KafkaOffsetsInitializer.offsets(offsets))

    def _start_from(self, starting: KafkaOffsetsInitializer) -> FlinkKafkaConsumer:
        self._starting = starting
        return self

    def set_commit_offsets_on_checkpoints(self, commit_on_checkpoints: bool) -> FlinkKafkaConsumer:
        """Whether the offsets of a complete checkpoint are committed to Kafka; true unless set."""
        self._commits_on_checkpoints = commit_on_checkpoints
        return self

    def get_produced_type(self) -> TypeInformation | None:
        """Type of the records, where the schema knows it."""
        schema = self._value_schema
        return schema.get_produced_type() if isinstance(schema, DeserializationSchema) else None

    # ------------------------------------------------------------ state

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        descriptor = ListStateDescriptor("topic-partition-offset-states", None)
        self._state = context.get_operator_state_store().get_union_list_state(descriptor)
        if context.is_restored():
            self.restored_state = dict(sorted(self._state.get()))

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self._state.update(list(self._offsets.items()))
        if self._mode is OffsetCommitMode.ON_CHECKPOINTS:
            self.pending_offsets_to_commit.add(context.get_checkpoint_id(), self._offsets)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        offsets = self.pending_offsets_to_commit.take(checkpoint_id)
        if offsets:
            # `run` commits, for the consumer may be used by one thread only. If it has not come to it when
            # the next checkpoint is complete, that one's offsets take the place of these.
            self._to_commit = offsets

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Nothing is lost: a later checkpoint covers what this one would have."""

    # ------------------------------------------------------------ life

    def open(self, runtime_context: RuntimeContext) -> None:
        context, properties = runtime_context, self._properties
        self._index = context.get_index_of_this_subtask()
        self._parallelism = context.get_number_of_parallel_subtasks()
        self._where = f"operator {context.get_task_name()} ({self._index + 1}/{self._parallelism})"
        self._mode = OffsetCommitMode.of(
            context.is_checkpointing_enabled(),
            self._commits_on_checkpoints and properties.get("group.id") is not None,
            (properties.get("enable.auto.commit") or "false").lower() == "true",
        )
        self._cancelled = threading.Event()
        self._offsets: dict[KafkaTopicPartition, int] = {}
        schema = self._value_schema
        if isinstance(schema, DeserializationSchema):
            schema = KafkaRecordDeserializationSchema.value_only(schema)
        self._decoder = Decoder(schema, UndecodableMessages(), self._where)
        self._watch = ConnectionWatch(self._where, properties.retry_timeout_s)
        self._commits = CommitTurns(self._where)
        self._lookup = PartitionLookup(properties, self._subscription, self._starting)
        self._consumer = confluent().Consumer(self._consumer_config())
        self._known = set(self.restored_state or ())
        restored = self.restored_state
        mine = {each: at for each, at in (restored or {}).items() if self._is_mine(each)}
        self._assign({each: at for each, at in mine.items() if each.topic in self._subscription.topics})
        self._take_over(self._find(is_first=restored is None))

    def _consumer_config(self) -> dict[str, Any]:
        config = consumer_config(self._properties, f"consumer-{self._index}")
        config.update(error_cb=self._watch.on_error, on_commit=self._commits.ended, logger=logger)
        config["enable.auto.commit"] = self._mode is OffsetCommitMode.KAFKA_PERIODIC
        return config

    def _is_mine(self, partition: KafkaTopicPartition) -> bool:
        return owner_of(partition, self._parallelism) == self._index

    def _find(self, is_first: bool) -> dict[KafkaTopicPartition, int]:
        """Partitions of this subtask that are not known; what comes up later is read from its beginning."""
        return self._lookup.persistently(self._known, is_first, self._is_mine)

    def _take_over(self, found: Mapping[KafkaTopicPartition, int]) -> None:
        self._known.update(found)
        self._assign(found)

    def _assign(self, offsets: Mapping[KafkaTopicPartition, int]) -> None:
        kafka = confluent()
        self._offsets.update(offsets)
        if offsets:
            self._consumer.incremental_assign(
                [kafka.TopicPartition(each.topic, each.partition, at) for each, at in offsets.items()]
            )

    def run(self, ctx: SourceContext) -> None:
        interval_s = self._properties.own_ms("partition.discovery.interval.ms") / 1_000
        due_s = time.monotonic() + interval_s
        lock = ctx.get_checkpoint_lock()
        while not self._cancelled.is_set():
            if interval_s > 0 and time.monotonic() >= due_s:
                found = self._find(is_first=False)
                with lock:
                    self._take_over(found)
                due_s = time.monotonic() + interval_s
            if not self._offsets:
                self._cancelled.wait(_WAIT_S)
                continue
            self._take_offsets()
            if not self._watch.is_down:
                self._commits.begin(self._consumer)
            messages = self._consumer.consume(_CHUNK, _WAIT_S)
            self._watch.check(self._consumer, self._subscription.topics[0])
            messages = [message for message in messages if not self._is_error(message)]
            if messages:
                self._watch.message_came()
                self._emit(ctx, messages)

    def _take_offsets(self) -> None:
        to_commit, self._to_commit = self._to_commit, None
        if to_commit is not None:
            self._commits.offer(to_commit)

    def _emit(self, ctx: SourceContext, messages: list[Any]) -> None:
        records, kept, _ = self._decoder.decode(messages)
        # A snapshot falls before all of them or behind: what is emitted and the offsets change together.
        with ctx.get_checkpoint_lock():
            for record, message in zip(records, kept):
                ctx.collect_with_timestamp(record, message.timestamp()[1])
            for message in messages:
                self._offsets[KafkaTopicPartition(message.topic(), message.partition())] = (
                    message.offset() + 1
                )
        if self._mode is OffsetCommitMode.KAFKA_PERIODIC:
            kafka = confluent()
            self._consumer.store_offsets(
                offsets=[
                    kafka.TopicPartition(each.topic, each.partition, at) for each, at in self._offsets.items()
                ]
            )

    def _is_error(self, message: Any) -> bool:
        error = message.error()
        if error is None or name_of(error) == "_PARTITION_EOF":
            return error is not None
        offset = self._offsets.get(KafkaTopicPartition(message.topic(), message.partition()))
        refused = self._watch.refused(message, offset)
        if refused is not None:
            raise refused
        return True

    def cancel(self) -> None:
        self._cancelled.set()

    def close(self) -> None:
        if "_consumer" in vars(self):
            self._take_offsets()
            end(self._consumer, self._watch, self._commits)
