"""Parquet and ORC files by PyFlink's names: the row type of PyFlink's `DataTypes` is one of `Types` here."""

from __future__ import annotations

from typing import Any

from ...common.errors import ConfigurationError
from ...common.serialization import BulkWriterFactory
from ..files.formats import ParquetFormat
from ..files.orc_format import OrcFormat
from .avro_columns import arrow_schema
from .avro_files import AvroSchema
from .row_columns import DictsOf, RowsOf, schema_of


class ParquetBulkWriters:
    """Makes writer factories for `FileSink.for_bulk_format`."""

    @staticmethod
    def for_row_type(
        row_type: Any, hadoop_config: Any = None, utc_timestamp: bool = True
    ) -> BulkWriterFactory:
        """Parquet files with the columns of a row type.

        Args:
            row_type: `Types.ROW_NAMED([...], [...])`.
            hadoop_config: Not supported; pass `file_system` to `FileSink`.
            utc_timestamp: Must be true: timestamps are written as they are, without a time zone.

        Raises:
            ConfigurationError: It is no row type, or something that is not supported is requested.
        """
        _refuse("ParquetBulkWriters", hadoop_config=hadoop_config)
        _check_utc("ParquetBulkWriters", utc_timestamp)
        return BulkWriterFactory(ParquetFormat(), schema_of(row_type, "ParquetBulkWriters"))


class ParquetColumnarRowInputFormat(RowsOf):
    """Reads Parquet files as rows of a type, and only its columns.

    Args:
        row_type: `Types.ROW_NAMED([...], [...])`.
        hadoop_config: Not supported; pass `file_system` to `FileSource`.
        batch_size: Accepted; the task chooses the size of its batches.
        is_utc_timestamp: Must be true: timestamps are read as they are.
        is_case_sensitive: Must be true: names of columns are compared exactly.

    Raises:
        ConfigurationError: It is no row type, or something that is not supported is requested.
    """

    def __init__(
        self,
        row_type: Any,
        hadoop_config: Any = None,
        batch_size: int = 2048,
        is_utc_timestamp: bool = True,
        is_case_sensitive: bool = True,
    ) -> None:
        what = "ParquetColumnarRowInputFormat"
        _refuse(what, hadoop_config=hadoop_config)
        _check_utc(what, is_utc_timestamp)
        if not is_case_sensitive:
            raise ConfigurationError(
                f"{what}: names of columns are case-sensitive; write them as in the files"
            )
        super().__init__(ParquetFormat(), schema_of(row_type, what))


class AvroParquetReaders:
    """Reads Parquet files as the records of an Avro schema."""

    @staticmethod
    def for_generic_record(schema: AvroSchema) -> DictsOf:
        """A format for `FileSource.for_record_stream_format`, whose records are dicts."""
        return DictsOf(ParquetFormat(), arrow_schema(schema.parsed))


class AvroParquetWriters:
    """Writes the records of an Avro schema to Parquet files."""

    @staticmethod
    def for_generic_record(schema: AvroSchema) -> BulkWriterFactory:
        """A writer factory for `FileSink.for_bulk_format`, which writes dicts."""
        return BulkWriterFactory(ParquetFormat(), arrow_schema(schema.parsed))


class OrcBulkWriters:
    """Makes writer factories for `FileSink.for_bulk_format`."""

    @staticmethod
    def for_row_type(
        row_type: Any, writer_properties: Any = None, hadoop_config: Any = None
    ) -> BulkWriterFactory:
        """ORC files with the columns of a row type.

        Args:
            row_type: `Types.ROW_NAMED([...], [...])`.
            writer_properties: Not supported; use `OrcFormat(compression)`.
            hadoop_config: Not supported; pass `file_system` to `FileSink`.

        Raises:
            ConfigurationError: It is no row type, or something that is not supported is requested.
        """
        _refuse("OrcBulkWriters", writer_properties=writer_properties, hadoop_config=hadoop_config)
        return BulkWriterFactory(OrcFormat(), schema_of(row_type, "OrcBulkWriters"))


def _refuse(what: str, **given: Any) -> None:
    for name, value in given.items():
        if value is not None:
            alternative = {
                "hadoop_config": "pass file_system to FileSource or FileSink, or a URI such as hdfs://…",
                "writer_properties": "use FileSink with OrcFormat(compression)",
            }[name]
            raise ConfigurationError(f"{what}: {name} is not supported; {alternative}")


def _check_utc(what: str, is_utc: bool) -> None:
    if not is_utc:
        raise ConfigurationError(
            f"{what}: conversion of timestamps to the local time zone is not supported; use "
            f"Types.SQL_TIMESTAMP_LTZ() for points in time"
        )
