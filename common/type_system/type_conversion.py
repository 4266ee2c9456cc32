"""Converts values to their declared type, a whole batch at a time.

What already matches is recognised without a loop over records (types and lengths are counted, `struct.pack`,
columns by `itemgetter`), and then the very same list comes back. Only what differs is touched.

Conversions are those of PyFlink's coders: a tuple given where a row is declared becomes a `Row`, an integer
where a float is declared becomes a float, a `FLOAT` is rounded to 32 bits. Everything else is an error.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import chain, islice
from operator import attrgetter, itemgetter
from typing import Any

from ..bulk_comparison import all_equal
from ..types import Row, fields_in_order, named_rows
from .declared_types import RowTypeInfo, TupleTypeInfo, TypeInformation
from .plain_conversion import (
    Converter,
    PlainConverter,
    WrongValueError,
    plain_converter,
    shortened,
    unconverted,
)
from .type_structure import ListOf, MapOf, ScalarOf, structure_of

__all__ = ["Converter", "WrongValueError", "converter_of", "shortened"]


def converter_of(
    type_info: TypeInformation, is_nullable: bool = False, wraps_integers: bool = False
) -> Converter | None:
    """The converter to a type, or None where any value will do.

    Args:
        type_info: the declared type.
        is_nullable: whether None may stand for a whole value.
        wraps_integers: keep the low bits of an integer that does not fit, with a warning, as PyFlink does
            with collections. Otherwise it is an error.
    """
    structure = structure_of(type_info)

    def inner(element: TypeInformation, may_be_none: bool = True) -> Converter | None:
        return converter_of(element, may_be_none, wraps_integers)

    if isinstance(structure, ScalarOf):
        return plain_converter(type_info, structure.python_type, is_nullable, wraps_integers)
    if isinstance(structure, ListOf):
        return _Lists(type_info, is_nullable, inner(structure.element, structure.has_none))
    if isinstance(structure, MapOf):
        return _Maps(type_info, is_nullable, inner(structure.key), inner(structure.value))
    if structure is None or structure.python_type is None:
        return None
    if isinstance(type_info, TupleTypeInfo):
        return _Tuples(type_info, is_nullable, list(map(inner, structure.types)))
    if isinstance(type_info, RowTypeInfo):
        return _Rows(type_info, is_nullable, list(map(inner, structure.types)))
    return PlainConverter(type_info, is_nullable, structure.python_type, unconverted)


# ---------------------------------------------------------------- collections


class _Lists(PlainConverter):
    """Lists, by their elements all in a row."""

    def __init__(self, declared: TypeInformation, is_nullable: bool, elements: Converter | None) -> None:
        super().__init__(declared, is_nullable, list, _as_list)
        self._elements = elements

    def convert(self, values: Sequence[Any], kinds: set[type]) -> Sequence[Any]:
        lists = super().convert(values, kinds)
        if self._elements is None:
            return lists
        flat = list(chain.from_iterable(lists))
        with _Inside(" in a list"):
            converted = self._elements(flat)
        if converted is flat:
            return lists
        following = iter(converted)
        return [list(islice(following, len(each))) for each in lists]


def _as_list(value: Any) -> list[Any] | None:
    if isinstance(value, (tuple, array)):
        return list(value)
    return value.tolist() if type(value).__module__ == "numpy" else None


class _Maps(PlainConverter):
    """Dicts, by their keys and values all in a row."""

    def __init__(
        self,
        declared: TypeInformation,
        is_nullable: bool,
        keys: Converter | None,
        map_values: Converter | None,
    ) -> None:
        super().__init__(declared, is_nullable, dict, unconverted)
        self._parts = keys, map_values

    def convert(self, values: Sequence[Any], kinds: set[type]) -> Sequence[Any]:
        dicts = super().convert(values, kinds)
        to_keys, to_values = self._parts
        flat_keys = list(chain.from_iterable(dicts))
        flat_values = list(chain.from_iterable(each.values() for each in dicts))
        with _Inside(" as the key of a map"):
            keys = to_keys(flat_keys) if to_keys is not None else flat_keys
        with _Inside(" as a value of a map"):
            new_values = to_values(flat_values) if to_values is not None else flat_values
        if keys is flat_keys and new_values is flat_values:
            return dicts
        pairs = iter(zip(keys, new_values))
        return [dict(islice(pairs, len(each))) for each in dicts]


# ---------------------------------------------------------------- tuples and rows


class _Fields(Converter):
    """What tuples and rows share: their columns are converted one by one."""

    def __init__(
        self,
        declared: TupleTypeInfo | RowTypeInfo,
        is_nullable: bool,
        python_type: type,
        columns: list[Converter | None],
    ) -> None:
        super().__init__(declared, is_nullable, python_type)
        # Column by column: `zip(*records)` makes an iterator of every record first.
        self._fields = [itemgetter(index) for index in range(len(columns))]
        self._columns = [(index, each) for index, each in enumerate(columns) if each is not None]

    def _converted(self, records: Sequence[Sequence[Any]]) -> Sequence[Sequence[Any]]:
        """The records with their fields converted; `records` itself if nothing changes."""
        width = len(self._fields)
        if not all_equal(map(len, records), width, len(records)):
            raise self.wrong(next(each for each in records if len(each) != width))
        changed: dict[int, Sequence[Any]] = {}
        for index, convert in self._columns:
            column = list(map(self._fields[index], records))
            with _Inside(f" in field {self._field(index)}"):
                converted = convert(column)
            if converted is not column:
                changed[index] = converted
        if not changed:
            return records
        return list(zip(*(changed.get(index) or map(get, records) for index, get in enumerate(self._fields))))

    def _field(self, index: int) -> str:
        return str(index)


class _Tuples(_Fields):
    """Tuples; also made of lists and of rows."""

    def __init__(self, declared: TupleTypeInfo, is_nullable: bool, columns: list[Converter | None]) -> None:
        super().__init__(declared, is_nullable, tuple, columns)

    def convert(self, values: Sequence[Any], kinds: set[type]) -> Sequence[Any]:
        if kinds <= self._kinds:
            return self._converted(values)
        return self._converted([self._tuple(value) for value in values])

    def _tuple(self, value: Any) -> tuple[Any, ...]:
        if isinstance(value, (tuple, list, Row)):
            return tuple(value)
        raise self.wrong(value)


class _Rows(_Fields):
    """Rows with the declared names; also made of tuples, lists and, by name, of dicts."""

    def __init__(self, declared: RowTypeInfo, is_nullable: bool, columns: list[Converter | None]) -> None:
        super().__init__(declared, is_nullable, Row, columns)
        self._names = tuple(declared.get_field_names())
        self._by_name = self._names != tuple(f"f{index}" for index in range(len(self._names)))

    def convert(self, values: Sequence[Any], kinds: set[type]) -> Sequence[Any]:
        if kinds <= self._kinds:
            return self._convert_rows(values)
        if kinds <= {tuple, list}:
            return named_rows(self._names, self._converted(values))
        return self._convert_rows([self._row(value) for value in values])

    def _convert_rows(self, rows: Sequence[Row]) -> Sequence[Row]:
        if all_equal(map(_FIELDS, rows), self._names, len(rows)):
            records = list(map(_VALUES, rows))
            converted = self._converted(records)
            if converted is records:
                return rows
        else:
            converted = self._converted(list(map(self._record, rows)))
        made = named_rows(self._names, converted)
        for row, original in zip(made, rows):
            row.set_row_kind(original.get_row_kind())
        return made

    def _record(self, row: Row) -> Sequence[Any]:
        fields = fields_in_order(row, self._names if self._by_name else None)
        if fields is None:
            raise self.wrong(row)
        return fields

    def _row(self, value: Any) -> Row:
        if isinstance(value, Row):
            return value
        if isinstance(value, (tuple, list)):
            return Row(*value)
        if isinstance(value, dict) and set(value) <= set(self._names):
            return Row(*map(value.get, self._names))
        raise self.wrong(value)

    def _field(self, index: int) -> str:
        return repr(self._names[index]) if self._by_name else str(index)


_FIELDS = attrgetter("_fields")
_VALUES = attrgetter("_values")


class _Inside:
    """Adds to an error where in the record the value is."""

    __slots__ = ("_place",)

    def __init__(self, place: str) -> None:
        self._place = place

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, WrongValueError):
            error.reason += self._place
