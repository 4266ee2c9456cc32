"""Arrow schemas for declared row types, and formats that read files as rows of such a type."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, BinaryIO

import pyarrow as pa

from ...common.errors import ConfigurationError
from ...common.type_system.type_structure import ListOf, MapOf, structure_of
from ...common.typeinfo import RowTypeInfo, TypeInformation, type_text
from ...common.types import named_rows
from ..files.formats import FileFormat, FileSplit, FileWriter, Piece, Reading
from .avro_columns import plain_rows

_COLUMNS = {
    "STRING": pa.string(),
    "CHAR": pa.string(),
    "BYTE": pa.int8(),
    "SHORT": pa.int16(),
    "INT": pa.int32(),
    "LONG": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "BOOLEAN": pa.bool_(),
    "BIG_INT": pa.decimal128(38, 0),
    "BIG_DEC": pa.decimal128(38, 18),
    "SQL_DATE": pa.date32(),
    "SQL_TIME": pa.time32("ms"),
    "SQL_TIMESTAMP": pa.timestamp("us"),
    "SQL_TIMESTAMP_LTZ": pa.timestamp("us", "UTC"),
    "PRIMITIVE_ARRAY(BYTE)": pa.binary(),
}
"""Columns of types without parts, by the text of the type."""


def schema_of(row_type: Any, what: str) -> pa.Schema:
    """The columns of a row type.

    Args:
        row_type: `Types.ROW_NAMED([...], [...])`.
        what: Who needs it, for errors.

    Raises:
        ConfigurationError: It is no row type, or a field has a type that columns cannot represent.
    """
    if not isinstance(row_type, RowTypeInfo):
        raise ConfigurationError(
            f"{what} needs a row type, Types.ROW_NAMED([names], [types]), not {row_type!r}; Tidegate has no "
            f"DataTypes of the Table API"
        )
    return pa.schema(list(_struct(row_type, what)))


def _struct(row_type: RowTypeInfo, what: str) -> pa.DataType:
    named = zip(row_type.get_field_names(), row_type.get_field_types(), strict=True)
    return pa.struct([(name, _arrow_type(each, what)) for name, each in named])


def _arrow_type(type_info: TypeInformation, what: str) -> pa.DataType:
    structure = structure_of(type_info)
    if isinstance(type_info, RowTypeInfo):
        return _struct(type_info, what)
    if isinstance(structure, MapOf):
        return pa.map_(_arrow_type(structure.key, what), _arrow_type(structure.value, what))
    if isinstance(structure, ListOf):
        return pa.list_(_arrow_type(structure.element, what))
    found = _COLUMNS.get(type_text(type_info))
    if found is None:
        raise ConfigurationError(f"{what}: files have no columns of type {type_info!r}; use another type")
    return found


class _FormatOf(FileFormat):
    """Another format, with records of its own.

    Args:
        files: What is in the files.
        schema: The columns to read, which other columns are converted to.
    """

    is_columnar = False

    def __init__(self, files: FileFormat, schema: pa.Schema) -> None:
        self._files = files
        self._schema = schema
        self.suffix, self.unit = files.suffix, files.unit

    def split(self, file_system: Any, path: str, size_bytes: int, split_bytes: int) -> list[FileSplit]:
        return self._files.split(file_system, path, size_bytes, split_bytes)

    def read(self, reading: Reading, split: FileSplit) -> Iterator[Piece | None]:
        chosen = replace(reading, columns=reading.columns or self._schema.names)
        wanted = pa.schema([self._schema.field(name) for name in chosen.columns or ()])
        for piece in self._files.read(chosen, split):
            yield None if piece is None else (piece[0].cast(wanted), piece[1])

    def place(self, reading: Reading, split: FileSplit, index: int | None) -> str:
        return self._files.place(reading, split, index)

    def writer(self, stream: BinaryIO, schema: pa.Schema) -> FileWriter:
        return self._files.writer(stream, schema)


class RowsOf(_FormatOf):
    """Another format, read as `Row`s with field names."""

    def to_records(self, batch: pa.RecordBatch) -> list[Any]:
        return named_rows(tuple(batch.schema.names), zip(*(column.to_pylist() for column in batch.columns)))


class DictsOf(_FormatOf):
    """Another format, read as dicts: the records of Avro."""

    def to_records(self, batch: pa.RecordBatch) -> list[Any]:
        return plain_rows(batch)
