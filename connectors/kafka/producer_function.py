"""The Kafka sink as PyFlink's `FlinkKafkaProducer` names it."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any

from ...common.errors import ConfigurationError
from ...common.serialization import SerializationSchema
from .client import KafkaProperties
from .serialization import KafkaRecordSerializationSchema
from .sink import DeliveryGuarantee, KafkaSink


class Semantic(enum.Enum):
    """What a `FlinkKafkaProducer` promises; as `DeliveryGuarantee`."""

    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"
    NONE = "none"


class FlinkKafkaProducer(KafkaSink):
    """A `KafkaSink` for one topic. Pass it to `add_sink` or `sink_to`.

    Args:
        topic: Where to.
        serialization_schema: Makes the values of messages.
        producer_config: librdkafka's properties; `bootstrap.servers` is needed. With `EXACTLY_ONCE`,
            `transactional.id` begins the transactional ids.
        kafka_producer_pool_size: Without meaning here: every transaction has a producer of its own.
        semantic: What is promised.
    """

    def __init__(
        self,
        topic: str,
        serialization_schema: SerializationSchema,
        producer_config: Mapping[str, Any],
        kafka_producer_pool_size: int = 5,
        semantic: Semantic = Semantic.AT_LEAST_ONCE,
    ) -> None:
        config = dict(producer_config)
        id_prefix = config.pop("transactional.id", None)
        if semantic is Semantic.EXACTLY_ONCE and not id_prefix:
            raise ConfigurationError(
                "an exactly-once FlinkKafkaProducer needs the property transactional.id: the prefix of its "
                "transactional ids, another one than that of any other sink"
            )
        builder = KafkaRecordSerializationSchema.builder().set_topic(topic)
        schema = builder.set_value_serialization_schema(serialization_schema).build()
        super().__init__(KafkaProperties(config), schema, DeliveryGuarantee(semantic.value), id_prefix)
