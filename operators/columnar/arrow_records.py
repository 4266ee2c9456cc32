"""Records of any accepted shape as Arrow batches of one schema."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from ...common.errors import UserCodeError
from ...common.types import Row


def records_to_batch(values: Sequence[Any], schema: pa.Schema, where: str) -> pa.RecordBatch:
    """Tuples, lists, dicts or rows as a batch.

    Args:
        values: The records. Dicts and rows with field names are matched by name, others by position.
        schema: What they must fit.
        where: The operator and subtask, for errors.

    Raises:
        UserCodeError: A record does not fit; the message shows the first that does not.
    """
    try:
        return _batch(values, schema)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        record, reason = _first_misfit(values, schema, error)
        raise UserCodeError(
            f"{where}: the record {record!r:.300} does not fit the schema "
            f"({', '.join(f'{field.name}: {field.type}' for field in schema)}): {reason}"
        ) from error


def _batch(values: Sequence[Any], schema: pa.Schema) -> pa.RecordBatch:
    names = schema.names
    # Most streams hold plain tuples; one that differs fails in `zip` or is sorted out below.
    fields = (
        values if set(map(type, values)) == {tuple} else [record_fields(value, names) for value in values]
    )
    columns = list(zip(*fields, strict=True))
    if len(columns) != len(names):
        raise ValueError(f"it has {len(columns)} fields, the schema {len(names)}")
    arrays = [_array(column, field) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(column: Sequence[Any], field: pa.Field) -> pa.Array:
    array = pa.array(column, field.type)
    if array.null_count and not field.nullable:
        raise ValueError(f"{field.name} must not be None")
    return array


def record_fields(value: Any, names: Sequence[str]) -> Sequence[Any]:
    """The fields of one record in the order of `names`.

    Raises:
        TypeError: It is no tuple, list, dict or row.
        ValueError: It has names, and they are others.
    """
    if isinstance(value, Row):
        value = _dict_or_tuple(value)
    if isinstance(value, dict):
        if value.keys() != set(names):
            raise ValueError(f"its fields are {sorted(value)}, those of the schema {sorted(names)}")
        return [value[name] for name in names]
    if isinstance(value, (tuple, list)):
        return value
    raise TypeError(f"it is a {type(value).__name__}; tuples, lists, dicts and rows fit a schema")


def _dict_or_tuple(row: Row) -> dict[str, Any] | tuple[Any, ...]:
    try:
        return row.as_dict()
    except TypeError:
        return tuple(row)


def _first_misfit(values: Sequence[Any], schema: pa.Schema, error: Exception) -> tuple[Any, Exception]:
    for value in values:
        try:
            _batch([value], schema)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as reason:
            return value, reason
    # Each fits alone, together they do not: more text than one Arrow array can hold.
    return values[0], error
