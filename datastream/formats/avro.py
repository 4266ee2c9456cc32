"""Avro, by PyFlink's import path."""

from __future__ import annotations

from ...common.absent_names import refusal
from ...connectors.formats.avro_rows import (
    AvroRowDeserializationSchema,
    AvroRowSerializationSchema,
    ConfluentRegistryAvroDeserializationSchema,
    ConfluentRegistryAvroSerializationSchema,
)

__all__ = [
    "AvroRowDeserializationSchema",
    "AvroRowSerializationSchema",
    "ConfluentRegistryAvroDeserializationSchema",
    "ConfluentRegistryAvroSerializationSchema",
]

__getattr__ = refusal(__name__)
