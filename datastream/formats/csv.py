"""CSV, by PyFlink's import path."""

from __future__ import annotations

from ...connectors.formats.csv_files import CsvBulkWriters, CsvReaderFormat, CsvSchema, CsvSchemaBuilder
from ...connectors.formats.csv_messages import CsvRowDeserializationSchema, CsvRowSerializationSchema

__all__ = [
    "CsvBulkWriters",
    "CsvReaderFormat",
    "CsvRowDeserializationSchema",
    "CsvRowSerializationSchema",
    "CsvSchema",
    "CsvSchemaBuilder",
]
