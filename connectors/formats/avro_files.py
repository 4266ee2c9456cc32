"""Avro schemas, typed Avro records, and Avro files by PyFlink's names."""

from __future__ import annotations

import hashlib
import io
import json
from pathlib import Path
from typing import Any

from ...common.errors import SerializationError
from ...common.serialization import BulkWriterFactory
from ...common.type_system.class_types import CustomTypeInfo
from ...common.type_system.type_codecs import TypeCodec
from ..files.avro_format import AvroFormat
from .avro_rows import fastavro_module, parsed_schema


class AvroSchema:
    """A schema. Obtain one from `parse_string` or `parse_file`.

    Args:
        json_schema: Its text.

    Raises:
        ConfigurationError: The text is not a valid schema.
    """

    def __init__(self, json_schema: str) -> None:
        self._text = json_schema
        self.parsed: Any = parsed_schema(json_schema)

    def __str__(self) -> str:
        return self._text

    @staticmethod
    def parse_string(json_schema: str) -> AvroSchema:
        """The schema in a text."""
        return AvroSchema(json_schema)

    @staticmethod
    def parse_file(file_path: str) -> AvroSchema:
        """The schema in a file."""
        return AvroSchema(Path(file_path).read_text("utf-8"))


class GenericRecordAvroTypeInfo(CustomTypeInfo):
    """The type of dicts that fit an Avro schema. State holds them as Avro, without the schema.

    Args:
        schema: The schema.
    """

    def __init__(self, schema: AvroSchema) -> None:
        codec = _AvroCodec(schema)
        super().__init__(codec.name, codec)


class _AvroCodec(TypeCodec[Any]):
    def __init__(self, schema: AvroSchema) -> None:
        self._schema = schema
        canonical = fastavro_module().schema.to_parsing_canonical_form(json.loads(str(schema)))
        self.name = f"avro-{hashlib.sha256(canonical.encode()).hexdigest()[:16]}"

    def encode(self, value: Any) -> bytes:
        output = io.BytesIO()
        try:
            fastavro_module().schemaless_writer(output, self._schema.parsed, value, strict_allow_default=True)
        except Exception as error:
            raise SerializationError(f"{value!r:.200} does not fit its Avro schema: {error}") from error
        return output.getvalue()

    def decode(self, data: bytes) -> Any:
        return fastavro_module().schemaless_reader(io.BytesIO(data), self._schema.parsed, None)


class AvroBulkWriters:
    """Makes writer factories for `FileSink.for_bulk_format`."""

    @staticmethod
    def for_generic_record(schema: AvroSchema) -> BulkWriterFactory:
        """Avro object container files of dicts that fit the schema."""
        file_format = AvroFormat(str(schema))
        return BulkWriterFactory(file_format, file_format.columns)
