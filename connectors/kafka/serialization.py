"""From records to the messages of a topic (names of PyFlink's `KafkaRecordSerializationSchema`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ...common.errors import ConfigurationError
from ...common.serialization import SerializationSchema
from ...operators.base import OperatorContext


class KafkaMessage(NamedTuple):
    """What is sent to Kafka.

    Attributes:
        topic: Where to.
        value: Its value; `None` deletes the key from a compacted topic.
        key: Its key; messages of one key go to one partition.
        partition: The partition; `None` lets the key decide.
        timestamp_ms: Its time; `None` for now.
        headers: Names and values.
    """

    topic: str
    value: bytes | None
    key: bytes | None = None
    partition: int | None = None
    timestamp_ms: int | None = None
    headers: tuple[tuple[str, bytes], ...] = ()


class KafkaTopicSelector(ABC):
    """Says which topic a record goes to."""

    @abstractmethod
    def apply(self, data: Any) -> str:
        """Name of the topic."""


class KafkaRecordSerializationSchema(ABC):
    """Makes messages of records. Picklable. Obtain one from `builder()`, or derive from it."""

    def open(self, context: OperatorContext) -> None:
        """Called once in the subtask, before the first record."""

    @abstractmethod
    def serialize(self, value: Any) -> KafkaMessage | None:
        """The message of a record; `None` sends nothing."""

    @staticmethod
    def builder() -> KafkaRecordSerializationSchemaBuilder:
        """What makes a schema of a topic and schemas for key and value."""
        return KafkaRecordSerializationSchemaBuilder()


@dataclass(frozen=True)
class _Built(KafkaRecordSerializationSchema):
    topic: str | None = None
    selector: Callable[[Any], str] | None = None
    key_schema: SerializationSchema | None = None
    value_schema: SerializationSchema | None = None

    def serialize(self, value: Any) -> KafkaMessage:
        topic = self.topic if self.selector is None else self.selector(value)
        assert topic is not None
        assert self.value_schema is not None
        key = None if self.key_schema is None else self.key_schema.serialize(value)
        return KafkaMessage(topic, self.value_schema.serialize(value), key)


class KafkaRecordSerializationSchemaBuilder:
    """Makes a schema. A topic (or selector) and a schema for values are needed."""

    def __init__(self) -> None:
        self._built = _Built()

    def set_topic(self, topic: str) -> KafkaRecordSerializationSchemaBuilder:
        """Send everything to one topic."""
        self._built = replace(self._built, topic=topic)
        return self

    def set_topic_selector(
        self, topic_selector: KafkaTopicSelector | Callable[[Any], str]
    ) -> KafkaRecordSerializationSchemaBuilder:
        """Send each record to the topic that the selector says."""
        if isinstance(topic_selector, KafkaTopicSelector):
            self._built = replace(self._built, selector=topic_selector.apply)
        else:
            self._built = replace(self._built, selector=topic_selector)
        return self

    def set_key_serialization_schema(
        self, key_serialization_schema: SerializationSchema
    ) -> KafkaRecordSerializationSchemaBuilder:
        """Make each message's key from the record."""
        self._built = replace(self._built, key_schema=key_serialization_schema)
        return self

    def set_value_serialization_schema(
        self, value_serialization_schema: SerializationSchema
    ) -> KafkaRecordSerializationSchemaBuilder:
        """Make each message's value from the record."""
        self._built = replace(self._built, value_schema=value_serialization_schema)
        return self

    def build(self) -> KafkaRecordSerializationSchema:
        """The schema.

        Raises:
            ConfigurationError: Something is missing, or said twice.
        """
        if (self._built.topic is None) == (self._built.selector is None):
            raise ConfigurationError(
                "a serializer for Kafka needs one of set_topic() and set_topic_selector(), and not both"
            )
        if self._built.value_schema is None:
            raise ConfigurationError("a serializer for Kafka needs set_value_serialization_schema()")
        return self._built
