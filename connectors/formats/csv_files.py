"""CSV files by PyFlink's names: the schema and its builder, what reads and what writes."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

import pyarrow as pa

from ...common.errors import ConfigurationError
from ...common.serialization import BulkWriterFactory
from ...common.typeinfo import BasicTypeInfo, ListTypeInfo, RowTypeInfo, TypeInformation, Types
from ...operators.columnar.arrow_records import record_fields
from ..files.text_formats import CsvFormat
from .row_columns import RowsOf, schema_of


@dataclass(frozen=True)
class CsvSchema:
    """Columns of CSV files and how they are written. Obtain one from `builder()`.

    Attributes:
        names: Of the columns, in their order.
        types: Of the columns; a column of arrays has a list type.
        array_separators: Between the elements of an array, by the name of its column.
        column_separator: One character.
        null_value: What stands for null.
        uses_header: Whether the first line has the names.
        is_strict: Whether the names in the header must be those of the schema, in its order.
    """

    names: tuple[str, ...] = ()
    types: tuple[TypeInformation, ...] = ()
    array_separators: dict[str, str] = field(default_factory=dict)
    column_separator: str = ","
    null_value: str = ""
    uses_header: bool = False
    is_strict: bool = False

    @staticmethod
    def builder() -> CsvSchemaBuilder:
        """Begin to describe a schema."""
        return CsvSchemaBuilder()

    def size(self) -> int:
        """The number of columns."""
        return len(self.names)

    def __len__(self) -> int:
        return len(self.names)

    @property
    def row_type(self) -> RowTypeInfo:
        """The type of the records."""
        return Types.ROW_NAMED(self.names, self.types)

    @property
    def file_columns(self) -> pa.Schema:
        """The columns as they are in files, where an array is text."""
        types = [Types.STRING() if isinstance(each, ListTypeInfo) else each for each in self.types]
        return schema_of(Types.ROW_NAMED(self.names, types), "CsvSchema")


class CsvSchemaBuilder:
    """Makes a `CsvSchema`."""

    def __init__(self) -> None:
        self._schema = CsvSchema()
        self._separator: str | None = None

    def build(self) -> CsvSchema:
        """The schema.

        Raises:
            ConfigurationError: There are no columns.
        """
        if not self._schema.names:
            raise ConfigurationError("A CsvSchema needs columns: call add_string_column() and others first")
        return self._schema

    def add_string_column(self, name: str) -> CsvSchemaBuilder:
        """Add a column of text."""
        return self._add(name, Types.STRING())

    def add_boolean_column(self, name: str) -> CsvSchemaBuilder:
        """Add a column of `true` and `false`."""
        return self._add(name, Types.BOOLEAN())

    def add_number_column(self, name: str, number_type: TypeInformation | None = None) -> CsvSchemaBuilder:
        """Add a column of numbers.

        Args:
            name: Its name.
            number_type: `Types.LONG()` by default.
        """
        return self._add(name, number_type or Types.LONG())

    def add_array_column(
        self, name: str, separator: str = ";", element_type: TypeInformation | None = None
    ) -> CsvSchemaBuilder:
        """Add a column of arrays.

        Args:
            name: Its name.
            separator: Between the elements.
            element_type: A basic type, `Types.STRING()` by default.
        """
        element = element_type or Types.STRING()
        if not isinstance(element, BasicTypeInfo):
            raise ConfigurationError(f"Arrays in CSV files have elements of a basic type, not {element!r}")
        separators = {**self._schema.array_separators, name: self._separator or separator}
        return self._with(array_separators=separators)._add(name, Types.LIST(element))

    def add_columns_from(self, schema: CsvSchema) -> CsvSchemaBuilder:
        """Add the columns of another schema."""
        return self._with(
            names=self._schema.names + schema.names,
            types=self._schema.types + schema.types,
            array_separators={**self._schema.array_separators, **schema.array_separators},
        )

    def clear_columns(self) -> CsvSchemaBuilder:
        """Remove all columns."""
        return self._with(names=(), types=(), array_separators={})

    def set_array_element_separator(self, separator: str) -> CsvSchemaBuilder:
        """Set the separator between the elements of all arrays."""
        self._separator = separator
        return self._with(array_separators=dict.fromkeys(self._schema.array_separators, separator))

    def set_column_separator(self, char: str) -> CsvSchemaBuilder:
        """Set the separator between columns: one character."""
        if len(char) != 1:
            raise ConfigurationError(f"The column separator is one character, not {char!r}")
        return self._with(column_separator=char)

    def set_null_value(self, null_value: str) -> CsvSchemaBuilder:
        """Set what stands for null when files are read; nothing by default."""
        return self._with(null_value=null_value)

    def set_use_header(self, use: bool = True) -> CsvSchemaBuilder:
        """Set whether the first line has the names of the columns."""
        return self._with(uses_header=use)

    def set_strict_headers(self, strict: bool = True) -> CsvSchemaBuilder:
        """Set whether the header must have the names of the schema, in its order."""
        return self._with(is_strict=strict)

    def set_quote_char(self, char: str) -> CsvSchemaBuilder:
        """Only the double quote is supported."""
        return self if char == '"' else _refuse(f"the quote character {char!r}")

    def set_line_separator(self, separator: str) -> CsvSchemaBuilder:
        """Only the line feed is supported."""
        return self if separator == "\n" else _refuse(f"the line separator {separator!r}")

    def set_allow_comments(self, allow: bool = True) -> CsvSchemaBuilder:
        """Comments are not supported."""
        return _refuse("comments") if allow else self

    def set_skip_first_data_row(self, skip: bool = True) -> CsvSchemaBuilder:
        """Not supported; a header is skipped by `set_use_header()`."""
        return _refuse("skipping the first row (set_use_header() skips a header)") if skip else self

    def set_escape_char(self, char: str) -> CsvSchemaBuilder:
        """Escape characters are not supported: a quote in a quoted value is written twice."""
        return _refuse(f"the escape character {char!r}")

    def disable_escape_char(self) -> CsvSchemaBuilder:
        """There is no escape character."""
        return self

    def disable_quote_char(self) -> CsvSchemaBuilder:
        """Quotes cannot be switched off."""
        return _refuse("files without quotes")

    def set_any_property_name(self, name: str) -> CsvSchemaBuilder:
        """Not supported: every column has a name."""
        return _refuse(f"the property {name!r} for columns without a name")

    def disable_array_element_separator(self) -> CsvSchemaBuilder:
        """Not supported: arrays need a separator."""
        return _refuse("arrays without a separator")

    def remove_array_element_separator(self, index: int) -> CsvSchemaBuilder:
        """Not supported: arrays need a separator."""
        return _refuse(f"arrays without a separator (column {index})")

    def size(self) -> int:
        """The number of columns so far."""
        return len(self._schema.names)

    def __len__(self) -> int:
        return len(self._schema.names)

    def _add(self, name: str, type_info: TypeInformation) -> CsvSchemaBuilder:
        return self._with(names=(*self._schema.names, name), types=(*self._schema.types, type_info))

    def _with(self, **changes: Any) -> CsvSchemaBuilder:
        self._schema = replace(self._schema, **changes)
        return self


class CsvReaderFormat(RowsOf):
    """Reads CSV files as rows of a schema. Obtain one from `for_schema`; it also writes them."""

    def __init__(self, schema: CsvSchema) -> None:
        columns = schema.file_columns
        kind = _StrictCsv if schema.is_strict and schema.uses_header else CsvFormat
        files = kind(
            columns,
            header=schema.uses_header,
            delimiter=schema.column_separator,
            null_values=(schema.null_value,),
        )
        super().__init__(files, columns)
        self._csv = schema
        self._elements = {
            name: (schema.array_separators[name], _scalar_type(each.elem_type))
            for name, each in zip(schema.names, schema.types, strict=True)
            if isinstance(each, ListTypeInfo)
        }

    @staticmethod
    def for_schema(schema: CsvSchema) -> CsvReaderFormat:
        """The format for a schema."""
        return CsvReaderFormat(schema)

    def to_records(self, batch: pa.RecordBatch) -> list[Any]:
        records = super().to_records(batch)
        for name, (separator, kind) in self._elements.items():
            for record in records if name in batch.schema.names else ():
                record[name] = _array(record[name], separator, kind)
        return records

    def to_batch(self, values: Sequence[Any], schema: pa.Schema, where: str) -> pa.RecordBatch:
        if self._elements:
            values = [self._joined(value) for value in values]
        return super().to_batch(values, schema, where)

    def _joined(self, value: Any) -> Any:
        fields = list(record_fields(value, self._csv.names))
        for position, name in enumerate(self._csv.names[: len(fields)]):
            if name in self._elements and fields[position] is not None:
                separator, _ = self._elements[name]
                fields[position] = separator.join(map(str, fields[position]))
        return tuple(fields)


class CsvBulkWriters:
    """Makes writer factories for `FileSink.for_bulk_format`."""

    @staticmethod
    def for_schema(schema: CsvSchema) -> BulkWriterFactory:
        """CSV files with the columns of a schema.

        Raises:
            ConfigurationError: The schema has a text for null: nothing is written for it.
        """
        if schema.null_value:
            raise ConfigurationError(
                f"CSV files are written with nothing for null, not with {schema.null_value!r}; replace None "
                f"in map() before the sink"
            )
        return BulkWriterFactory(CsvReaderFormat(schema), schema.file_columns)


class _StrictCsv(CsvFormat):
    def parser(self, head: bytes, sample: bytes) -> Any:
        expected = [] if self.columns is None else self.columns.names
        found = next(csv.reader([head.decode("utf-8-sig").rstrip("\r\n")], delimiter=self.delimiter), [])
        if head.strip() and found != expected:
            raise ValueError(f"the header is {found}, and the strict schema has {expected}")
        return super().parser(head, sample)


def _scalar_type(element: TypeInformation) -> pa.DataType:
    return schema_of(Types.ROW([element]), "CsvSchema").field(0).type


def _array(text: str | None, separator: str, kind: pa.DataType) -> list[Any] | None:
    if text is None:
        return None
    found: list[Any] = pa.array(text.split(separator) if text else [], pa.string()).cast(kind).to_pylist()
    return found


def _refuse(what: str) -> NoReturn:
    raise ConfigurationError(
        f"CsvSchema does not support {what}; read such files with a FileFormat of your own, or as lines with "
        f"StreamFormat.text_line_format() and Python's csv module"
    )
