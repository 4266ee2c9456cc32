"""Kafka, by PyFlink's import path."""

from __future__ import annotations

from ...connectors.kafka.client import KafkaConnectorError
from ...connectors.kafka.consumer_function import FlinkKafkaConsumer, OffsetCommitMode
from ...connectors.kafka.deserialization import DeadLetter, KafkaRecordDeserializationSchema
from ...connectors.kafka.partitions import (
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaTopicPartition,
)
from ...connectors.kafka.producer_function import FlinkKafkaProducer, Semantic
from ...connectors.kafka.serialization import (
    KafkaMessage,
    KafkaRecordSerializationSchema,
    KafkaRecordSerializationSchemaBuilder,
    KafkaTopicSelector,
)
from ...connectors.kafka.sink import DeliveryGuarantee, KafkaSink, KafkaSinkBuilder
from ...connectors.kafka.source import KafkaSource, KafkaSourceBuilder

__all__ = [
    "DeadLetter",
    "DeliveryGuarantee",
    "FlinkKafkaConsumer",
    "FlinkKafkaProducer",
    "KafkaConnectorError",
    "KafkaMessage",
    "KafkaOffsetResetStrategy",
    "KafkaOffsetsInitializer",
    "KafkaRecordDeserializationSchema",
    "KafkaRecordSerializationSchema",
    "KafkaRecordSerializationSchemaBuilder",
    "KafkaSink",
    "KafkaSinkBuilder",
    "KafkaSource",
    "KafkaSourceBuilder",
    "KafkaTopicPartition",
    "KafkaTopicSelector",
    "OffsetCommitMode",
    "Semantic",
]
