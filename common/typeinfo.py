"""Declared types of the values in a stream or in state (names of `pyflink.common.typeinfo`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .type_system.declared_types import (
    BasicArrayTypeInfo,
    BasicType,
    BasicTypeInfo,
    DateTypeInfo,
    InstantTypeInfo,
    ListTypeInfo,
    LocalZonedTimestampTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PickledBytesTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    SqlTimeTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TupleTypeInfo,
    TypeInformation,
    type_text,
)

if TYPE_CHECKING:
    from .type_system.class_types import ClassTypeInfo, CustomTypeInfo
    from .type_system.type_codecs import TypeCodec

__all__ = [
    "BasicArrayTypeInfo",
    "BasicType",
    "BasicTypeInfo",
    "DateTypeInfo",
    "InstantTypeInfo",
    "ListTypeInfo",
    "LocalZonedTimestampTypeInfo",
    "MapTypeInfo",
    "ObjectArrayTypeInfo",
    "PickledBytesTypeInfo",
    "PrimitiveArrayTypeInfo",
    "RowTypeInfo",
    "SqlTimeTypeInfo",
    "TimeTypeInfo",
    "TimestampTypeInfo",
    "TupleTypeInfo",
    "TypeInformation",
    "Types",
    "type_text",
]


class Types:
    """Factories for every type information. They keep PyFlink's names, hence the capitals."""

    @staticmethod
    def STRING() -> BasicTypeInfo:
        """Text (`str`)."""
        return BasicTypeInfo(BasicType.STRING)

    @staticmethod
    def BYTE() -> BasicTypeInfo:
        """A signed integer of 8 bits."""
        return BasicTypeInfo(BasicType.BYTE)

    @staticmethod
    def BOOLEAN() -> BasicTypeInfo:
        """A truth value (`bool`)."""
        return BasicTypeInfo(BasicType.BOOLEAN)

    @staticmethod
    def SHORT() -> BasicTypeInfo:
        """A signed integer of 16 bits."""
        return BasicTypeInfo(BasicType.SHORT)

    @staticmethod
    def INT() -> BasicTypeInfo:
        """A signed integer of 32 bits."""
        return BasicTypeInfo(BasicType.INT)

    @staticmethod
    def LONG() -> BasicTypeInfo:
        """A signed integer of 64 bits."""
        return BasicTypeInfo(BasicType.LONG)

    @staticmethod
    def FLOAT() -> BasicTypeInfo:
        """A floating-point number of 32 bits."""
        return BasicTypeInfo(BasicType.FLOAT)

    @staticmethod
    def DOUBLE() -> BasicTypeInfo:
        """A floating-point number of 64 bits (`float`)."""
        return BasicTypeInfo(BasicType.DOUBLE)

    @staticmethod
    def CHAR() -> BasicTypeInfo:
        """Text of one character."""
        return BasicTypeInfo(BasicType.CHAR)

    @staticmethod
    def BIG_INT() -> BasicTypeInfo:
        """An integer of any size (`int`)."""
        return BasicTypeInfo(BasicType.BIG_INT)

    @staticmethod
    def BIG_DEC() -> BasicTypeInfo:
        """A decimal number of any precision (`decimal.Decimal`)."""
        return BasicTypeInfo(BasicType.BIG_DEC)

    @staticmethod
    def INSTANT() -> InstantTypeInfo:
        """A point on the time line (`tidegate.common.Instant`)."""
        return InstantTypeInfo()

    @staticmethod
    def SQL_DATE() -> DateTypeInfo:
        """A calendar date (`datetime.date`)."""
        return DateTypeInfo()

    @staticmethod
    def SQL_TIME() -> TimeTypeInfo:
        """A time of day (`datetime.time`)."""
        return TimeTypeInfo()

    @staticmethod
    def SQL_TIMESTAMP() -> TimestampTypeInfo:
        """A date with a time of day (`datetime.datetime`)."""
        return TimestampTypeInfo()

    @staticmethod
    def SQL_TIMESTAMP_LTZ() -> LocalZonedTimestampTypeInfo:
        """A `datetime.datetime` with a time zone; what is read back is the same moment in UTC."""
        return LocalZonedTimestampTypeInfo()

    @staticmethod
    def PICKLED_BYTE_ARRAY() -> PickledBytesTypeInfo:
        """Any Python object, stored pickled."""
        return PickledBytesTypeInfo()

    @staticmethod
    def ROW(field_types: Sequence[TypeInformation]) -> RowTypeInfo:
        """A `Row` whose fields are called `f0`, `f1`, …"""
        return RowTypeInfo(field_types)

    @staticmethod
    def ROW_NAMED(field_names: Sequence[str], field_types: Sequence[TypeInformation]) -> RowTypeInfo:
        """A `Row` with these names; raises ConfigurationError unless there is one per field."""
        return RowTypeInfo(field_types, field_names)

    @staticmethod
    def TUPLE(field_types: Sequence[TypeInformation]) -> TupleTypeInfo:
        """A tuple of fixed length."""
        return TupleTypeInfo(field_types)

    @staticmethod
    def PRIMITIVE_ARRAY(element_type: TypeInformation) -> PrimitiveArrayTypeInfo:
        """An array of a primitive type without None; `PRIMITIVE_ARRAY(BYTE())` is `bytes`."""
        return PrimitiveArrayTypeInfo(element_type)

    @staticmethod
    def BASIC_ARRAY(element_type: TypeInformation) -> BasicArrayTypeInfo:
        """An array of a primitive type or of text, whose elements may be None."""
        return BasicArrayTypeInfo(element_type)

    @staticmethod
    def OBJECT_ARRAY(element_type: TypeInformation) -> ObjectArrayTypeInfo:
        """An array of any other type."""
        return ObjectArrayTypeInfo(element_type)

    @staticmethod
    def MAP(key_type_info: TypeInformation, value_type_info: TypeInformation) -> MapTypeInfo:
        """A dict."""
        return MapTypeInfo(key_type_info, value_type_info)

    @staticmethod
    def LIST(element_type_info: TypeInformation) -> ListTypeInfo:
        """A list."""
        return ListTypeInfo(element_type_info)

    @staticmethod
    def DATACLASS(python_class: type[Any]) -> ClassTypeInfo:
        """A dataclass; the types of its fields follow from their annotations, as in `of`."""
        from .type_system.type_inference import dataclass_type

        return dataclass_type(python_class)

    @staticmethod
    def PYDANTIC(python_class: type[Any]) -> ClassTypeInfo:
        """A model of pydantic 2; the types of its fields follow from their annotations, as in `of`."""
        from .type_system.type_inference import pydantic_type

        return pydantic_type(python_class)

    @staticmethod
    def CUSTOM(codec: TypeCodec[Any]) -> CustomTypeInfo:
        """Values that a codec of your own turns into bytes."""
        from .type_system.class_types import custom_type

        return custom_type(codec)

    @staticmethod
    def of(annotation: Any) -> TypeInformation:
        """The type that a Python type or annotation stands for: `int`, `list[str]`, a dataclass, …

        A type without a mapping, such as `object` or `set`, is `PICKLED_BYTE_ARRAY`.
        """
        from .type_system.type_inference import type_of

        return type_of(annotation)
