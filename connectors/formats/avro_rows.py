"""Avro messages as rows (names of `pyflink.datastream.formats.avro`), and Confluent's wire format."""

from __future__ import annotations

import io
import json
import struct
from typing import Any

from ...common.errors import ConfigurationError, SerializationError
from ...common.serialization import DeserializationSchema, SerializationSchema
from ...common.typeinfo import TypeInformation, Types
from ...common.types import Row
from .avro_bounds import AvroBounds
from .registry import SchemaRegistry

_MAGIC = 0
_HEADER = struct.Struct(">bi")


class AvroRowDeserializationSchema(DeserializationSchema):
    """Avro records, without a header, as rows with field names.

    Args:
        avro_schema_string: The schema that they were written with.
    """

    def __init__(self, avro_schema_string: str) -> None:
        self._records = _Records(parsed_schema(avro_schema_string))

    def deserialize(self, message: bytes) -> Any:
        return self._records.read(message, 0, None)

    def get_produced_type(self) -> TypeInformation:
        return Types.PICKLED_BYTE_ARRAY()


class AvroRowSerializationSchema(SerializationSchema):
    """Rows, dicts, or tuples in the order of the schema, as Avro records without a header.

    Args:
        avro_schema_string: The schema.
    """

    def __init__(self, avro_schema_string: str) -> None:
        self._parsed: Any = parsed_schema(avro_schema_string)

    def serialize(self, value: Any) -> bytes:
        output = io.BytesIO()
        _write(output, self._parsed, value)
        return output.getvalue()


class ConfluentRegistryAvroDeserializationSchema(DeserializationSchema):
    """Avro records in Confluent's wire format: a zero byte, the id of the writer's schema, the record.

    Each schema is asked of the registry once. With a schema of the reader, records of other versions are
    brought to it by Avro's rules: fields that are new there get their defaults.

    Args:
        url: Where the registry is.
        reader_schema: What to read records as; as they were written unless given.
    """

    def __init__(self, url: str, reader_schema: str | None = None) -> None:
        self._registry = SchemaRegistry(url)
        self._reader: Any = None if reader_schema is None else parsed_schema(reader_schema)
        self._writers: dict[int, _Records] = {}

    def deserialize(self, message: bytes) -> Any:
        if len(message) < _HEADER.size or message[0] != _MAGIC:
            raise SerializationError("a message has no header of Confluent's wire format")
        (_, schema_id) = _HEADER.unpack_from(message)
        writer = self._writers.get(schema_id)
        if writer is None:
            writer = self._writers[schema_id] = _Records(parsed_schema(self._registry.schema(schema_id)))
        return writer.read(message, _HEADER.size, self._reader)

    def get_produced_type(self) -> TypeInformation:
        return Types.PICKLED_BYTE_ARRAY()


class ConfluentRegistryAvroSerializationSchema(SerializationSchema):
    """Writes what `ConfluentRegistryAvroDeserializationSchema` reads.

    Args:
        subject: Under which the schema is registered, `topic-value` by custom.
        avro_schema_string: The schema.
        url: Where the registry is.
    """

    def __init__(self, subject: str, avro_schema_string: str, url: str) -> None:
        self._subject, self._text = subject, avro_schema_string
        self._registry = SchemaRegistry(url)
        self._parsed: Any = parsed_schema(avro_schema_string)
        self._header: bytes | None = None

    def serialize(self, value: Any) -> bytes:
        if self._header is None:
            self._header = _HEADER.pack(_MAGIC, self._registry.register(self._subject, self._text))
        output = io.BytesIO(self._header)
        output.seek(_HEADER.size)
        _write(output, self._parsed, value)
        return output.getvalue()


def fastavro_module() -> Any:
    """The package `fastavro`; ConfigurationError if it is not installed."""
    try:
        import fastavro
    except ImportError as error:
        raise ConfigurationError("Avro needs the package fastavro; install tidegate[avro]") from error
    return fastavro


def parsed_schema(text: str) -> Any:
    """The text of a schema as fastavro uses it; ConfigurationError if it is not valid."""
    fastavro = fastavro_module()
    try:
        return fastavro.parse_schema(json.loads(text))
    except Exception as error:
        raise ConfigurationError(f"this is no Avro schema: {error}: {text:.200}") from error


class _Records:
    """Reads records of one schema."""

    def __init__(self, schema: Any) -> None:
        self._schema = schema
        self._bounds = AvroBounds(schema)

    def read(self, message: bytes, start: int, reader: Any) -> Any:
        """The record that takes a message from an offset to its end.

        Args:
            reader: The schema to read it as; as it was written if `None`.
        """
        self._bounds.check(message, start)
        source = io.BytesIO(message)
        source.seek(start)
        try:
            found = fastavro_module().schemaless_reader(source, self._schema, reader)
        except Exception as error:
            raise SerializationError(f"a message is no record of its Avro schema: {error!r:.300}") from error
        if source.read(1):
            raise SerializationError("a message is longer than a record of its Avro schema")
        return Row(**found) if isinstance(found, dict) else found


def _write(output: io.BytesIO, schema: Any, value: Any) -> None:
    if isinstance(value, Row):
        value = value.as_dict(recursive=True)
    elif isinstance(value, (tuple, list)):
        value = dict(zip((field["name"] for field in schema["fields"]), value, strict=True))
    try:
        fastavro_module().schemaless_writer(output, schema, value, strict=True)
    except Exception as error:
        raise SerializationError(f"{value!r:.200} does not fit its Avro schema: {error}") from error
