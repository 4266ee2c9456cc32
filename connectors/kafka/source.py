"""The Kafka source: its partitions are splits (names of PyFlink's `KafkaSource`)."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ...common.errors import ConfigurationError
from ...common.output_tag import OutputTag
from ...common.serialization import DeserializationSchema
from ...operators.sources.enumerators import Boundedness, SplitEnumerator, SplitEnumeratorContext
from ...operators.sources.sources import Source, SourceReader
from .client import KafkaProperties
from .deserialization import KafkaRecordDeserializationSchema, UndecodableMessages
from .enumerator import EnumeratorSettings, EnumeratorState, KafkaEnumerator, Subscription
from .partitions import KafkaOffsetsInitializer, KafkaTopicPartition
from .reader import KafkaReader, ReaderSettings, consumer_config


@dataclass(frozen=True)
class _Settings:
    properties: dict[str, Any] = field(default_factory=dict)
    subscription: Subscription | None = None
    starting: KafkaOffsetsInitializer = field(default_factory=KafkaOffsetsInitializer.earliest)
    stopping: KafkaOffsetsInitializer | None = None
    is_bounded: bool = False
    schema: KafkaRecordDeserializationSchema | None = None
    undecodable: UndecodableMessages = field(default_factory=UndecodableMessages)


class KafkaSource(Source):
    """Reads topics, each partition in order, each record once. Obtain one from `KafkaSource.builder()`.

    The offsets lie in the job's checkpoints; what is committed to Kafka is for people who watch.
    """

    def __init__(self, settings: _Settings) -> None:
        assert settings.subscription is not None
        assert settings.schema is not None
        properties = KafkaProperties(settings.properties)
        self._enumerator_settings = EnumeratorSettings(
            properties, settings.subscription, settings.starting, settings.stopping
        )
        self._reader_settings = ReaderSettings(
            properties, settings.schema, settings.undecodable, settings.stopping is not None
        )
        self._is_bounded = settings.is_bounded

    @staticmethod
    def builder() -> KafkaSourceBuilder:
        """What makes a source."""
        return KafkaSourceBuilder()

    def get_boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED if self._is_bounded else Boundedness.CONTINUOUS_UNBOUNDED

    def validate(self) -> None:
        properties = self._reader_settings.properties
        properties.own_ms("partition.discovery.interval.ms")
        properties.own_ms("retry.timeout.ms")
        properties.own_flag("commit.offsets.on.checkpoint")
        properties.check("Consumer", consumer_config(properties, "check"))

    def create_enumerator(self, context: SplitEnumeratorContext) -> SplitEnumerator:
        return KafkaEnumerator(self._enumerator_settings, context, EnumeratorState())

    def restore_enumerator(self, context: SplitEnumeratorContext, checkpoint: Any) -> SplitEnumerator:
        return KafkaEnumerator(self._enumerator_settings, context, checkpoint)

    def create_reader(self, splits: list[Any]) -> SourceReader:
        return KafkaReader(self._reader_settings)


class KafkaSourceBuilder:
    """Makes a `KafkaSource`. Brokers, topics and a deserializer are needed, the rest has defaults."""

    def __init__(self) -> None:
        self._settings = _Settings()

    def set_bootstrap_servers(self, bootstrap_servers: str) -> KafkaSourceBuilder:
        """Where some of the brokers are, as `host:port,host:port`."""
        return self.set_property("bootstrap.servers", bootstrap_servers)

    def set_group_id(self, group_id: str) -> KafkaSourceBuilder:
        """The group whose offsets are committed at checkpoints. It takes no part in who reads what."""
        return self.set_property("group.id", group_id)

    def set_topics(self, *topics: str) -> KafkaSourceBuilder:
        """Read all partitions of these topics."""
        return self._subscribe(Subscription(topics=topics))

    def set_topic_pattern(self, topic_pattern: str) -> KafkaSourceBuilder:
        """Read all topics whose whole name matches a regular expression, also those that come later."""
        try:
            re.compile(topic_pattern)
        except re.error as error:
            raise ConfigurationError(
                f"{topic_pattern!r} is no regular expression for topic names: {error}"
            ) from error
        return self._subscribe(Subscription(pattern=topic_pattern))

    def set_partitions(self, partitions: Collection[KafkaTopicPartition]) -> KafkaSourceBuilder:
        """Read these partitions and no others."""
        return self._subscribe(Subscription(partitions=tuple(sorted(partitions))))

    def set_starting_offsets(
        self, starting_offsets_initializer: KafkaOffsetsInitializer
    ) -> KafkaSourceBuilder:
        """Where a job without state begins; the earliest record unless set."""
        return self._with(starting=starting_offsets_initializer)

    def set_unbounded(self, stopping_offsets_initializer: KafkaOffsetsInitializer) -> KafkaSourceBuilder:
        """End at these offsets, but count as a source without end."""
        return self._with(stopping=stopping_offsets_initializer, is_bounded=False)

    def set_bounded(self, stopping_offsets_initializer: KafkaOffsetsInitializer) -> KafkaSourceBuilder:
        """End at these offsets. They are looked up once, when the job starts without state."""
        return self._with(stopping=stopping_offsets_initializer, is_bounded=True)

    def set_value_only_deserializer(
        self, deserialization_schema: DeserializationSchema
    ) -> KafkaSourceBuilder:
        """Records are made of the messages' values."""
        return self.set_deserializer(KafkaRecordDeserializationSchema.value_only(deserialization_schema))

    def set_deserializer(self, schema: KafkaRecordDeserializationSchema) -> KafkaSourceBuilder:
        """Records are made of whole messages: key, value, headers, position."""
        return self._with(schema=schema)

    def set_skip_undecodable(self) -> KafkaSourceBuilder:
        """Leave out messages that cannot be read, and count them (metric `kafka.undecodable`)."""
        return self._with(undecodable=UndecodableMessages(is_skipped=True))

    def set_dead_letters(self, output_tag: OutputTag) -> KafkaSourceBuilder:
        """Send messages that cannot be read to a side output, as `DeadLetter`s."""
        return self._with(undecodable=UndecodableMessages(dead_letters=output_tag))

    def set_client_id_prefix(self, prefix: str) -> KafkaSourceBuilder:
        """How the ids of the clients begin."""
        return self.set_property("client.id.prefix", prefix)

    def set_property(self, key: str, value: str) -> KafkaSourceBuilder:
        """A property of librdkafka, or of this connector; `docs/guide/kafka.md` lists the latter."""
        return self.set_properties({key: value})

    def set_properties(self, props: Mapping[str, Any]) -> KafkaSourceBuilder:
        """Several properties."""
        return self._with(properties={**self._settings.properties, **props})

    def build(self) -> KafkaSource:
        """The source.

        Raises:
            ConfigurationError: Something is missing, or contradicts something else.
        """
        settings = self._settings
        if not settings.properties.get("bootstrap.servers"):
            raise ConfigurationError("the Kafka source has no brokers: call set_bootstrap_servers()")
        subscription = settings.subscription
        if subscription is None or subscription == Subscription():
            raise ConfigurationError(
                "the Kafka source has nothing to read: call set_topics(), set_topic_pattern() or "
                "set_partitions()"
            )
        if settings.schema is None:
            raise ConfigurationError(
                "the Kafka source has no deserializer: call set_value_only_deserializer() or "
                "set_deserializer()"
            )
        return KafkaSource(settings)

    def _subscribe(self, subscription: Subscription) -> KafkaSourceBuilder:
        if self._settings.subscription is not None:
            raise ConfigurationError(
                "the Kafka source was told twice what to read; call one of set_topics(), "
                "set_topic_pattern() and set_partitions(), once"
            )
        return self._with(subscription=subscription)

    def _with(self, **changes: Any) -> KafkaSourceBuilder:
        self._settings = replace(self._settings, **changes)
        return self
