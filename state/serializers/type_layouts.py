"""The layout, and so the Arrow column, of every declared type."""

from __future__ import annotations

from ...common.type_system.class_types import ClassTypeInfo, CustomTypeInfo, EnumTypeInfo
from ...common.type_system.type_structure import PYTHON_TYPES, ListOf, MapOf, ScalarOf, StructOf, structure_of
from ...common.typeinfo import RowTypeInfo, TypeInformation, type_text
from .class_layouts import class_layout
from .composite_layouts import ListLayout, MapLayout, RowLayout, TupleLayout
from .pickling import dumps
from .value_layouts import SCALAR_LAYOUTS, CustomLayout, PickledLayout, ValueLayout, enum_layout

IMMUTABLE_TYPES: frozenset[type] = frozenset({*PYTHON_TYPES.values(), complex, type(None)})
_PICKLED = PickledLayout(dumps)


def layout_of(type_info: TypeInformation, unknown: ValueLayout = _PICKLED) -> ValueLayout:
    """The layout of a declared type.

    Args:
        unknown: the layout of unknown types, also inside others; by default they are pickled.
    """
    structure = structure_of(type_info)
    if isinstance(type_info, EnumTypeInfo):
        return enum_layout(type_info)
    if isinstance(type_info, CustomTypeInfo):
        return CustomLayout(type_info)
    if isinstance(structure, ScalarOf):
        return SCALAR_LAYOUTS[type_text(type_info)]
    if isinstance(structure, ListOf):
        return ListLayout(layout_of(structure.element, unknown), structure.has_none)
    if isinstance(structure, MapOf):
        return MapLayout(layout_of(structure.key, unknown), layout_of(structure.value, unknown))
    # Parquet has no struct without fields.
    if structure is None or not structure.types:
        return unknown
    return _struct_layout(type_info, structure, [layout_of(field, unknown) for field in structure.types])


def _struct_layout(type_info: TypeInformation, structure: StructOf, fields: list[ValueLayout]) -> ValueLayout:
    if isinstance(type_info, ClassTypeInfo):
        return class_layout(type_info, fields)
    if isinstance(type_info, RowTypeInfo):
        names = structure.names
        return RowLayout(None if type_info._field_names is None else tuple(names), names, fields)
    return TupleLayout(fields)
