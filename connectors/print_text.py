"""The text of a record of a declared type, as Flink's print sink writes it.

PyFlink prints a row with Python's text of its fields, `+I[a,None]`, and a record without a declared type as
`str()` gives it. All others have the text of Java's `toString()`: `(a,1)`, `[1, 2]`, `{k=v}`, `true`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import datetime, time, timezone
from typing import Any

import numpy as np

from ..common.time import Instant
from ..common.type_system.type_structure import ListOf, MapOf, ScalarOf, structure_of
from ..common.typeinfo import (
    BasicType,
    BasicTypeInfo,
    LocalZonedTimestampTypeInfo,
    RowTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)

__all__ = ["text_of"]

Text = Callable[[Any], str]


def text_of(type_info: TypeInformation | None) -> Text:
    """A function that gives the text of a record.

    Args:
        type_info: The declared type, `None` if there is none.
    """
    if isinstance(type_info, RowTypeInfo):
        return _row_of_python_texts
    return str if type_info is None else _nullable(type_info)


def _nullable(type_info: TypeInformation) -> Text:
    text = _java_text(type_info)
    return lambda value: "null" if value is None else text(value)


def _java_text(type_info: TypeInformation) -> Text:
    if isinstance(type_info, BasicTypeInfo):
        return _BASIC.get(type_info.basic_type, str)
    structure = structure_of(type_info)
    if isinstance(type_info, TupleTypeInfo):
        return _fields("({})", ",", type_info.get_field_types())
    if isinstance(type_info, RowTypeInfo):
        inner = _fields("[{}]", ", ", type_info.get_field_types())
        return lambda row: f"{row.get_row_kind()}{inner(row)}"
    if isinstance(structure, ScalarOf) and structure.python_type is bytes:
        return lambda value: str([byte - 256 if byte > 127 else byte for byte in value])
    if isinstance(structure, ListOf):
        return _elements(structure.element)
    if isinstance(structure, MapOf):
        return _entries(_nullable(structure.key), _nullable(structure.value))
    return _TIMES.get(type(type_info), str)


def _fields(frame: str, separator: str, types: Sequence[TypeInformation]) -> Text:
    texts = [_nullable(each) for each in types]
    return lambda values: frame.format(separator.join(text(value) for text, value in zip(texts, values)))


def _elements(type_info: TypeInformation) -> Text:
    text = _nullable(type_info)
    return lambda values: f"[{', '.join(map(text, values))}]"


def _entries(key_text: Text, value_text: Text) -> Text:
    def text(entries: dict[Any, Any]) -> str:
        return f"{{{', '.join(f'{key_text(key)}={value_text(value)}' for key, value in entries.items())}}}"

    return text


def _row_of_python_texts(row: Any) -> str:
    return f"{row.get_row_kind()}[{','.join(map(str, row))}]"


def _double(value: float) -> str:
    return _number(np.float64(value))


def _float(value: float) -> str:
    return _number(np.float32(value))


def _number(value: Any) -> str:
    """As Java writes it: with an exponent below 0.001 and from ten million on."""
    if not np.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return np.format_float_positional(value, unique=True, trim="0")
    text = np.format_float_scientific(value, unique=True, trim="0", exp_digits=1)
    return text.replace("e+", "E").replace("e", "E")


def _timestamp(value: datetime) -> str:
    fraction = f"{value.microsecond:06}".rstrip("0") or "0"
    return f"{value:%Y-%m-%d %H:%M:%S}.{fraction}"


def _time(value: time) -> str:
    return f"{value:%H:%M:%S}"


def _instant(value: Instant) -> str:
    seconds = datetime.fromtimestamp(value.seconds, timezone.utc)
    fraction = f".{value.nanos:09}" if value.nanos else ""
    while fraction.endswith("000"):
        fraction = fraction[:-3]
    return f"{seconds:%Y-%m-%dT%H:%M:%S}{fraction}Z"


def _zoned(value: datetime) -> str:
    utc = value.astimezone(timezone.utc)
    return _instant(Instant(math.floor(utc.timestamp()), utc.microsecond * 1_000))


_BASIC: dict[BasicType, Text] = {
    BasicType.BOOLEAN: lambda value: "true" if value else "false",
    BasicType.FLOAT: _float,
    BasicType.DOUBLE: _double,
    BasicType.INSTANT: _instant,
}
_TIMES: dict[type, Text] = {
    TimestampTypeInfo: _timestamp,
    LocalZonedTimestampTypeInfo: _zoned,
    TimeTypeInfo: _time,
}
