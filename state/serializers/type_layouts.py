"""The form, and so the Arrow column, of every declared type."""

from __future__ import annotations

from datetime import date, datetime, time
from decimal import Decimal

from ...common.time import Instant
from ...common.type_system.class_types import ClassTypeInfo, CustomTypeInfo, EnumTypeInfo
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
    TupleTypeInfo,
    TypeInformation,
)
from .class_layouts import class_layout
from .composite_layouts import ListLayout, MapLayout, RowLayout, TupleLayout
from .pickling import dumps
from .value_layouts import (
    BASIC_FORMS,
    BYTES_FORM,
    DATE_FORM,
    TIME_FORM,
    TIMESTAMP_FORM,
    ZONED_TIMESTAMP_FORM,
    CustomLayout,
    PickledLayout,
    ValueLayout,
    enum_layout,
)

IMMUTABLE_TYPES: frozenset[type] = frozenset(
    {int, float, str, bytes, bool, complex, type(None), date, datetime, time, Decimal, Instant}
)
_SQL_TIME_FORMS: dict[type[TypeInformation], ValueLayout] = {
    DateTypeInfo: DATE_FORM,
    TimeTypeInfo: TIME_FORM,
    TimestampTypeInfo: TIMESTAMP_FORM,
    LocalZonedTimestampTypeInfo: ZONED_TIMESTAMP_FORM,
}


_PICKLED = PickledLayout(dumps)


def layout_of(type_info: TypeInformation, unknown: ValueLayout = _PICKLED) -> ValueLayout:
    """The form of a declared type.

    Args:
        unknown: the form of unknown types, also inside others; by default they are pickled.
    """
    if isinstance(type_info, BasicTypeInfo):
        return BASIC_FORMS[type_info.basic_type]
    if type(type_info) in _SQL_TIME_FORMS:
        return _SQL_TIME_FORMS[type(type_info)]
    if isinstance(type_info, EnumTypeInfo):
        return enum_layout(type_info)
    if isinstance(type_info, CustomTypeInfo):
        return CustomLayout(type_info)
    if isinstance(type_info, PrimitiveArrayTypeInfo):
        is_bytes = type_info.element_type == BasicTypeInfo(BasicType.BYTE)
        return (
            BYTES_FORM
            if is_bytes
            else ListLayout(layout_of(type_info.element_type, unknown), with_none=False)
        )
    if isinstance(type_info, BasicArrayTypeInfo | ObjectArrayTypeInfo):
        return ListLayout(layout_of(type_info.element_type, unknown))
    if isinstance(type_info, ListTypeInfo):
        return ListLayout(layout_of(type_info.elem_type, unknown))
    if isinstance(type_info, MapTypeInfo):
        return MapLayout(layout_of(type_info.key_type, unknown), layout_of(type_info.value_type, unknown))
    return _struct_layout(type_info, unknown) or unknown


def _struct_layout(type_info: TypeInformation, unknown: ValueLayout) -> ValueLayout | None:
    if not isinstance(type_info, TupleTypeInfo | RowTypeInfo | ClassTypeInfo):
        return None
    fields = [layout_of(field, unknown) for field in type_info.get_field_types()]
    # Parquet has no struct without fields.
    if not fields:
        return None
    if isinstance(type_info, TupleTypeInfo):
        return TupleLayout(fields)
    if isinstance(type_info, ClassTypeInfo):
        return class_layout(type_info, fields)
    names = type_info.get_field_names()
    return RowLayout(None if type_info._field_names is None else tuple(names), names, fields)
