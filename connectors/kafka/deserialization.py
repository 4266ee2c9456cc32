"""From the messages of a topic to records, a batch at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...common.output_tag import OutputTag
from ...common.serialization import DeserializationSchema
from ...operators.base import OperatorContext
from .client import KafkaConnectorError


class KafkaRecordDeserializationSchema(ABC):
    """Turns messages, with their key, value, headers and position, into records. Picklable.

    Source of the name: Flink's Kafka connector. `message` is a `confluent_kafka.Message`.
    """

    def open(self, context: OperatorContext) -> None:
        """Called once in the subtask, before the first message."""

    @abstractmethod
    def deserialize(self, message: Any) -> Any:
        """The record of one message; `None` for no record. Raises for one that it cannot read."""

    def deserialize_batch(self, messages: Sequence[Any]) -> Any:
        """A list with one record for each message, or an Arrow RecordBatch with one row for each.

        `None` in the list means no record.
        """
        return list(map(self.deserialize, messages))

    @staticmethod
    def value_only(schema: DeserializationSchema) -> KafkaRecordDeserializationSchema:
        """Records are the messages' values; a message without one is no record."""
        return _ValueOnly(schema)

    @staticmethod
    def key_value(
        key_schema: DeserializationSchema, value_schema: DeserializationSchema
    ) -> KafkaRecordDeserializationSchema:
        """Records are pairs of key and value; `None` stands for either that is missing."""
        return _KeyValue(key_schema, value_schema)


@dataclass(frozen=True)
class _ValueOnly(KafkaRecordDeserializationSchema):
    schema: DeserializationSchema

    def deserialize(self, message: Any) -> Any:
        value = message.value()
        return None if value is None else self.schema.deserialize(value)

    def deserialize_batch(self, messages: Sequence[Any]) -> Any:
        values = list(map(type(messages[0]).value, messages))
        if not _has_none(values):
            return self.schema.deserialize_batch(values)
        there = self.schema.deserialize_batch([value for value in values if value is not None])
        records = iter(there if isinstance(there, list) else zip(*(c.to_pylist() for c in there.columns)))
        return [None if value is None else next(records) for value in values]


@dataclass(frozen=True)
class _KeyValue(KafkaRecordDeserializationSchema):
    key_schema: DeserializationSchema
    value_schema: DeserializationSchema

    def deserialize(self, message: Any) -> Any:
        key, value = message.key(), message.value()
        return (
            None if key is None else self.key_schema.deserialize(key),
            None if value is None else self.value_schema.deserialize(value),
        )


@dataclass(frozen=True)
class UndecodableMessages:
    """What happens to messages that cannot be read.

    Attributes:
        is_skipped: Whether they are left out and counted, instead of failing the job.
        dead_letters: The side output that they go to, each as a `DeadLetter`.
    """

    is_skipped: bool = False
    dead_letters: OutputTag | None = None


@dataclass(frozen=True)
class DeadLetter:
    """A message that could not be read.

    Attributes:
        topic: Where it is.
        partition: Where it is.
        offset: Where it is.
        key: Its key, as it is.
        value: Its value, as it is.
        error: Why it could not be read.
    """

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    error: str


class Decoder:
    """Applies a schema, and does with bad messages what was asked for.

    Args:
        schema: The schema.
        undecodable: What to do with bad messages.
        where: The operator and subtask, for errors.
    """

    def __init__(
        self, schema: KafkaRecordDeserializationSchema, undecodable: UndecodableMessages, where: str
    ) -> None:
        self._schema = schema
        self._undecodable = undecodable
        self._where = where

    def decode(self, messages: list[Any]) -> tuple[Any, list[Any], list[DeadLetter]]:
        """Read messages.

        Returns:
            The records, the messages that they come from, and the bad messages.

        Raises:
            KafkaConnectorError: A message is bad, and bad ones are to fail the job.
        """
        bad: list[DeadLetter] = []
        try:
            records = self._schema.deserialize_batch(messages)
        except Exception:
            messages, bad = self._sorted_out(messages)
            records = self._schema.deserialize_batch(messages) if messages else []
        if isinstance(records, list) and _has_none(records):
            kept = [pair for pair in zip(records, messages) if pair[0] is not None]
            records, messages = [record for record, _ in kept], [message for _, message in kept]
        return records, messages, bad

    def _sorted_out(self, messages: list[Any]) -> tuple[list[Any], list[DeadLetter]]:
        good: list[Any] = []
        bad: list[DeadLetter] = []
        for message in messages:
            try:
                self._schema.deserialize_batch([message])
            except Exception as error:
                letter = _letter(message, error)
                if not self._undecodable.is_skipped and self._undecodable.dead_letters is None:
                    raise self._failed(letter) from error
                bad.append(letter)
            else:
                good.append(message)
        return good, bad

    def _failed(self, letter: DeadLetter) -> KafkaConnectorError:
        return KafkaConnectorError(
            f"{self._where}: the message at {letter.topic}-{letter.partition} offset {letter.offset} cannot "
            f"be read: {letter.error}. Its value is {letter.value!r:.200}. Correct the schema, or let the "
            f"source skip such messages (set_skip_undecodable) or send them to a side output "
            f"(set_dead_letters)"
        )


def _has_none(values: list[Any]) -> bool:
    """As `None in values`, without comparing each value with it."""
    return type(None) in set(map(type, values))


def _letter(message: Any, error: Exception) -> DeadLetter:
    text = f"{type(error).__name__}: {error}"
    return DeadLetter(
        message.topic(), message.partition(), message.offset(), message.key(), message.value(), text
    )
