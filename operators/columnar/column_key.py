"""Keys that are a column: `key_by("column")`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ...common.errors import ConfigurationError, KeyTypeError, UserCodeError
from ...common.typeinfo import TypeInformation
from ...common.types import Row
from ...state.serializers.key_hashing import hash_int64, hash_keys, key_groups_of_hashes
from ..keyed.declared_keys import DeclaredKeys
from .columns import schema_text


class ColumnKey:
    """The key selector of `key_by("column")`.

    Args:
        column: Name of the column.
        schema: Columns of the stream, if they are known.
        declared: The type that `key_by()` declares, if any.

    Raises:
        ConfigurationError: There is no such column, or its type cannot be a key.
        KeyTypeError: Its type is not the declared one.
    """

    def __init__(
        self, column: str, schema: pa.Schema | None, declared: TypeInformation | None = None
    ) -> None:
        self.column = column
        self._declared = DeclaredKeys(declared)
        self._position: int | None = None
        if schema is not None:
            if column not in schema.names:
                raise ConfigurationError(
                    f"key_by({column!r}): there is no such column in {schema_text(schema)}"
                )
            self._position = schema.names.index(column)
            kind = schema.field(column).type
            _check_type(kind, f"key_by({column!r})", ConfigurationError)
            self._declared.check_column(kind, f"key_by({column!r})")

    def __call__(self, record: Any) -> Any:
        """The key of a record that is a Python object."""
        if isinstance(record, (dict, Row)):
            return record[self.column]
        if self._position is None:
            raise TypeError(
                f"a {type(record).__name__} has no field {self.column!r}; call to_columns(schema) before "
                f"key_by({self.column!r}), or give key_by() a function"
            )
        return record[self._position]

    def column_of(self, batch: pa.RecordBatch, where: str) -> pa.Array:
        """The key column of an Arrow batch.

        Raises:
            UserCodeError: The batch has no such column, or a key is null.
            KeyTypeError: The column's type cannot be a key, or is not the declared one.
        """
        if self.column not in batch.schema.names:
            raise UserCodeError(
                f"{where}: the key column {self.column!r} is missing in a batch with the columns "
                f"{schema_text(batch.schema)}"
            )
        column = batch.column(self.column)
        _check_type(column.type, f"{where}: key column {self.column!r}", KeyTypeError)
        self._declared.check_column(column.type, f"{where}: key column {self.column!r}")
        if column.null_count:
            raise UserCodeError(
                f"{where}: the key column {self.column!r} is null in {column.null_count} of "
                f"{len(column)} records; drop them before key_by(), for example with filter_batches()"
            )
        return column

    def keys_of(self, batch: pa.RecordBatch, where: str) -> list[Any]:
        """The keys of an Arrow batch as Python objects, one for each record; raises as `column_of`."""
        return _objects(self.column_of(batch, where))


@dataclass(frozen=True)
class DistinctKeys:
    """The keys of a batch.

    Attributes:
        keys: each key once, as Python objects, in the order of their first records.
        codes: for each record the index of its key in `keys`.
    """

    keys: list[Any]
    codes: npt.NDArray[np.int32]


def distinct_keys(column: pa.Array) -> DistinctKeys:
    """The distinct keys of a key column without nulls."""
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    keys = _objects(encoded.dictionary)
    if pa.types.is_dictionary(column.type):
        return _in_order_of_first(keys, codes)
    return DistinctKeys(keys, codes)


def key_groups_of_column(column: pa.Array, max_parallelism: int) -> npt.NDArray[np.uint16]:
    """The key groups of a key column without nulls; equal to those of its keys one by one.

    Integers are hashed as they lie in memory; of other types each distinct key of the batch is hashed once.
    """
    kind = column.type
    if pa.types.is_boolean(kind) or (pa.types.is_integer(kind) and not pa.types.is_uint64(kind)):
        numbers = column.cast(pa.int64()).to_numpy(zero_copy_only=False)
        return key_groups_of_hashes(hash_int64(numbers), max_parallelism)
    distinct = distinct_keys(column)
    if not distinct.keys:
        return np.zeros(0, np.uint16)
    return key_groups_of_hashes(hash_keys(distinct.keys), max_parallelism)[distinct.codes]


def _objects(column: pa.Array) -> list[Any]:
    if pa.types.is_integer(column.type):
        numbers: list[Any] = column.to_numpy(zero_copy_only=False).tolist()
        return numbers
    objects: list[Any] = column.to_pylist()
    return objects


def _in_order_of_first(keys: Sequence[Any], codes: npt.NDArray[Any]) -> DistinctKeys:
    """The dictionary of a column may hold what no record has, and may hold it twice."""
    numbers: dict[Any, int] = {}
    renumbered = np.zeros(len(keys), np.int32)
    used, first = np.unique(codes, return_index=True)
    for code in used[np.argsort(first)].tolist():
        renumbered[code] = numbers.setdefault(keys[code], len(numbers))
    return DistinctKeys(list(numbers), renumbered[codes])


def _check_type(kind: pa.DataType, where: str, error: type[Exception]) -> None:
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    fits = (
        pa.types.is_integer(plain)
        or pa.types.is_boolean(plain)
        or pa.types.is_string(plain)
        or pa.types.is_large_string(plain)
        or pa.types.is_binary(plain)
        or pa.types.is_large_binary(plain)
        or pa.types.is_date(plain)
        or (pa.types.is_timestamp(plain) and plain.unit != "ns")
    )
    if not fits:
        raise error(
            f"{where}: a column of type {kind} cannot be the key; use integers, bool, text, bytes, dates, or "
            f"timestamps of at most microseconds"
        )
