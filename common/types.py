"""Rows: values with several fields, by position or by name (names of `pyflink.common.types`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from operator import itemgetter
from typing import Any, overload

__all__ = ["Row", "RowKind"]


class RowKind(Enum):
    """What a row does to the table that its stream describes."""

    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3

    def __str__(self) -> str:
        return _SIGNS[self.value]


_SIGNS = ("+I", "-U", "+U", "-D")


class Row:
    """A value with a fixed number of fields.

    A row is built by position, by name, or from a row of names that is called like a class:

        >>> Row("a", 2)
        <Row('a', 2)>
        >>> Row(name="Alice", age=11)
        Row(name='Alice', age=11)
        >>> Person = Row("name", "age")
        >>> Person("Alice", 11)
        Row(name='Alice', age=11)

    Fields are read as `row[0]`, `row["name"]` or `row.name` and written as `row[0] = …` or
    `row["name"] = …`. A name that is also a method of `Row` is reached with brackets only.
    `x in row` looks through the names, or through the values of a row without names.

    Two rows with names are equal when every name has the same value, in whatever order.
    """

    __slots__ = ("_fields", "_row_kind", "_values")

    _fields: tuple[str, ...] | None
    _values: list[Any]
    _row_kind: RowKind

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args and kwargs:
            raise ValueError("a Row is built from positions or from names, not from both")
        if kwargs:
            self._fields = tuple(kwargs)
            self._values = list(kwargs.values())
        else:
            self._fields = None
            self._values = list(args)
        self._row_kind = RowKind.INSERT

    @staticmethod
    def of_kind(row_kind: RowKind, *args: Any, **kwargs: Any) -> Row:
        """Build a row of another kind than INSERT; see the class for the arguments."""
        row = Row(*args, **kwargs)
        row._row_kind = row_kind
        return row

    def __call__(self, *values: Any) -> Row:
        """Build a row whose field names are the values of this one.

        Args:
            values: the values, at most one per name.

        Returns:
            A new row of the same kind as this one.

        Raises:
            ValueError: there are more values than names.
        """
        if len(values) > len(self._values):
            raise ValueError(
                f"{self!r} names {len(self._values)} fields, got {len(values)} values: {values!r}"
            )
        return _restore_row(tuple(self._values), values, self._row_kind.value)

    def as_dict(self, recursive: bool = False) -> dict[str, Any]:
        """Return the fields as a dict.

        Args:
            recursive: turn rows inside this one (also in lists and dicts) into dicts as well.

        Returns:
            A new dict from field name to value.

        Raises:
            TypeError: the row has no field names.
        """
        if self._fields is None:
            raise TypeError(f"{self!r} has no field names; set them with set_field_names first")
        values = (_plain(value) for value in self._values) if recursive else self._values
        # Not strict: like PyFlink, a row of names may be called with fewer values.
        return dict(zip(self._fields, values, strict=False))

    def get_row_kind(self) -> RowKind:
        """Return what the row does to its table; INSERT unless set otherwise."""
        return self._row_kind

    def set_row_kind(self, row_kind: RowKind) -> None:
        """Set what the row does to its table."""
        self._row_kind = row_kind

    def set_field_names(self, field_names: Sequence[str]) -> None:
        """Name the fields, in order."""
        self._fields = tuple(field_names)

    def get_fields_by_names(self, names: Sequence[str]) -> list[Any]:
        """Return the values of some fields; all values where the row has no names.

        Raises:
            ValueError: the row has no field of one of the names.
        """
        if self._fields is None:
            return list(self._values)
        return [self._values[self._position(name)] for name in names]

    def _position(self, name: str) -> int:
        if self._fields is not None and name in self._fields:
            return self._fields.index(name)
        known = "it has no field names" if self._fields is None else f"it has {list(self._fields)}"
        raise ValueError(f"the row has no field {name!r}: {known}")

    @overload
    def __getitem__(self, item: int | str) -> Any: ...
    @overload
    def __getitem__(self, item: slice) -> list[Any]: ...
    def __getitem__(self, item: int | str | slice) -> Any:
        if isinstance(item, str):
            item = self._position(item)
        return self._values[item]

    def __setitem__(self, key: int | str, value: Any) -> None:
        if isinstance(key, str):
            key = self._position(key)
        self._values[key] = value

    def __getattr__(self, name: str) -> Any:
        # Reached only for what is neither a slot nor a method. Names with an underscore are refused
        # at once, for copy and pickle probe for them on instances whose slots are not set yet.
        if name.startswith("_") or self._fields is None or name not in self._fields:
            raise AttributeError(f"the row has no field {name!r}")
        return self._values[self._fields.index(name)]

    def __contains__(self, item: object) -> bool:
        return item in (self._values if self._fields is None else self._fields)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Row):
            return NotImplemented
        if self._row_kind is not other._row_kind:
            return False
        if self._fields == other._fields:
            return self._values == other._values
        if self._fields is None or other._fields is None or len(self) != len(other):
            return False
        return self.as_dict() == other.as_dict()

    def __hash__(self) -> int:
        if self._fields is None:
            return hash(tuple(self._values))
        # Equal rows may have their fields in different orders.
        by_name = sorted(zip(self._fields, self._values, strict=False), key=itemgetter(0))
        return hash(tuple(value for _, value in by_name))

    def __repr__(self) -> str:
        if self._fields is None:
            return f"<Row({', '.join(map(repr, self._values))})>"
        named = zip(self._fields, self._values, strict=False)
        return f"Row({', '.join(f'{name}={value!r}' for name, value in named)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore_row, (self._fields, tuple(self._values), self._row_kind.value)


def fields_in_order(row: Row, names: tuple[str, ...] | None) -> Sequence[Any] | None:
    """The fields of a row in the order of declared names.

    Args:
        names: the declared names; None where fields are found by position.

    Returns:
        The fields, by name where the row has names too, else by position; None if it has other names.
    """
    given = row._fields
    if given is None or names is None or given == names:
        return row._values
    return [row[name] for name in names] if set(given) == set(names) else None


def named_rows(names: tuple[str, ...], records: Iterable[Iterable[Any]]) -> list[Row]:
    """Rows of kind INSERT with these names, one for each record of values."""
    new = Row.__new__
    rows = []
    for record in records:
        row = new(Row)
        row._fields = names
        row._values = list(record)
        row._row_kind = RowKind.INSERT
        rows.append(row)
    return rows


def _restore_row(fields: tuple[str, ...] | None, values: Sequence[Any], row_kind: int) -> Row:
    row = Row(*values)
    row._fields = fields
    row._row_kind = RowKind(row_kind)
    return row


def _plain(value: Any) -> Any:
    """Turn a row into a dict, also inside lists and dicts."""
    if isinstance(value, Row):
        return value.as_dict(recursive=True)
    if isinstance(value, list):
        return [_plain(element) for element in value]
    if isinstance(value, dict):
        return {key: _plain(element) for key, element in value.items()}
    return value
