"""Turns stored values of an older schema into values of the one a job declares now.

Works on whole columns, in plain forms (see `value_forms`). Rows whose value was encoded by itself are
decoded, converted and stored again: typed where the new column can hold them. All of this happens without the
classes of the program, whose instances are rows here, and nothing is unpickled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any

import pyarrow as pa

from ...common.errors import StateMigrationError
from ...common.type_system.class_types import ClassTypeInfo
from ...common.type_system.type_parser import type_from_text
from ...common.type_system.type_structure import ListOf, MapOf, StructOf, structure_of
from ...common.typeinfo import (
    BasicType,
    BasicTypeInfo,
    ListTypeInfo,
    PickledBytesTypeInfo,
    RowTypeInfo,
    TypeInformation,
    type_text,
)
from ...common.types import Row
from ..evolution import SchemaChangeKind, compare_schemas
from ..serializers.class_layouts import default_of
from ..serializers.encoded_values import PickledValue, decode_value
from ..serializers.type_layouts import layout_of
from ..serializers.value_codecs import TypedCodec
from ..serializers.value_layouts import ScalarLayout, ValueLayout, nullable, same

_CHUNK_ROWS = 16_384
# In the place of pickles, wherever in a value they are: only `trusted` readers load them.
OPAQUE = ScalarLayout(pa.large_binary(), PickledValue, attrgetter("data"), PickledValue)
_Convert = Callable[[Any], Any]
_BIG_INT = BasicTypeInfo(BasicType.BIG_INT)


class StateConversion:
    """Brings stored rows of one state to its declared schema.

    Args:
        where: operator and state, for error messages.
        schema: the declared schema (`StateDescriptor.schema`).
        type_info: declared type of the values; of one element for a list.
        is_list: whether one stored value is a whole list.
    """

    def __init__(
        self,
        where: str,
        schema: Mapping[str, object],
        type_info: TypeInformation,
        is_list: bool = False,
    ) -> None:
        self._where = where
        self.schema = schema
        self._is_list = is_list and not isinstance(type_info, PickledBytesTypeInfo)
        self._type = self._stored(type_info)
        self._reader_codec = TypedCodec(self._type, _reader_layout(self._type))

    def converted(self, table: pa.Table, stored_schema: Mapping[str, object]) -> pa.Table:
        """The table with its columns `value` and `value_encoded` in the declared schema.

        Raises:
            StateMigrationError: when the stored schema does not fit the declared one.
        """
        if stored_schema["value_type"] == self.schema["value_type"]:
            return table
        change = compare_schemas({**self.schema, "value_type": stored_schema["value_type"]}, self.schema)
        if change.kind is SchemaChangeKind.INCOMPATIBLE:
            raise StateMigrationError(
                f"{self._where}: a stored file has values of type {stored_schema['value_type']}, but the job "
                f"declares {self.schema['value_type']}: {change.text}"
            )
        if change.kind is SchemaChangeKind.SAME:
            return table
        before = self._stored(type_from_text(str(stored_schema["value_type"])))
        plain, live = plain_conversion(before, self._type), live_conversion(before, self._type)
        parts = [
            self._chunk(table.slice(start, _CHUNK_ROWS), before, plain, live)
            for start in range(0, max(table.num_rows, 1), _CHUNK_ROWS)
        ]
        for name, index in (("value", 0), ("value_encoded", 1)):
            column = pa.chunked_array([part[index] for part in parts])
            table = table.set_column(table.schema.get_field_index(name), name, column)
        return table

    def _stored(self, type_info: TypeInformation) -> TypeInformation:
        return ListTypeInfo(type_info) if self._is_list else type_info

    def _chunk(
        self, part: pa.Table, before: TypeInformation, plain: _Convert, live: _Convert
    ) -> tuple[pa.Array, pa.Array]:
        stored = part["value"].combine_chunks()
        # A table without rows has no chunks, and combining those gives a chunked array.
        plains = layout_of(before).plains(stored) if part.num_rows else []
        encoded: list[bytes | None] = part["value_encoded"].to_pylist()
        layout, old_form = _reader_layout(self._type), _reader_layout(before)
        convert = nullable(plain)
        result = plains if convert is same else list(map(convert, plains))
        to_plain = nullable(layout.plain)
        for row, data in enumerate(encoded):
            if data is not None:
                value = nullable(live)(nullable(old_form.from_encoded)(decode_value(data)))
                opaque = self._reader_codec.to_arrow([value])[1]
                encoded[row] = opaque.get(0)
                result[row] = None if opaque else to_plain(value)
        return layout.column(result), pa.array(encoded, type=pa.large_binary())


def _reader_layout(type_info: TypeInformation) -> ValueLayout:
    """The form of a type as a reader has it that knows no classes and opens no pickles."""
    return layout_of(type_from_text(type_text(type_info)), OPAQUE)


def plain_conversion(before: TypeInformation, after: TypeInformation) -> _Convert:
    """From plain forms of one type to plain forms of another that `compare_schemas` allows."""
    if isinstance(after, BasicTypeInfo):
        return str if after == _BIG_INT and before != _BIG_INT else same
    old, new = structure_of(before), structure_of(after)
    if isinstance(old, ListOf) and isinstance(new, ListOf):
        convert = nullable(plain_conversion(old.element, new.element))
        return same if convert is same else lambda plain: list(map(convert, plain))
    if isinstance(old, MapOf) and isinstance(new, MapOf):
        return _entries(old, new, plain_conversion)
    if isinstance(old, StructOf) and isinstance(new, StructOf):
        return _plain_struct_conversion(old, new, after)
    return same


def live_conversion(before: TypeInformation, after: TypeInformation) -> _Convert:
    """The same for Python values, which may be anything that a value of the type may be given as."""
    old, new = structure_of(before), structure_of(after)
    if isinstance(old, ListOf) and isinstance(new, ListOf):
        convert = nullable(live_conversion(old.element, new.element))
        return same if convert is same else lambda values: type(values)(map(convert, values))
    if isinstance(old, MapOf) and isinstance(new, MapOf):
        return _entries(old, new, live_conversion)
    if isinstance(old, StructOf) and isinstance(new, StructOf):
        if isinstance(after, ClassTypeInfo):
            return _live_class_conversion(old, new, after)
        return _live_row_conversion(old, new, after)
    return same


def _entries(
    old: MapOf, new: MapOf, conversion: Callable[[TypeInformation, TypeInformation], _Convert]
) -> _Convert:
    key, value = conversion(old.key, new.key), nullable(conversion(old.value, new.value))
    if key is value is same:
        return same
    return lambda entries: {key(k): value(v) for k, v in entries.items()}


def _fields(
    old: StructOf, new: StructOf, convert: Callable[[TypeInformation, TypeInformation], _Convert]
) -> list[tuple[str, int | None, _Convert]]:
    """For each new field: its name, where it was, and its conversion."""
    fields: list[tuple[str, int | None, _Convert]] = []
    for name, field_type in zip(new.names, new.types, strict=True):
        if name in old.names:
            at = old.names.index(name)
            fields.append((name, at, nullable(convert(old.types[at], field_type))))
        else:
            fields.append((name, None, same))
    return fields


def _plain_struct_conversion(old: StructOf, new: StructOf, after: TypeInformation) -> _Convert:
    fields = _fields(old, new, plain_conversion)
    if all(at == index and convert is same for index, (_, at, convert) in enumerate(fields)):
        return same if len(fields) == len(old.names) else lambda parts: parts[: len(fields)]
    layouts = [layout_of(field_type) for field_type in new.types]

    def added(index: int, name: str) -> Any:
        # Anew for each value: a default factory may give a list.
        default = default_of(after, name) if isinstance(after, ClassTypeInfo) else None
        return nullable(layouts[index].plain)(default)

    def converted(parts: Any) -> list[Any]:
        return [
            added(index, name) if at is None else convert(parts[at])
            for index, (name, at, convert) in enumerate(fields)
        ]

    return converted


def _live_row_conversion(old: StructOf, new: StructOf, after: TypeInformation) -> _Convert:
    """Rows and tuples: a row comes back with the new names, in the new order."""
    fields = _fields(old, new, live_conversion)
    names = old.names
    new_names = after._field_names if isinstance(after, RowTypeInfo) else None

    def converted(value: Any) -> Any:
        given = value._fields if isinstance(value, Row) else None
        by_name = dict(zip(names if given is None or new_names is None else given, value, strict=True))
        parts = [None if at is None else convert(by_name.get(name)) for name, at, convert in fields]
        if not isinstance(value, Row):
            return tuple(parts)
        row = Row(*parts)
        row.set_row_kind(value.get_row_kind())
        if given is not None:
            row.set_field_names(given if new_names is None else new_names)
        return row

    return converted


def _live_class_conversion(old: StructOf, new: StructOf, after: ClassTypeInfo) -> _Convert:
    """Instances, which are rows of the attributes they had: they get those they lack and lose the rest."""
    fields = _fields(old, new, live_conversion)
    gone = set(old.names) - set(new.names)
    types = dict(zip(new.names, new.types, strict=True))

    def default(name: str) -> Any:
        value = default_of(after, name)
        to_encoded = nullable(layout_of(types[name]).to_encoded)
        return nullable(_reader_layout(types[name]).from_encoded)(to_encoded(value))

    def converted(value: Any) -> Any:
        present = value.as_dict()
        parts = {
            name: convert(present[name]) if name in present else default(name) for name, _, convert in fields
        }
        others = {name: part for name, part in present.items() if name not in parts and name not in gone}
        return Row(**parts, **others)

    return converted
