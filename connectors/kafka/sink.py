"""The Kafka sink (names of PyFlink's `KafkaSink`)."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any

from ...common.errors import ConfigurationError
from ...operators.base import OperatorContext
from ...operators.sinks import Committer, Sink, SinkWriter
from .client import KafkaProperties
from .producer import MessageProducer, producer_config
from .serialization import KafkaRecordSerializationSchema
from .transactions import TransactionalSink, messages_of


class DeliveryGuarantee(enum.Enum):
    """What a sink promises."""

    EXACTLY_ONCE = "exactly-once"
    """Every record once, visible when its checkpoint is complete, to those who read what is committed."""
    AT_LEAST_ONCE = "at-least-once"
    """Every record, and after a failure some again: a checkpoint waits for the brokers."""
    NONE = "none"
    """Records may be lost and doubled: nothing waits for the brokers."""


class KafkaSink(Sink):
    """Writes to topics. Obtain one from `KafkaSink.builder()`.

    Args:
        properties: Of the producers.
        schema: Makes messages of records.
        guarantee: What is promised.
        id_prefix: Begins transactional ids; needed for `EXACTLY_ONCE`.
    """

    def __init__(
        self,
        properties: KafkaProperties,
        schema: KafkaRecordSerializationSchema,
        guarantee: DeliveryGuarantee,
        id_prefix: str | None,
    ) -> None:
        self._properties = properties
        self._schema = schema
        self._flushes = guarantee is DeliveryGuarantee.AT_LEAST_ONCE
        self._transactional: TransactionalSink | None = None
        if guarantee is DeliveryGuarantee.EXACTLY_ONCE:
            assert id_prefix is not None
            self._transactional = TransactionalSink(properties, schema, id_prefix)

    @staticmethod
    def builder() -> KafkaSinkBuilder:
        """What makes a sink."""
        return KafkaSinkBuilder()

    def validate(self) -> None:
        if self._transactional is not None:
            self._transactional.validate()
        else:
            self._properties.check("Producer", producer_config(self._properties, "check", {}))

    def validate_checkpointing(self, interval_ms: int | None, timeout_ms: int) -> None:
        if self._transactional is not None:
            self._transactional.validate_checkpointing(interval_ms, timeout_ms)

    def create_writer(self) -> SinkWriter:
        if self._transactional is not None:
            return self._transactional.create_writer()
        return _PlainWriter(self._properties, self._schema, self._flushes)

    def create_committer(self) -> Committer | None:
        return None if self._transactional is None else self._transactional.create_committer()


class _PlainWriter(SinkWriter):
    """Sends, and waits for the brokers at barriers."""

    def __init__(
        self, properties: KafkaProperties, schema: KafkaRecordSerializationSchema, flushes: bool
    ) -> None:
        self._properties = properties
        self._schema = schema
        self._flushes = flushes
        self._producer: MessageProducer | None = None

    def open(self, context: OperatorContext) -> None:
        self._schema.open(context)
        where = f"operator {context.name_with_subtask}"
        self._producer = MessageProducer(self._properties, where, f"sink-{context.subtask_index}")

    def write_batch(self, values: list[Any]) -> None:
        assert self._producer is not None
        self._producer.send(messages_of(self._schema, values))

    def prepare_commit(self) -> list[Any]:
        assert self._producer is not None
        if self._flushes:
            self._producer.flush()
        return []

    def is_ready(self) -> bool:
        return self._producer is None or self._producer.is_ready()

    def close(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            # What no barrier waited for was promised nothing; it gets a last chance all the same.
            producer.close(purges=self._flushes)


class KafkaSinkBuilder:
    """Makes a `KafkaSink`. Brokers and a serializer are needed."""

    def __init__(self) -> None:
        self._properties: dict[str, Any] = {}
        self._schema: KafkaRecordSerializationSchema | None = None
        self._guarantee = DeliveryGuarantee.NONE
        self._id_prefix: str | None = None

    def set_bootstrap_servers(self, bootstrap_servers: str) -> KafkaSinkBuilder:
        """Where some of the brokers are, as `host:port,host:port`."""
        return self.set_property("bootstrap.servers", bootstrap_servers)

    def set_delivery_guarantee(self, delivery_guarantee: DeliveryGuarantee) -> KafkaSinkBuilder:
        """What the sink promises; `NONE` unless set, as in Flink."""
        self._guarantee = delivery_guarantee
        return self

    def set_transactional_id_prefix(self, transactional_id_prefix: str) -> KafkaSinkBuilder:
        """Begins the transactional ids of an exactly-once sink; one of its own for every sink."""
        self._id_prefix = transactional_id_prefix
        return self

    def set_record_serializer(self, record_serializer: KafkaRecordSerializationSchema) -> KafkaSinkBuilder:
        """Makes messages of records."""
        self._schema = record_serializer
        return self

    def set_property(self, key: str, value: str) -> KafkaSinkBuilder:
        """A property of librdkafka, or of this connector."""
        return self.set_properties({key: value})

    def set_properties(self, props: Mapping[str, Any]) -> KafkaSinkBuilder:
        """Several properties."""
        self._properties.update(props)
        return self

    def build(self) -> KafkaSink:
        """The sink.

        Raises:
            ConfigurationError: Something is missing.
        """
        if not self._properties.get("bootstrap.servers"):
            raise ConfigurationError("the Kafka sink has no brokers: call set_bootstrap_servers()")
        if self._schema is None:
            raise ConfigurationError("the Kafka sink has no serializer: call set_record_serializer()")
        if self._guarantee is DeliveryGuarantee.EXACTLY_ONCE and not self._id_prefix:
            raise ConfigurationError(
                "an exactly-once Kafka sink needs set_transactional_id_prefix(), and another prefix than "
                "any other sink that writes to these brokers"
            )
        return KafkaSink(KafkaProperties(self._properties), self._schema, self._guarantee, self._id_prefix)
