"""How declared types look as Arrow columns, and the checks that make the way there and back exact."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa

from ..common.typeinfo import (
    BasicType,
    BasicTypeInfo,
    DateTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)
from ..common.types import Row, RowKind


def _same(value: Any) -> Any:
    return value


@dataclass(frozen=True)
class ArrowForm:
    """The Arrow column of one declared type.

    Attributes:
        accepts: Python types a value of the declared type may have.
        fits: whether a value comes back from the column exactly as it is.
        plain: turns a value into what `pyarrow.array` takes.
        back: turns an element of `Array.to_pylist` into the value.
        immutable: whether values cannot change in place.
    """

    arrow_type: pa.DataType
    accepts: tuple[type, ...]
    fits: Callable[[Any], bool]
    plain: Callable[[Any], Any] = _same
    back: Callable[[Any], Any] = _same
    immutable: bool = True


def arrow_form(type_info: TypeInformation) -> ArrowForm | None:
    """The form of a declared type; None when its values are pickled."""
    if isinstance(type_info, BasicTypeInfo):
        return _BASIC.get(type_info.basic_type)
    if isinstance(type_info, DateTypeInfo):
        return _exactly(pa.date32(), date)
    if isinstance(type_info, TimeTypeInfo):
        return ArrowForm(pa.time64("us"), (time,), _is_naive_time)
    if isinstance(type_info, TimestampTypeInfo):
        return ArrowForm(pa.timestamp("us"), (datetime,), _is_naive_datetime)
    if isinstance(type_info, PrimitiveArrayTypeInfo):
        is_bytes = type_info.element_type == BasicTypeInfo(BasicType.BYTE)
        return _exactly(pa.large_binary(), bytes, bytearray) if is_bytes else None
    if isinstance(type_info, ListTypeInfo):
        return _list_form(type_info)
    if isinstance(type_info, MapTypeInfo):
        return _map_form(type_info)
    if isinstance(type_info, TupleTypeInfo):
        return _tuple_form(type_info)
    if isinstance(type_info, RowTypeInfo):
        return _row_form(type_info)
    return None


def _exactly(arrow_type: pa.DataType, exact: type, *also_accepted: type) -> ArrowForm:
    return ArrowForm(arrow_type, (exact, *also_accepted), lambda value: type(value) is exact)


def _integer(arrow_type: pa.DataType, bits: int) -> ArrowForm:
    values = range(-(1 << (bits - 1)), 1 << (bits - 1))
    return ArrowForm(arrow_type, (int,), lambda value: type(value) is int and value in values)


def _is_naive_time(value: Any) -> bool:
    return type(value) is time and value.tzinfo is None and not value.fold


def _is_naive_datetime(value: Any) -> bool:
    return type(value) is datetime and value.tzinfo is None and not value.fold


_BASIC: dict[BasicType, ArrowForm | None] = {
    BasicType.STRING: _exactly(pa.large_string(), str),
    BasicType.CHAR: _exactly(pa.large_string(), str),
    BasicType.BYTE: _integer(pa.int8(), 8),
    BasicType.SHORT: _integer(pa.int16(), 16),
    BasicType.INT: _integer(pa.int32(), 32),
    BasicType.LONG: _integer(pa.int64(), 64),
    BasicType.FLOAT: _exactly(pa.float64(), float),
    BasicType.DOUBLE: _exactly(pa.float64(), float),
    BasicType.BOOLEAN: _exactly(pa.bool_(), bool),
    # No Arrow type holds every integer or every decimal: those that a 38-digit column cannot hold
    # exactly would be rare, but a mixed column helps nobody, so both stay pickled.
    BasicType.BIG_INT: None,
    BasicType.BIG_DEC: None,
    BasicType.INSTANT: None,
}
IMMUTABLE_TYPES: frozenset[type] = frozenset(
    {int, float, str, bytes, bool, complex, type(None), date, datetime, time, Decimal}
)


def _fits_or_none(form: ArrowForm) -> Callable[[Any], bool]:
    fits = form.fits
    return lambda value: value is None or fits(value)


def _list_form(type_info: ListTypeInfo) -> ArrowForm | None:
    element = arrow_form(type_info.elem_type)
    if element is None:
        return None
    fits, plain, back = _fits_or_none(element), _nullable(element.plain), _nullable(element.back)
    return ArrowForm(
        pa.large_list(element.arrow_type),
        (list, tuple),
        lambda value: type(value) is list and all(map(fits, value)),
        lambda value: list(map(plain, value)),
        lambda value: list(map(back, value)),
        immutable=False,
    )


def _map_form(type_info: MapTypeInfo) -> ArrowForm | None:
    key, value = arrow_form(type_info.key_type), arrow_form(type_info.value_type)
    if key is None or value is None:
        return None
    value_fits, plain, back = _fits_or_none(value), _nullable(value.plain), _nullable(value.back)
    key_fits, key_plain, key_back = key.fits, key.plain, key.back
    return ArrowForm(
        pa.map_(key.arrow_type, value.arrow_type),
        (dict,),
        lambda entries: (
            type(entries) is dict and all(map(key_fits, entries)) and all(map(value_fits, entries.values()))
        ),
        lambda entries: [(key_plain(k), plain(v)) for k, v in entries.items()],
        lambda entries: {key_back(k): back(v) for k, v in entries},
        immutable=False,
    )


def _tuple_form(type_info: TupleTypeInfo) -> ArrowForm | None:
    forms = _forms(type_info.get_field_types())
    if not forms:
        return None
    names = [f"f{index}" for index in range(len(forms))]
    to_fields, to_values = _struct_conversions(names, forms)
    fits = [_fits_or_none(form) for form in forms]
    return ArrowForm(
        pa.struct([(name, form.arrow_type) for name, form in zip(names, forms, strict=True)]),
        (tuple,),
        lambda value: (
            type(value) is tuple
            and len(value) == len(fits)
            and all(check(field) for check, field in zip(fits, value, strict=True))
        ),
        to_fields,
        lambda struct: tuple(to_values(struct)),
        immutable=all(form.immutable for form in forms),
    )


def _row_form(type_info: RowTypeInfo) -> ArrowForm | None:
    forms = _forms(type_info.get_field_types())
    if not forms:
        return None
    names = type_info.get_field_names()
    row_fields = None if type_info._field_names is None else tuple(names)
    to_fields, to_values = _struct_conversions(names, forms)
    fits = [_fits_or_none(form) for form in forms]

    def row_fits(value: Any) -> bool:
        return (
            type(value) is Row
            and value._fields == row_fields
            and value.get_row_kind() is RowKind.INSERT
            and len(value) == len(fits)
            and all(check(field) for check, field in zip(fits, value, strict=True))
        )

    def row_back(struct: dict[str, Any]) -> Row:
        row = Row(*to_values(struct))
        if row_fields is not None:
            row.set_field_names(row_fields)
        return row

    fields = [(name, form.arrow_type) for name, form in zip(names, forms, strict=True)]
    return ArrowForm(pa.struct(fields), (Row, tuple), row_fits, to_fields, row_back, immutable=False)


def _forms(types: list[TypeInformation]) -> list[ArrowForm] | None:
    forms = [arrow_form(type_info) for type_info in types]
    return None if None in forms else [form for form in forms if form is not None]


def _nullable(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    if convert is _same:
        return _same
    return lambda value: None if value is None else convert(value)


def _struct_conversions(
    names: list[str], forms: list[ArrowForm]
) -> tuple[Callable[[Any], dict[str, Any]], Callable[[dict[str, Any]], list[Any]]]:
    plains = [_nullable(form.plain) for form in forms]
    backs = [_nullable(form.back) for form in forms]

    def to_fields(value: Any) -> dict[str, Any]:
        return {name: plain(field) for name, plain, field in zip(names, plains, value, strict=True)}

    def to_values(struct: dict[str, Any]) -> list[Any]:
        return [back(struct[name]) for name, back in zip(names, backs, strict=True)]

    return to_fields, to_values
