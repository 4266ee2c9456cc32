"""Forms of values with parts: lists, maps, tuples and rows. Columns are built part by part."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable
from itertools import chain
from operator import attrgetter
from typing import Any

import numpy as np
import pyarrow as pa

from ...common.type_system.plain_conversion import value_text
from ...common.types import Row, RowKind, fields_in_order
from .value_layouts import LIST_LIKE, ValueLayout, checked, nullable, same

_NONE = type(None)


class ListLayout(ValueLayout):
    """A list; with `with_none` False (an array of a primitive type) no element may be None."""

    immutable = False

    def __init__(self, element: ValueLayout, with_none: bool = True) -> None:
        self.arrow_type = pa.large_list(element.arrow_type)
        self._element = element
        self._with_none = with_none
        plain, back = nullable(element.plain), nullable(element.back)
        if plain is not same:
            self.plain = lambda value: list(map(plain, value))
        if back is not same:
            self.back = lambda value: list(map(back, value))

    def are_exact(self, values: Collection[Any]) -> bool:
        if not {list, _NONE}.issuperset(map(type, values)):
            return False
        elements = list(chain.from_iterable(filter(None, values)))
        return self._element.are_exact(elements) and (self._with_none or None not in elements)

    def refusal(self, value: Any) -> str | None:
        if type(value) not in LIST_LIKE:
            return value_text(value)
        for index, element in enumerate(value):
            if element is None and not self._with_none:
                return f"None as element {index}"
            reason = part_refusal(self._element, element)
            if reason is not None and isinstance(value, list | tuple):
                return f"{reason} as element {index}"
        return None

    def to_encoded(self, value: Any) -> Any:
        return _elementwise(value, nullable(self._element.to_encoded))

    def from_encoded(self, data: Any) -> Any:
        if type(data) not in LIST_LIKE:
            return checked(self, data)
        return _elementwise(data, nullable(self._element.from_encoded))

    def column(self, plains: list[Any]) -> pa.Array:
        elements = self._element.column(list(chain.from_iterable(filter(None, plains))))
        return pa.LargeListArray.from_arrays(_offsets(plains, np.int64), elements)

    def plains(self, column: pa.Array) -> list[Any]:
        start, bounds = _bounds(column)
        elements = self._element.plains(column.values.slice(start, bounds[-1] if bounds else 0))
        return [
            elements[low:high] if is_valid else None
            for low, high, is_valid in zip(bounds, bounds[1:], _validity(column))
        ]


class MapLayout(ValueLayout):
    """A dict. No key may be None: Arrow's map columns have no null keys."""

    immutable = False

    def __init__(self, key: ValueLayout, value: ValueLayout) -> None:
        self.arrow_type = pa.map_(key.arrow_type, value.arrow_type)
        self._key = key
        self._value = value
        key_plain, key_back = key.plain, key.back
        plain, back = nullable(value.plain), nullable(value.back)
        if not key_plain is plain is same:
            self.plain = lambda entries: {key_plain(k): plain(v) for k, v in entries.items()}
        if not key_back is back is same:
            self.back = lambda entries: {key_back(k): back(v) for k, v in entries.items()}

    def are_exact(self, values: Collection[Any]) -> bool:
        if not {dict, _NONE}.issuperset(map(type, values)):
            return False
        filled = list(filter(None, values))
        keys = list(chain.from_iterable(filled))
        if None in keys or not self._key.are_exact(keys):
            return False
        return self._value.are_exact(list(chain.from_iterable(map(dict.values, filled))))

    def refusal(self, value: Any) -> str | None:
        if type(value) is not dict:
            return value_text(value)
        for key, entry in value.items():
            reason = part_refusal(self._key, key)
            if reason is not None:
                return f"{reason} as a key"
            reason = part_refusal(self._value, entry)
            if reason is not None:
                return f"{reason} under the key {key!r:.50}"
        return None

    def to_encoded(self, value: Any) -> Any:
        key, entry = nullable(self._key.to_encoded), nullable(self._value.to_encoded)
        return {key(k): entry(v) for k, v in value.items()}

    def from_encoded(self, data: Any) -> Any:
        if type(data) is not dict:
            return checked(self, data)
        key, entry = nullable(self._key.from_encoded), nullable(self._value.from_encoded)
        return {key(k): entry(v) for k, v in data.items()}

    def column(self, plains: list[Any]) -> pa.Array:
        filled = list(filter(None, plains))
        keys = self._key.column(list(chain.from_iterable(filled)))
        values = self._value.column(list(chain.from_iterable(map(dict.values, filled))))
        return pa.MapArray.from_arrays(_offsets(plains, np.int32), keys, values)

    def plains(self, column: pa.Array) -> list[Any]:
        start, bounds = _bounds(column)
        length = bounds[-1] if bounds else 0
        keys = self._key.plains(column.keys.slice(start, length))
        values = self._value.plains(column.items.slice(start, length))
        return [
            dict(zip(keys[low:high], values[low:high])) if is_valid else None
            for low, high, is_valid in zip(bounds, bounds[1:], _validity(column))
        ]


class StructLayout(ValueLayout):
    """Values with a fixed number of fields. Its plain form is a sequence of the fields' plain forms.

    Args:
        get: gives the fields of an exact value, as a sequence.
        make: makes a value of a sequence of its fields.
    """

    def __init__(
        self,
        names: list[str],
        fields: list[ValueLayout],
        get: Callable[[Any], Any],
        make: Callable[[Any], Any],
    ) -> None:
        self.arrow_type = pa.struct(
            [(name, layout.arrow_type) for name, layout in zip(names, fields, strict=True)]
        )
        self._names = names
        self._fields = fields
        self._get = get
        plains, backs = [nullable(f.plain) for f in fields], [nullable(f.back) for f in fields]
        if all(plain is same for plain in plains):
            self.plain = get
        else:
            self.plain = lambda value: [plain(part) for plain, part in zip(plains, get(value))]
        if all(back is same for back in backs):
            self.back = make
        else:
            self.back = lambda parts: make([back(part) for back, part in zip(backs, parts)])

    def are_exact(self, values: Collection[Any]) -> bool:
        present = [value for value in values if value is not None]
        if not present:
            return True
        if not self.are_whole(present):
            return False
        try:
            columns = list(zip(*map(self._get, present), strict=True))
        except AttributeError:
            # An attribute was deleted from an instance.
            return False
        return all(layout.are_exact(column) for layout, column in zip(self._fields, columns, strict=True))

    @abstractmethod
    def are_whole(self, values: list[Any]) -> bool:
        """Whether `get` gives all there is of every value."""

    @abstractmethod
    def parts(self, value: Any) -> Iterable[Any] | None:
        """The fields of a value that may not be exact; None when it is of a wrong type."""

    def refusal(self, value: Any) -> str | None:
        parts = self.parts(value)
        if parts is None:
            return value_text(value)
        for name, layout, part in zip(self._names, self._fields, parts):
            reason = part_refusal(layout, part)
            if reason is not None:
                return f"{reason} in field {name}"
        return None

    def of_fields(self, parts: Iterable[Any], method: str) -> list[Any]:
        """The parts of a value, each as a method of the form of its field gives it."""
        return [
            None if part is None else getattr(layout, method)(part)
            for layout, part in zip(self._fields, parts)
        ]

    def column(self, plains: list[Any]) -> pa.Array:
        mask = None
        if None in plains:
            mask = pa.array([plain is None for plain in plains])
            empty = (None,) * len(self._fields)
            plains = [empty if plain is None else plain for plain in plains]
        columns = zip(*plains, strict=True) if plains else [()] * len(self._fields)
        arrays = [layout.column(list(part)) for layout, part in zip(self._fields, columns, strict=True)]
        return pa.StructArray.from_arrays(arrays, names=self._names, mask=mask)

    def plains(self, column: pa.Array) -> list[Any]:
        parts = [layout.plains(column.field(index)) for index, layout in enumerate(self._fields)]
        rows: list[Any] = list(zip(*parts, strict=True))
        if column.null_count:
            rows = [row if is_valid else None for row, is_valid in zip(rows, _validity(column))]
        return rows


class TupleLayout(StructLayout):
    """A tuple of fixed length."""

    def __init__(self, fields: list[ValueLayout]) -> None:
        super().__init__([f"f{index}" for index in range(len(fields))], fields, same, tuple)
        self.immutable = all(layout.immutable for layout in fields)
        if all(layout.plain is same for layout in fields):
            self.plain = same

    def are_whole(self, values: list[Any]) -> bool:
        return set(map(type, values)) == {tuple} and set(map(len, values)) == {len(self._fields)}

    def parts(self, value: Any) -> Iterable[Any] | None:
        return value if type(value) is tuple and len(value) == len(self._fields) else None

    def to_encoded(self, value: Any) -> Any:
        return tuple(self.of_fields(value, "to_encoded"))

    def from_encoded(self, data: Any) -> Any:
        if self.parts(data) is None:
            return checked(self, data)
        return tuple(self.of_fields(data, "from_encoded"))


class RowLayout(StructLayout):
    """A `Row`, with or without field names.

    A row without names, with the names in another order, or of another kind than INSERT is not wrong,
    but it is encoded by itself, because it must come back as it was.
    """

    immutable = False

    def __init__(
        self, row_fields: tuple[str, ...] | None, names: list[str], fields: list[ValueLayout]
    ) -> None:
        self._row_fields = row_fields

        def make(parts: Any) -> Row:
            row = Row.__new__(Row)
            row._values = list(parts)
            row._fields = row_fields
            row._row_kind = RowKind.INSERT
            return row

        super().__init__(names, fields, attrgetter("_values"), make)

    def are_whole(self, values: list[Any]) -> bool:
        # count() compares by identity first, so it runs in C for what is nearly always the same object.
        return (
            set(map(type, values)) == {Row}
            and set(map(len, values)) == {len(self._fields)}
            and list(map(attrgetter("_fields"), values)).count(self._row_fields) == len(values)
            and list(map(attrgetter("_row_kind"), values)).count(RowKind.INSERT) == len(values)
        )

    def parts(self, value: Any) -> Iterable[Any] | None:
        if not (type(value) is Row or type(value) is tuple) or len(value) != len(self._fields):
            return None
        return fields_in_order(value, self._row_fields) if isinstance(value, Row) else value

    def to_encoded(self, value: Any) -> Any:
        return self._each(value, "to_encoded")

    def from_encoded(self, data: Any) -> Any:
        return checked(self, data) if self.parts(data) is None else self._each(data, "from_encoded")

    def _each(self, value: Any, method: str) -> Any:
        """A row of the same kind with the same names in the same order, or a tuple."""
        if type(value) is tuple:
            return tuple(self.of_fields(value, method))
        names = value._fields
        if names is None or self._row_fields is None:
            row = Row(*self.of_fields(value._values, method))
        else:
            layouts = dict(zip(self._names, self._fields))
            row = Row(
                *(
                    getattr(layouts[name], method)(part) if name in layouts and part is not None else part
                    for name, part in zip(names, value._values)
                )
            )
        row.set_row_kind(value.get_row_kind())
        if names is not None:
            row.set_field_names(list(names))
        return row


def _elementwise(values: Any, convert: Callable[[Any], Any]) -> Any:
    """A list of the same kind; an array of numbers has nothing to convert."""
    if type(values) in (list, tuple):
        return type(values)(map(convert, values))
    if not (isinstance(values, np.ndarray) and values.dtype.kind == "O"):
        return values
    converted = np.empty(values.size, object)
    for index, value in enumerate(values.ravel()):
        converted[index] = convert(value)
    return converted.reshape(values.shape)


def part_refusal(layout: ValueLayout, part: Any) -> str | None:
    """Why a part of a value is of a wrong type; None when it is not."""
    if part is None or layout.are_exact([part]):
        return None
    return layout.refusal(part)


def _offsets(plains: list[Any], dtype: Any) -> pa.Array:
    """Offsets of lists of these lengths; null where the list is None."""
    offsets = np.zeros(len(plains) + 1, dtype=np.int64)
    np.cumsum([0 if plain is None else len(plain) for plain in plains], out=offsets[1:])
    mask = None
    if None in plains:
        mask = np.array([*(plain is None for plain in plains), False])
    if offsets[-1] > np.iinfo(dtype).max:
        raise OverflowError(f"{offsets[-1]} elements in one column")
    return pa.array(offsets.astype(dtype), mask=mask)


def _bounds(column: pa.Array) -> tuple[int, list[int]]:
    """Where the elements of a list column start, and the bounds of each list from there."""
    if len(column) == 0:
        return 0, []
    offsets = column.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
    start = int(offsets[0])
    return start, (offsets - start).tolist()


def _validity(column: pa.Array) -> list[bool]:
    validity: list[bool] = column.is_valid().to_pylist()
    return validity
