"""Operators whose function sees a whole Arrow batch, or a Polars frame, at a time."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ...common.errors import ConfigurationError, UserCodeError
from ...protocol.elements import Batch, ColumnBatch
from ..base import StreamOperator
from ..batch_selection import selected
from ..elementwise import FunctionOperator
from .columns import (
    Int64s,
    as_columns,
    as_timestamps,
    checked_schema,
    same_columns,
    schema_text,
    timestamps_of,
)

FORMATS = ("arrow", "polars")


class BatchFormat:
    """What a batch function sees and returns: `arrow` batches, or `polars` frames.

    Raises:
        ConfigurationError: It is neither, or Polars is not installed.
    """

    def __init__(self, name: str, where: str) -> None:
        if name not in FORMATS:
            raise ConfigurationError(f"{where}: batch_format is {name!r}; use one of {', '.join(FORMATS)}")
        if name == "polars" and importlib.util.find_spec("polars") is None:
            raise ConfigurationError(
                f'{where}: batch_format="polars" needs Polars; install it with '
                f"pip install 'tidegate[polars]', or use the format 'arrow'"
            )
        self.name = name

    def given(self, batch: pa.RecordBatch) -> Any:
        """What the function sees."""
        if self.name == "arrow":
            return batch
        import polars

        return polars.from_arrow(batch)

    def taken(self, result: Any, schema: pa.Schema, where: str) -> pa.RecordBatch:
        """What the function returned, as an Arrow batch of `schema`.

        Raises:
            UserCodeError: It is something else, or has other columns.
        """
        if self.name == "polars" and hasattr(result, "to_arrow"):
            # Polars has one type of text and of nested data: its own names for them do not count.
            result = _cast(result.to_arrow(), schema)
        if isinstance(result, pa.Table):
            batches = result.combine_chunks().to_batches()
            result = batches[0] if batches else pa.RecordBatch.from_pylist([], result.schema)
        if not isinstance(result, pa.RecordBatch):
            wanted = "a polars.DataFrame" if self.name == "polars" else "a pyarrow.RecordBatch or Table"
            raise UserCodeError(f"{where}: the function returned {type(result).__name__}; return {wanted}")
        if not same_columns(result.schema, schema):
            raise UserCodeError(
                f"{where}: declared with the schema {schema_text(schema)}, but the function returned "
                f"{schema_text(result.schema)}; select and cast the columns, or correct the declaration"
            )
        return result


class MapBatchesOperator(FunctionOperator):
    """An Arrow batch in, an Arrow batch out.

    Args:
        function: Takes a batch and returns one of `schema`; or an object with `map_batch`.
        schema: Columns of the results.
        input_schema: Columns of the records that come in, if they are known.
        batch_format: `arrow` or `polars`.
    """

    def __init__(
        self, function: Any, schema: pa.Schema, input_schema: pa.Schema | None, batch_format: str = "arrow"
    ) -> None:
        super().__init__(function, "map_batch")
        self._schema = checked_schema(schema, "map_batches()")
        self._input_schema = input_schema
        self._format = BatchFormat(batch_format, "map_batches()")

    def process_batch(self, batch: Batch, input_index: int) -> None:
        where = f"operator {self.context.name_with_subtask}"
        columns = as_columns(batch, self._input_schema, where)
        try:
            result = self._call(self._format.given(columns))
        except Exception as error:
            raise self.user_error("map_batches()", error) from error
        mapped = self._format.taken(result, self._schema, where)
        if batch.timestamps is not None and len(mapped) != len(columns):
            raise UserCodeError(
                f"{where}: the function made {len(mapped)} records of {len(columns)}, so their event times "
                f"are unknown; return as many, use filter_batches() to drop some, or assign timestamps "
                f"and watermarks after map_batches()"
            )
        if len(mapped):
            self.emit(ColumnBatch(mapped, batch.timestamps))


class FilterBatchesOperator(FunctionOperator):
    """Keeps the records of an Arrow batch that a mask names.

    Args:
        function: Takes a batch and returns as many booleans as it has records; null drops a record. Or an
            object with `filter_batch`.
        input_schema: Columns of the records that come in, if they are known.
        batch_format: `arrow` or `polars`.
    """

    def __init__(self, function: Any, input_schema: pa.Schema | None, batch_format: str = "arrow") -> None:
        super().__init__(function, "filter_batch")
        self._input_schema = input_schema
        self._format = BatchFormat(batch_format, "filter_batches()")

    def process_batch(self, batch: Batch, input_index: int) -> None:
        where = f"operator {self.context.name_with_subtask}"
        columns = as_columns(batch, self._input_schema, where)
        try:
            result = self._call(self._format.given(columns))
        except Exception as error:
            raise self.user_error("filter_batches()", error) from error
        rows = np.flatnonzero(_mask(result, len(columns), where))
        if len(rows) == len(columns):
            self.emit(ColumnBatch(columns, batch.timestamps))
        elif len(rows):
            self.emit(selected(ColumnBatch(columns, batch.timestamps), rows))


class ToColumnsOperator(StreamOperator):
    """Python records as Arrow batches.

    Args:
        schema: Tuples and lists are matched by position, dicts and rows with field names by name.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = checked_schema(schema, "to_columns()")

    def process_batch(self, batch: Batch, input_index: int) -> None:
        where = f"operator {self.context.name_with_subtask}"
        columns = as_columns(batch, self._schema, where)
        times: Int64s | None = timestamps_of(batch)
        self.emit(ColumnBatch(columns, as_timestamps(times)))


def _cast(table: pa.Table, schema: pa.Schema) -> pa.Table:
    if table.schema.names != schema.names:
        return table
    columns = []
    for column, field in zip(table.columns, schema, strict=True):
        alike = _family(column.type) == _family(field.type)
        columns.append(column.cast(field.type) if alike else column)
    return pa.table(columns, names=schema.names)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


_FAMILIES: tuple[tuple[str, Callable[[pa.DataType], bool]], ...] = (
    ("text", _is_text),
    ("bytes", _is_bytes),
    ("list", _is_list),
    ("timestamp", pa.types.is_timestamp),
)


def _family(kind: pa.DataType) -> Any:
    """Types that Polars does not tell apart have one name."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return next((name for name, holds in _FAMILIES if holds(kind)), kind)


def _mask(result: Any, length: int, where: str) -> npt.NDArray[np.bool_]:
    if hasattr(result, "to_arrow"):
        result = result.to_arrow()
    if isinstance(result, pa.ChunkedArray):
        result = result.combine_chunks()
    if not isinstance(result, pa.Array):
        result = _array(result, where)
    if not pa.types.is_boolean(result.type) or len(result) != length:
        raise UserCodeError(
            f"{where}: the function of filter_batches() returned {len(result)} values of type "
            f"{result.type} for {length} records; return one boolean for each"
        )
    mask: npt.NDArray[np.bool_] = result.fill_null(False).to_numpy(zero_copy_only=False)
    return mask


def _array(result: Any, where: str) -> pa.Array:
    try:
        return pa.array(result)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise UserCodeError(
            f"{where}: the function of filter_batches() returned {type(result).__name__}; return an array of "
            f"booleans, one for each record"
        ) from error
