"""Avro, by PyFlink's import path."""

from __future__ import annotations

from ...common.absent_names import refusal
from ...connectors.formats.avro_files import AvroBulkWriters, AvroSchema, GenericRecordAvroTypeInfo
from ...connectors.formats.avro_rows import (
    AvroRowDeserializationSchema,
    AvroRowSerializationSchema,
    ConfluentRegistryAvroDeserializationSchema,
    ConfluentRegistryAvroSerializationSchema,
)

__all__ = [
    "AvroBulkWriters",
    "AvroRowDeserializationSchema",
    "AvroRowSerializationSchema",
    "AvroSchema",
    "ConfluentRegistryAvroDeserializationSchema",
    "ConfluentRegistryAvroSerializationSchema",
    "GenericRecordAvroTypeInfo",
]

__getattr__ = refusal(__name__)
