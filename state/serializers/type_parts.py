"""The types that a type is made of."""

from __future__ import annotations

from collections.abc import Iterator

from ...common.type_system.class_types import ClassTypeInfo
from ...common.typeinfo import (
    BasicArrayTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)


def every_type(type_info: TypeInformation) -> Iterator[TypeInformation]:
    """A type, and all types inside it."""
    yield type_info
    parts: list[TypeInformation] = []
    if isinstance(type_info, TupleTypeInfo | RowTypeInfo | ClassTypeInfo):
        parts = type_info.get_field_types()
    elif isinstance(type_info, ListTypeInfo):
        parts = [type_info.elem_type]
    elif isinstance(type_info, BasicArrayTypeInfo | ObjectArrayTypeInfo | PrimitiveArrayTypeInfo):
        parts = [type_info.element_type]
    elif isinstance(type_info, MapTypeInfo):
        parts = [type_info.key_type, type_info.value_type]
    for part in parts:
        yield from every_type(part)
