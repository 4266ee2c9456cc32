"""Brings values to their declared type, a whole batch at a time.

What already matches is recognised without a loop over records (types and lengths are counted, `struct.pack`,
columns by `itemgetter`), and then the very same list comes back. Only what differs is touched.

Conversions are those of PyFlink's coders: a tuple given where a row is declared becomes a `Row`, an integer
where a float is declared becomes a float, a `FLOAT` is rounded to 32 bits. Everything else is an error.
"""

from __future__ import annotations

import logging
import struct
from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from itertools import chain, islice
from numbers import Integral, Real
from operator import attrgetter, eq, itemgetter
from typing import Any

from .class_types import ClassTypeInfo, EnumTypeInfo
from .counting import all_are
from .time import Instant
from .typeinfo import (
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
    type_text,
)
from .types import Row, named_rows

__all__ = ["Converter", "WrongValueError", "converter_of", "shortened"]

logger = logging.getLogger("tidegate")

_NONE = type(None)


class WrongValueError(Exception):
    """A value does not have the declared type, and cannot be brought to it.

    Attributes:
        reason: what is wrong, with the value, the declared type and the place in the record.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Converter(ABC):
    """Brings values to one type.

    Args:
        declared: the type, as errors show it.
        is_nullable: whether None may stand for a value; it may inside rows, lists and maps.
        python_type: the Python type of values that need no conversion.
    """

    def __init__(self, declared: TypeInformation, is_nullable: bool, python_type: type) -> None:
        self._declared = declared
        self._is_nullable = is_nullable
        self._python_type = python_type
        self._kinds = {python_type}

    def __call__(self, values: Sequence[Any]) -> Sequence[Any]:
        """Convert values.

        Args:
            values: any number of them.

        Returns:
            `values` itself if every one has the declared type, else a new list.

        Raises:
            WrongValueError: one of them cannot be brought to the declared type.
        """
        if not values:
            return values
        if all_are(map(type, values), self._python_type, len(values)):
            return self.convert(values, self._kinds)
        kinds = set(map(type, values))
        if _NONE not in kinds:
            return self.convert(values, kinds)
        if not self._is_nullable:
            raise self.wrong(None)
        kinds.discard(_NONE)
        if not kinds:
            return values
        present = [value for value in values if value is not None]
        converted = self.convert(present, kinds)
        if converted is present:
            return values
        following = iter(converted)
        return [None if value is None else next(following) for value in values]

    @abstractmethod
    def convert(self, values: Sequence[Any], kinds: set[type]) -> Sequence[Any]:
        """As a call, for values none of which is None, and whose Python types are `kinds`."""

    def wrong(self, value: object) -> WrongValueError:
        """The error for a value of another type."""
        kind = "None" if value is None else f"{shortened(value)}, of type {type(value).__name__},"
        return WrongValueError(f"{kind} where {type_text(self._declared)} is declared")


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
    if isinstance(type_info, BasicTypeInfo):
        return _basic(type_info, is_nullable, wraps_integers)
    plain = _PLAIN.get(type(type_info))
    if plain is not None:
        return _Plain(type_info, is_nullable, *plain)
    if isinstance(type_info, (ClassTypeInfo, EnumTypeInfo)):
        # Read from a snapshot, it has no class to compare with.
        found = type_info.python_class
        return None if found is None else _Plain(type_info, is_nullable, found, _unconverted)
    if isinstance(type_info, PrimitiveArrayTypeInfo) and type_text(type_info.element_type) == "BYTE":
        return _Plain(type_info, is_nullable, bytes, _as_bytes)

    def inner(element: TypeInformation, may_be_none: bool = True) -> Converter | None:
        return converter_of(element, may_be_none, wraps_integers)

    if isinstance(type_info, PrimitiveArrayTypeInfo):
        return _Lists(type_info, is_nullable, inner(type_info.element_type, False))
    if isinstance(type_info, (BasicArrayTypeInfo, ObjectArrayTypeInfo)):
        return _Lists(type_info, is_nullable, inner(type_info.element_type))
    if isinstance(type_info, ListTypeInfo):
        return _Lists(type_info, is_nullable, inner(type_info.elem_type))
    if isinstance(type_info, MapTypeInfo):
        return _Maps(type_info, is_nullable, inner(type_info.key_type), inner(type_info.value_type))
    if isinstance(type_info, TupleTypeInfo):
        return _Tuples(type_info, is_nullable, [inner(each) for each in type_info.get_field_types()])
    if isinstance(type_info, RowTypeInfo):
        return _Rows(type_info, is_nullable, [inner(each) for each in type_info.get_field_types()])
    return None


# ---------------------------------------------------------------- scalars


class _Plain(Converter):
    """Values of one Python type.

    Args:
        python_type: what values should be; instances of subclasses will do.
        convert_one: gives the value for an object of another type, or None if there is none.
    """

    def __init__(
        self,
        declared: TypeInformation,
        is_nullable: bool,
        python_type: type,
        convert_one: Callable[[Any], Any],
    ) -> None:
        super().__init__(declared, is_nullable, python_type)
        self._convert_one = convert_one

    def convert(self, values: Sequence[Any], kinds: set[type]) -> Sequence[Any]:
        if kinds <= self._kinds:
            return values
        return [self.one(value) for value in values]

    def one(self, value: Any) -> Any:
        value = _without_numpy(value)
        converted = self._convert_one(value)
        if converted is not None:
            return converted
        if isinstance(value, self._python_type):
            return value
        raise self.wrong(value)


_CODES = {8: "b", 16: "h", 32: "i", 64: "q"}
"""What `struct` calls integers of so many bits."""


class _Integers(_Plain):
    """Integers of so many bits."""

    def __init__(self, declared: TypeInformation, is_nullable: bool, bits: int, wraps: bool) -> None:
        super().__init__(declared, is_nullable, int, _as_integer)
        self._bits = bits
        self._highest = (1 << (bits - 1)) - 1
        self._lowest = -self._highest - 1
        self._wraps = wraps

    def convert(self, values: Sequence[Any], kinds: set[type]) -> Sequence[Any]:
        converted = super().convert(values, kinds)
        try:
            # A fifth of what `min` and `max` take.
            struct.pack(f"{len(converted)}{_CODES[self._bits]}", *converted)
        except struct.error:
            return [self._fitting(value) for value in converted]
        return converted

    def _fitting(self, value: int) -> int:
        if self._lowest <= value <= self._highest:
            return value
        problem = (
            f"{value} does not fit {type_text(self._declared)}, which holds {self._lowest} to {self._highest}"
        )
        if not self._wraps:
            raise WrongValueError(problem)
        kept = (value - self._lowest) % (1 << self._bits) + self._lowest
        logger.warning("%s; its low %d bits are kept, as in PyFlink: %d", problem, self._bits, kept)
        return kept


class _Singles(_Plain):
    """Numbers rounded to 32 bits."""

    def __init__(self, declared: TypeInformation, is_nullable: bool) -> None:
        super().__init__(declared, is_nullable, float, _as_float)

    def convert(self, values: Sequence[Any], kinds: set[type]) -> Sequence[Any]:
        converted = super().convert(values, kinds)
        rounded = array("f", converted).tolist()
        return converted if all(map(eq, rounded, converted)) else rounded


class _Characters(_Plain):
    """Texts of one character."""

    def __init__(self, declared: TypeInformation, is_nullable: bool) -> None:
        super().__init__(declared, is_nullable, str, _unconverted)

    def convert(self, values: Sequence[Any], kinds: set[type]) -> Sequence[Any]:
        converted = super().convert(values, kinds)
        for value in converted:
            if len(value) != 1:
                raise self.wrong(value)
        return converted


def _unconverted(value: Any) -> None:
    return None


def _as_integer(value: Any) -> int | None:
    return int(value) if isinstance(value, Integral) else None


def _as_float(value: Any) -> float | None:
    return float(value) if isinstance(value, Real) else None


def _as_decimal(value: Any) -> Decimal | None:
    return Decimal(int(value)) if isinstance(value, Integral) else None


def _as_date(value: Any) -> date | None:
    return value.date() if isinstance(value, datetime) else None


def _as_bytes(value: Any) -> bytes | None:
    return bytes(value) if isinstance(value, (bytearray, memoryview)) else None


def _without_numpy(value: Any) -> Any:
    """The Python value of a NumPy scalar; told by its module, so that NumPy need not be imported."""
    is_scalar = type(value).__module__ == "numpy" and getattr(value, "ndim", None) == 0
    return value.item() if is_scalar else value


def _basic(type_info: BasicTypeInfo, is_nullable: bool, wraps: bool) -> Converter:
    basic = type_info.basic_type
    bits = _BITS.get(basic)
    if bits is not None:
        return _Integers(type_info, is_nullable, bits, wraps)
    if basic is BasicType.FLOAT:
        return _Singles(type_info, is_nullable)
    if basic is BasicType.CHAR:
        return _Characters(type_info, is_nullable)
    return _Plain(type_info, is_nullable, *_BASIC[basic])


_BITS = {BasicType.BYTE: 8, BasicType.SHORT: 16, BasicType.INT: 32, BasicType.LONG: 64}
_BASIC: dict[BasicType, tuple[type, Callable[[Any], Any]]] = {
    BasicType.STRING: (str, _unconverted),
    BasicType.BOOLEAN: (bool, _unconverted),
    BasicType.DOUBLE: (float, _as_float),
    BasicType.BIG_INT: (int, _as_integer),
    BasicType.BIG_DEC: (Decimal, _as_decimal),
    BasicType.INSTANT: (Instant, _unconverted),
}
_PLAIN: dict[type, tuple[type, Callable[[Any], Any]]] = {
    DateTypeInfo: (date, _as_date),
    TimeTypeInfo: (time, _unconverted),
    TimestampTypeInfo: (datetime, _unconverted),
    LocalZonedTimestampTypeInfo: (datetime, _unconverted),
}


# ---------------------------------------------------------------- collections


class _Lists(_Plain):
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


class _Maps(_Plain):
    """Dicts, by their keys and values all in a row."""

    def __init__(
        self,
        declared: TypeInformation,
        is_nullable: bool,
        keys: Converter | None,
        map_values: Converter | None,
    ) -> None:
        super().__init__(declared, is_nullable, dict, _unconverted)
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
        if not all_are(map(len, records), width, len(records)):
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
        if all_are(map(_FIELDS, rows), self._names, len(rows)):
            records = list(map(_VALUES, rows))
            converted = self._converted(records)
            if converted is records:
                return rows
        else:
            converted = self._converted([self._record(row) for row in rows])
        made = named_rows(self._names, converted)
        for row, original in zip(made, rows):
            row.set_row_kind(original.get_row_kind())
        return made

    def _record(self, row: Row) -> Sequence[Any]:
        """The fields of a row in the declared order: by name where both have names, else by position."""
        names = row._fields
        if names is None or not self._by_name or names == self._names:
            return row._values
        if set(names) != set(self._names):
            raise self.wrong(row)
        return [row[name] for name in self._names]

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


def shortened(value: object, limit: int = 200) -> str:
    """How a value prints, cut where that gets long."""
    try:
        text = repr(value)
    except Exception as error:
        # A value that is nested too deeply, or a class of the user's.
        text = f"<{type(value).__name__} whose repr() raises {type(error).__name__}>"
    return text if len(text) <= limit else text[:limit] + "…"
