"""What the values of a declared type consist of: the one place that distinguishes the classes of types.

Converters, layouts in state, columns of files and schema changes all follow this structure, so they agree on
the Python type of each declared type, and on which types are lists.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from ..time import Instant
from ..types import Row
from .class_types import ClassTypeInfo, EnumTypeInfo
from .declared_types import (
    BasicArrayTypeInfo,
    BasicType,
    BasicTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    SqlTimeTypeInfo,
    TupleTypeInfo,
    TypeInformation,
    type_text,
)

PYTHON_TYPES: dict[str, type] = {
    "STRING": str,
    "CHAR": str,
    "BYTE": int,
    "SHORT": int,
    "INT": int,
    "LONG": int,
    "BIG_INT": int,
    "FLOAT": float,
    "DOUBLE": float,
    "BIG_DEC": Decimal,
    "BOOLEAN": bool,
    "INSTANT": Instant,
    "SQL_DATE": date,
    "SQL_TIME": time,
    "SQL_TIMESTAMP": datetime,
    "SQL_TIMESTAMP_LTZ": datetime,
    "PRIMITIVE_ARRAY(BYTE)": bytes,
}
"""The Python type of each type without parts, by the text of the type."""
_BYTES = PrimitiveArrayTypeInfo(BasicTypeInfo(BasicType.BYTE))


@dataclass(frozen=True)
class ScalarOf:
    """A value without parts.

    Attributes:
        python_type: its type.
    """

    python_type: type


@dataclass(frozen=True)
class ListOf:
    """A list.

    Attributes:
        has_none: whether elements may be None.
    """

    element: TypeInformation
    has_none: bool = True


@dataclass(frozen=True)
class MapOf:
    """A dict."""

    key: TypeInformation
    value: TypeInformation


@dataclass(frozen=True)
class StructOf:
    """A value with a fixed number of fields.

    Attributes:
        python_type: `tuple`, `Row` or a class; None for a class that is not available, whose instances are
            rows.
        names: of the fields; `f0`, `f1`, … where they have none.
        types: of the fields.
    """

    python_type: type[Any] | None
    names: list[str]
    types: list[TypeInformation]


Structure = ScalarOf | ListOf | MapOf | StructOf


def structure_of(type_info: TypeInformation) -> Structure | None:
    """What values of a type consist of; None for pickled values and those of a user's codec."""
    if isinstance(type_info, BasicTypeInfo | SqlTimeTypeInfo) or type_info == _BYTES:
        return ScalarOf(PYTHON_TYPES[type_text(type_info)])
    if isinstance(type_info, EnumTypeInfo):
        # Without its class, a member is its name.
        return ScalarOf(type_info.python_class or str)
    if isinstance(type_info, ListTypeInfo):
        return ListOf(type_info.elem_type)
    if isinstance(type_info, PrimitiveArrayTypeInfo | BasicArrayTypeInfo | ObjectArrayTypeInfo):
        return ListOf(type_info.element_type, not isinstance(type_info, PrimitiveArrayTypeInfo))
    if isinstance(type_info, MapTypeInfo):
        return MapOf(type_info.key_type, type_info.value_type)
    if isinstance(type_info, TupleTypeInfo):
        types = type_info.get_field_types()
        return StructOf(tuple, [f"f{index}" for index in range(len(types))], types)
    if isinstance(type_info, RowTypeInfo | ClassTypeInfo):
        python_type = Row if isinstance(type_info, RowTypeInfo) else type_info.python_class
        return StructOf(python_type, type_info.get_field_names(), type_info.get_field_types())
    return None


def every_type(type_info: TypeInformation) -> Iterator[TypeInformation]:
    """A type, and all types inside it."""
    yield type_info
    structure = structure_of(type_info)
    parts: list[TypeInformation] = []
    if isinstance(structure, ListOf):
        parts = [structure.element]
    elif isinstance(structure, MapOf):
        parts = [structure.key, structure.value]
    elif isinstance(structure, StructOf):
        parts = structure.types
    for part in parts:
        yield from every_type(part)
