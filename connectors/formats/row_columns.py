"""Arrow schemas for declared row types, and formats that read files as rows of such a type."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, BinaryIO

import pyarrow as pa

from ...common.errors import ConfigurationError
from ...common.typeinfo import (
    BasicArrayTypeInfo,
    BasicType,
    BasicTypeInfo,
    DateTypeInfo,
    ListTypeInfo,
    LocalZonedTimestampTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TypeInformation,
)
from ...common.types import named_rows
from ..files.formats import FileFormat, FileSplit, FileWriter, Piece, Reading
from .avro_columns import plain_rows

_BASIC = {
    BasicType.STRING: pa.string(),
    BasicType.CHAR: pa.string(),
    BasicType.BYTE: pa.int8(),
    BasicType.SHORT: pa.int16(),
    BasicType.INT: pa.int32(),
    BasicType.LONG: pa.int64(),
    BasicType.FLOAT: pa.float32(),
    BasicType.DOUBLE: pa.float64(),
    BasicType.BOOLEAN: pa.bool_(),
    BasicType.BIG_INT: pa.decimal128(38, 0),
    BasicType.BIG_DEC: pa.decimal128(38, 18),
}
_TIMES: dict[type, pa.DataType] = {
    DateTypeInfo: pa.date32(),
    TimeTypeInfo: pa.time32("ms"),
    TimestampTypeInfo: pa.timestamp("us"),
    LocalZonedTimestampTypeInfo: pa.timestamp("us", "UTC"),
}


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
    found = _TIMES.get(type(type_info))
    if isinstance(type_info, BasicTypeInfo):
        found = _BASIC.get(type_info.basic_type)
    elif isinstance(type_info, RowTypeInfo):
        found = _struct(type_info, what)
    elif isinstance(type_info, MapTypeInfo):
        found = pa.map_(_arrow_type(type_info.key_type, what), _arrow_type(type_info.value_type, what))
    elif isinstance(type_info, ListTypeInfo):
        found = pa.list_(_arrow_type(type_info.elem_type, what))
    elif isinstance(type_info, (PrimitiveArrayTypeInfo, BasicArrayTypeInfo, ObjectArrayTypeInfo)):
        element = _arrow_type(type_info.element_type, what)
        is_bytes = isinstance(type_info, PrimitiveArrayTypeInfo) and element == pa.int8()
        found = pa.binary() if is_bytes else pa.list_(element)
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
