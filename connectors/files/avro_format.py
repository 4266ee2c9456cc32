"""Avro object container files. Needs `pip install 'tidegate[avro]'`."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, BinaryIO

import pyarrow as pa

from ...common.errors import ConfigurationError
from ..formats.avro_columns import arrow_schema, plain_rows
from ..formats.avro_rows import fastavro_module, parsed_schema
from .formats import FileFormat, FileSplit, FileWriter, Piece, Reading

_CODECS = ("null", "deflate", "bzip2", "xz")
_BATCH_ROWS = 4_096
"""The most rows that are decoded at a time: Avro is decoded to Python objects first."""


class AvroFormat(FileFormat):
    """Avro object container files. Each file is read in one piece; records are dicts.

    Args:
        schema: The text of the schema. For reading it may be omitted: each file has its own; with it,
            records are converted to it by Avro's rules of resolution. For writing it is needed.
        compression: For writing: `null`, `deflate`, `bzip2` or `xz`.
    """

    suffix = "avro"
    unit = "record"
    is_columnar = False

    def __init__(self, schema: str | None = None, compression: str = "deflate") -> None:
        if compression not in _CODECS:
            raise ConfigurationError(
                f"Cannot compress Avro files with {compression!r}; use one of {', '.join(_CODECS)}"
            )
        self._schema = None if schema is None else parsed_schema(schema)
        self._compression = compression

    @property
    def columns(self) -> pa.Schema:
        """The columns of the schema.

        Raises:
            ConfigurationError: The format has no schema, or columns cannot represent it.
        """
        if self._schema is None:
            raise ConfigurationError("Writing Avro files needs a schema: AvroFormat(schema)")
        return arrow_schema(self._schema)

    def read(self, reading: Reading, split: FileSplit) -> Iterator[Piece]:
        with reading.file_system.open_input_file(split.path) as stream:
            file = fastavro_module().reader(stream, self._schema)
            schema = arrow_schema(self._schema or parsed_schema(json.dumps(file.writer_schema)))
            # Skipped records are decoded too: fastavro cannot start at a block.
            records = itertools.islice(file, split.rows, None)
            rows = min(reading.batch_rows, _BATCH_ROWS)
            while chunk := list(itertools.islice(records, rows)):
                batch = _as_batch(chunk, schema)
                split = replace(split, rows=split.rows + batch.num_rows)
                yield batch if reading.columns is None else batch.select(list(reading.columns)), split

    def writer(self, stream: BinaryIO, schema: pa.Schema) -> FileWriter:
        if self._schema is None:
            raise ConfigurationError("Writing Avro files needs a schema: AvroFormat(schema)")
        return _AvroFile(stream, self._schema, self._compression)

    def to_records(self, batch: pa.RecordBatch) -> list[Any]:
        return plain_rows(batch)


class _AvroFile:
    def __init__(self, stream: BinaryIO, schema: Any, compression: str) -> None:
        self._writer = fastavro_module().write.Writer(stream, schema, codec=compression)

    def write(self, table: pa.Table) -> None:
        for row in plain_rows(table):
            self._writer.write(row)
        self._writer.flush()

    def close(self) -> None:
        self._writer.flush()


def _as_batch(records: list[Any], schema: pa.Schema) -> pa.RecordBatch:
    columns = [pa.array([record[field.name] for record in records], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
