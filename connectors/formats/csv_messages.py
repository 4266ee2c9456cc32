"""CSV messages as rows, by PyFlink's names."""

from __future__ import annotations

import csv
import datetime
import io
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from ...common.errors import ConfigurationError, SerializationError
from ...common.serialization import DeserializationSchema, SerializationSchema
from ...common.type_system.type_conversion import WrongValueError, converter_of
from ...common.type_system.type_structure import ListOf, structure_of
from ...common.typeinfo import (
    BasicType,
    BasicTypeInfo,
    DateTypeInfo,
    RowTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TypeInformation,
)
from ...common.types import Row


@dataclass(frozen=True)
class _Dialect:
    """How a message is written.

    Attributes:
        quote: The quote character, `None` for none.
        null: What stands for null; `None` for nothing that does.
    """

    delimiter: str = ","
    array_delimiter: str = ";"
    quote: str | None = '"'
    escape: str | None = None
    null: str | None = None
    line_end: str = "\n"
    allows_comments: bool = False
    ignores_errors: bool = False

    def options(self) -> dict[str, Any]:
        """For Python's `csv`."""
        return {
            "delimiter": self.delimiter,
            "quotechar": self.quote,
            "escapechar": self.escape,
            "quoting": csv.QUOTE_NONE if self.quote is None else csv.QUOTE_MINIMAL,
        }


class _Builder:
    """Setters that both schemas have."""

    def __init__(self, type_info: TypeInformation) -> None:
        if not isinstance(type_info, RowTypeInfo):
            raise ConfigurationError(f"CSV messages are rows; declare Types.ROW([...]), not {type_info!r}")
        self._type_info = type_info
        self._dialect = _Dialect()

    def set_field_delimiter(self, delimiter: str) -> Any:
        """Set the character between fields."""
        return self._with(delimiter=_character(delimiter, "field delimiter"))

    def set_array_element_delimiter(self, delimiter: str) -> Any:
        """Set the text between the elements of an array; `;` by default."""
        return self._with(array_delimiter=delimiter)

    def set_quote_character(self, c: str) -> Any:
        """Set the character around fields that contain a delimiter."""
        return self._with(quote=_character(c, "quote character"))

    def set_escape_character(self, c: str) -> Any:
        """Set the character before one that is taken as it is; none by default."""
        return self._with(escape=_character(c, "escape character"))

    def set_null_literal(self, null_literal: str) -> Any:
        """Set the text that stands for null; by default an empty field that is not text does."""
        return self._with(null=null_literal)

    def _with(self, **changes: Any) -> Any:
        self._dialect = replace(self._dialect, **changes)
        return self


class CsvRowDeserializationSchema(DeserializationSchema):
    """One line of CSV as a row. Obtain one from `CsvRowDeserializationSchema.Builder(type_info)`."""

    class Builder(_Builder):
        """Makes a schema for rows of a type: `Types.ROW_NAMED([...], [...])`."""

        def set_allow_comments(self, allow_comments: bool) -> Any:
            """Set whether a message that begins with `#` is skipped."""
            return self._with(allows_comments=allow_comments)

        def set_ignore_parse_errors(self, ignore_parse_errors: bool) -> Any:
            """Set whether a message that cannot be read is skipped; nothing counts them."""
            return self._with(ignores_errors=ignore_parse_errors)

        def build(self) -> CsvRowDeserializationSchema:
            """The schema."""
            return CsvRowDeserializationSchema(self._type_info, self._dialect)

    def __init__(self, type_info: RowTypeInfo, dialect: _Dialect) -> None:
        self._type_info = type_info
        self._dialect = dialect
        self._readers = [_reader_of(each, dialect) for each in type_info.get_field_types()]
        self._converter = converter_of(type_info)

    def __reduce__(self) -> Any:
        return CsvRowDeserializationSchema, (self._type_info, self._dialect)

    def deserialize(self, message: bytes) -> Any:
        if self._dialect.allows_comments and message.lstrip().startswith(b"#"):
            return None
        try:
            return self._row(message)
        except (ValueError, ArithmeticError, WrongValueError, csv.Error) as error:
            if self._dialect.ignores_errors:
                return None
            raise SerializationError(
                f"a message is no CSV line of type {self._type_info}: {error}: {message!r:.200}"
            ) from error

    def _row(self, message: bytes) -> Row:
        lines = list(csv.reader(io.StringIO(message.decode(), newline=""), **self._dialect.options()))
        if len(lines) != 1 or len(lines[0]) != len(self._readers):
            found = f"{len(lines)} lines" if len(lines) != 1 else f"{len(lines[0])} fields"
            raise ValueError(f"it has {found}, the type {len(self._readers)} fields")
        fields = tuple(read(text) for read, text in zip(self._readers, lines[0], strict=True))
        assert self._converter is not None, "rows always have one"
        row: Row = self._converter([fields])[0]
        return row

    def get_produced_type(self) -> TypeInformation:
        return self._type_info


class CsvRowSerializationSchema(SerializationSchema):
    """A row as one line of CSV. Obtain one from `CsvRowSerializationSchema.Builder(type_info)`."""

    class Builder(_Builder):
        """Makes a schema for rows of a type: `Types.ROW_NAMED([...], [...])`."""

        def set_line_delimiter(self, delimiter: str) -> Any:
            """Set the end of a line: a line feed by default; empty for none."""
            return self._with(line_end=delimiter)

        def disable_quote_character(self) -> Any:
            """Write no quotes; a field that contains the delimiter needs an escape character then."""
            return self._with(quote=None)

        def build(self) -> CsvRowSerializationSchema:
            """The schema."""
            return CsvRowSerializationSchema(self._type_info, self._dialect)

    def __init__(self, type_info: RowTypeInfo, dialect: _Dialect) -> None:
        self._size = len(type_info.get_field_types())
        self._dialect = dialect

    def serialize(self, value: Any) -> bytes:
        fields = [self._text(each) for each in value]
        if len(fields) != self._size:
            raise SerializationError(f"{value!r:.200} has {len(fields)} fields, the type {self._size}")
        output = io.StringIO(newline="")
        try:
            csv.writer(output, lineterminator=self._dialect.line_end, **self._dialect.options()).writerow(
                fields
            )
        except csv.Error as error:
            raise SerializationError(f"{value!r:.200} cannot be written as CSV: {error}") from error
        return output.getvalue().encode()

    def _text(self, value: Any) -> str:
        if value is None:
            return self._dialect.null or ""
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, (list, tuple)):
            return self._dialect.array_delimiter.join(map(self._text, value))
        return str(value)


_TRUTH = {"true": True, "false": False}
_BASIC: dict[BasicType, Callable[[str], Any]] = {
    **dict.fromkeys(
        (BasicType.BYTE, BasicType.SHORT, BasicType.INT, BasicType.LONG, BasicType.BIG_INT),
        lambda text: int(text.strip()),
    ),
    **dict.fromkeys((BasicType.FLOAT, BasicType.DOUBLE), float),
    BasicType.BIG_DEC: lambda text: Decimal(text.strip()),
    BasicType.BOOLEAN: lambda text: _TRUTH[text.strip().lower()],
}
_TIMES: dict[type, Callable[[str], Any]] = {
    DateTypeInfo: datetime.date.fromisoformat,
    TimeTypeInfo: datetime.time.fromisoformat,
    TimestampTypeInfo: datetime.datetime.fromisoformat,
}


def _reader_of(type_info: TypeInformation, dialect: _Dialect) -> Callable[[str], Any]:
    """What makes a value of the text of a field."""
    if isinstance(type_info, BasicTypeInfo) and type_info.basic_type in (BasicType.STRING, BasicType.CHAR):
        return lambda text: None if dialect.null is not None and text == dialect.null else text
    read = _BASIC.get(type_info.basic_type) if isinstance(type_info, BasicTypeInfo) else None
    read = read or _TIMES.get(type(type_info))
    structure = structure_of(type_info)
    if isinstance(structure, ListOf) and structure.has_none:
        read = _array_reader(_reader_of(structure.element, dialect), dialect.array_delimiter)
    if read is None:
        raise ConfigurationError(f"CSV messages have no fields of type {type_info!r}; use another type")
    return _or_null(read, dialect.null or "")


def _array_reader(element: Callable[[str], Any], delimiter: str) -> Callable[[str], Any]:
    return lambda text: [element(part) for part in text.split(delimiter)]


def _or_null(read: Callable[[str], Any], null: str) -> Callable[[str], Any]:
    def value(text: str) -> Any:
        if text == null:
            return None
        try:
            return read(text)
        except KeyError:
            raise ValueError(f"{text!r} is not a valid value") from None

    return value


def _character(text: str, what: str) -> str:
    if len(text) != 1:
        raise ConfigurationError(f"The {what} of CSV messages is one character, not {text!r}")
    return text
