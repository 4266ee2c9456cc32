"""Kafka, by PyFlink's import path."""

from __future__ import annotations

from ...connectors.kafka.client import KafkaConnectorError
from ...connectors.kafka.deserialization import DeadLetter, KafkaRecordDeserializationSchema
from ...connectors.kafka.partitions import (
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaTopicPartition,
)
from ...connectors.kafka.source import KafkaSource, KafkaSourceBuilder

__all__ = [
    "DeadLetter",
    "KafkaConnectorError",
    "KafkaOffsetResetStrategy",
    "KafkaOffsetsInitializer",
    "KafkaRecordDeserializationSchema",
    "KafkaSource",
    "KafkaSourceBuilder",
    "KafkaTopicPartition",
]
