"""What people see of stored state: decoded keys, typed values, and Python objects only where it is safe."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from ...common.errors import ConfigurationError, StateError
from ...common.type_system.type_parser import type_from_text
from ...common.typeinfo import ListTypeInfo, PickledBytesTypeInfo, TypeInformation
from ..keyed.conversion import OPAQUE, StateConversion
from ..serializers.codecs import value_codec
from ..serializers.encoded_values import decode_value
from ..serializers.type_layouts import layout_of
from ..serializers.value_layouts import ValueLayout, nullable
from .segments import column_slice, key_values, opaque_values

# The namespaces of a job have no declared type; a reader who knows it says so under this name.
_KEY_COLUMNS = {"key": "key_type", "namespace": "namespace_type", "map_key": "map_key_type"}


class StateEntry(NamedTuple):
    """One entry of keyed state, as Python objects.

    Attributes:
        expiry_ms: when the entry expires, or per element of a list state; None when never.
    """

    key: Any
    namespace: Any
    map_key: Any
    value: Any
    expiry_ms: Any


class OperatorStateEntry(NamedTuple):
    """One item of operator state, as Python objects.

    Attributes:
        subtask: index of the subtask that stored it.
        map_key: of broadcast state, else None.
    """

    subtask: int
    map_key: Any
    value: Any


class ColumnLayout:
    """The Arrow columns of one state.

    Args:
        where: the state, for error messages.
        schema: the state's stored descriptor.
        stored: its values.
        types: column types of its files, oldest first; none when nothing is stored.
        other_types: those of a state to compare with, so that the keys of both are shown alike.
    """

    def __init__(
        self,
        where: object,
        schema: Mapping[str, object],
        stored: StoredValues,
        types: Sequence[Mapping[str, pa.DataType]],
        other_types: Sequence[Mapping[str, pa.DataType]] = (),
    ) -> None:
        self._where = where
        self._stored = stored
        self._layouts: dict[str, _KeyLayout] = {}
        everywhere = [*types, *other_types]
        is_keyed = not any("subtask" in each for each in everywhere)
        fields: list[pa.Field] = [] if is_keyed else [pa.field("subtask", pa.int32())]
        for name, declared in _KEY_COLUMNS.items():
            kinds = {each[name] for each in everywhere if name in each}
            found = {kind for kind in kinds if not pa.types.is_null(kind)}
            expected = (name == "key" and is_keyed) or (name == "map_key" and "map_key_type" in schema)
            if found or (not everywhere and expected):
                self._layouts[name] = layout = _key_layout(schema.get(declared), found)
                fields.append(pa.field(name, layout.arrow_type))
        fields.append(pa.field("value", stored.arrow_type))
        self.is_pickled = stored.is_pickled
        if not self.is_pickled:
            fields.append(pa.field("value_encoded", pa.large_binary()))
        expiries = [each["expiry"] for each in types if "expiry" in each]
        fields += [pa.field("expiry", kind) for kind in expiries[-1:] if not pa.types.is_null(kind)]
        self.schema = pa.schema(fields)

    def batches(self, table: pa.Table, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """A change table as record batches with the columns of `schema`."""
        for start in range(0, table.num_rows, batch_rows):
            length = min(batch_rows, table.num_rows - start)
            columns = [self._column(table, name, start, length) for name in self.schema.names]
            yield pa.record_batch(columns, schema=self.schema)

    def table(self, table: pa.Table) -> pa.Table:
        """A change table as a table with the columns of `schema`."""
        batches = self.batches(table, max(1, table.num_rows))
        return pa.Table.from_batches(batches, schema=self.schema)

    @property
    def key_columns(self) -> list[str]:
        """Those of `key`, `namespace` and `map_key` that the state has."""
        return list(self._layouts)

    def entries(self, table: pa.Table, trusted: bool) -> Iterator[StateEntry]:
        """A change table as Python objects."""
        rows = table.num_rows
        keys, namespaces, map_keys = (key_values(column_slice(table[name], 0, rows)) for name in _KEY_COLUMNS)
        expiry = column_slice(table["expiry"], 0, rows)
        values = self.values(table, trusted)
        return map(StateEntry, keys, namespaces, map_keys, values, _milliseconds(expiry))

    def items(self, table: pa.Table, trusted: bool) -> Iterator[OperatorStateEntry]:
        """A table of operator state as Python objects."""
        map_keys = key_values(column_slice(table["map_key"], 0, table.num_rows))
        return map(OperatorStateEntry, table["subtask"].to_pylist(), map_keys, self.values(table, trusted))

    def values(self, table: pa.Table, trusted: bool) -> list[Any]:
        """The values of a table with `value` and `value_encoded`, unpickled only when `trusted`."""
        rows = table.num_rows
        encoded = opaque_values(column_slice(table["value_encoded"], 0, rows)) if not self.is_pickled else {}
        return self._stored.decode(column_slice(table["value"], 0, rows), encoded, trusted)

    def _column(self, table: pa.Table, name: str, start: int, length: int) -> pa.Array:
        column = column_slice(table[name], start, length)
        layout = self._layouts.get(name)
        if layout is not None:
            return layout.convert(self._where, name, column)
        target = self.schema.field(name).type
        return column if column.type == target else column.cast(target)


class StoredValues:
    """The values of one state: their declared type, and the ways to Python objects.

    Args:
        where: the state, for error messages.
        schema: its stored descriptor.
        is_keyed: whether it is keyed: a row of a keyed list state is a list, of an operator list an item.

    Attributes:
        conversion: brings files of older schemas to this one.
    """

    def __init__(self, where: object, schema: Mapping[str, object], is_keyed: bool) -> None:
        type_info = _parsed(schema.get("value_type")) or PickledBytesTypeInfo()
        is_list = is_keyed and schema.get("kind") == "list"
        if is_list and not isinstance(type_info, PickledBytesTypeInfo):
            type_info = ListTypeInfo(type_info)
        self._where = where
        self._codec = value_codec(type_info)
        self.conversion = StateConversion(str(where), schema, type_info)
        self._opaque_form = layout_of(type_info, OPAQUE)
        self.is_pickled = self._codec.is_pickled
        self.arrow_type = self._codec.arrow_type

    def decode(self, column: pa.Array, encoded: Mapping[int, bytes], trusted: bool) -> list[Any]:
        """The values of a column.

        Args:
            encoded: the values that the column could not hold, by position.
            trusted: whether pickles are loaded; else they are `PickledValue`s.

        Raises:
            StateError: when a pickle cannot be loaded here.
        """
        if trusted:
            return self._loaded(column, encoded)
        back = nullable(self._opaque_form.back)
        values = list(map(back, self._opaque_form.plains(column)))
        for position, data in encoded.items():
            values[position] = nullable(self._opaque_form.from_encoded)(decode_value(data))
        return values

    def _loaded(self, column: pa.Array, encoded: Mapping[int, bytes]) -> list[Any]:
        try:
            return self._codec.from_arrow(column, dict(encoded))
        except Exception as error:
            raise StateError(
                f"{self._where}: a pickled value cannot be loaded here: {type(error).__name__}: {error}; "
                f"make the modules of the job importable, or read without trusted=True"
            ) from error


def without_empty_encodings(table: pa.Table) -> pa.Table:
    """The table without the columns of encoded values in which nothing is."""
    names = [name for name in table.column_names if name.endswith("value_encoded")]
    return table.drop_columns([name for name in names if table[name].null_count == len(table)])


@dataclass(frozen=True)
class _KeyLayout:
    """How a key column is shown.

    Attributes:
        declared: the form of the declared type, if the keys have to be decoded into it.
    """

    arrow_type: pa.DataType
    is_text: bool = False
    declared: ValueLayout | None = None

    def convert(self, where: object, name: str, column: pa.Array) -> pa.Array:
        if self.is_text:
            return pa.array(map(repr, key_values(column)), self.arrow_type)
        if self.declared is None:
            return column
        keys = key_values(column)
        if not self.declared.are_exact(keys):
            raise StateError(
                f"{where}: a {name} does not fit the declared type, so there is no typed column for it; use "
                f"entries(), which gives Python objects"
            )
        return self.declared.column(list(map(self.declared.plain, keys)))


def _key_layout(declared: object, found: set[pa.DataType]) -> _KeyLayout:
    """How the keys of files with these key columns are shown.

    Integers and text as they are; other keys in their declared type; keys of which nothing is known, or
    integers and text mixed with others, as the text Python prints for them.
    """
    type_info = _parsed(declared)
    is_unknown = type_info is None or isinstance(type_info, PickledBytesTypeInfo)
    layout = None if type_info is None or is_unknown else layout_of(type_info)
    if len(found) == 1 and (pa.types.is_int64(*found) or pa.types.is_large_string(*found)):
        return _KeyLayout(next(iter(found)))
    if not found:
        return _KeyLayout(pa.large_string() if layout is None else _widest(layout.arrow_type))
    if (
        layout is None
        or pa.types.is_integer(layout.arrow_type)
        or pa.types.is_large_string(layout.arrow_type)
    ):
        return _KeyLayout(pa.large_string(), is_text=True)
    return _KeyLayout(layout.arrow_type, declared=layout)


def _widest(arrow_type: pa.DataType) -> pa.DataType:
    return pa.int64() if pa.types.is_integer(arrow_type) or pa.types.is_boolean(arrow_type) else arrow_type


def _parsed(text: object) -> TypeInformation | None:
    if not isinstance(text, str):
        return None
    try:
        return type_from_text(text)
    except ConfigurationError as error:
        raise StateError(f"a stored state has the type {text!r}, which this release cannot read") from error


def _milliseconds(column: pa.Array) -> list[Any]:
    kind = column.type
    if pa.types.is_null(kind):
        return [None] * len(column)
    whole = pa.list_(pa.int64()) if pa.types.is_list(kind) else pa.int64()
    milliseconds: list[Any] = column.cast(whole).to_pylist()
    return milliseconds
