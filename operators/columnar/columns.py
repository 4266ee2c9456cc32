"""Arrow batches between operators: what they must look like, and the timestamps beside them."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ...common.errors import ConfigurationError, UserCodeError
from ...protocol.elements import Batch, ColumnBatch
from .arrow_records import records_to_batch

Int64s = npt.NDArray[np.int64]


def schema_text(schema: pa.Schema) -> str:
    """A schema on one line, for errors."""
    return f"({', '.join(f'{field.name}: {field.type}' for field in schema)})"


def checked_schema(schema: Any, where: str) -> pa.Schema:
    """The schema a user declared.

    Raises:
        ConfigurationError: It is no Arrow schema, has no columns, or has two of one name.
    """
    if not isinstance(schema, pa.Schema):
        raise ConfigurationError(
            f"{where} takes a pyarrow.Schema, not {type(schema).__name__}; for example "
            f"pyarrow.schema({{'key': pyarrow.int64(), 'value': pyarrow.float64()}})"
        )
    if not len(schema) or len(set(schema.names)) < len(schema):
        raise ConfigurationError(
            f"{where}: the schema {schema_text(schema)} must have columns, and each its own name"
        )
    return schema


def same_columns(left: pa.Schema, right: pa.Schema) -> bool:
    """Whether two schemas have the same names and types in the same order; nullability is the values' own."""
    return bool(left.names == right.names and left.types == right.types)


def as_columns(batch: Batch, schema: pa.Schema | None, where: str) -> pa.RecordBatch:
    """The records of a batch as an Arrow batch.

    Args:
        schema: What they must be; None takes Arrow batches as they are, and nothing else.
        where: The operator and subtask, for errors.

    Raises:
        UserCodeError: The batch has other columns, or holds Python objects that do not fit.
    """
    values = batch.values
    if isinstance(batch, ColumnBatch):
        if schema is not None and not same_columns(values.schema, schema):
            raise UserCodeError(
                f"{where}: wants batches with the columns {schema_text(schema)}, but got "
                f"{schema_text(values.schema)}; map_batches() before it can select and cast the columns"
            )
        return values
    if schema is None:
        raise UserCodeError(
            f"{where}: works on Arrow batches, but got Python records such as {_first(values)}; call "
            f"to_columns(schema) before it"
        )
    return records_to_batch(values, schema, where)


def timestamps_of(batch: Batch) -> Int64s | None:
    """The event times of a batch as an array; None when it has none."""
    times = batch.timestamps
    if times is None:
        return None
    if isinstance(times, array):
        return np.frombuffer(times, dtype=np.int64)
    return np.asarray(times, dtype=np.int64)


def as_timestamps(times: Int64s | None) -> Sequence[int] | None:
    """Event times as a batch carries them: compact, and Python integers for whoever reads them one by one."""
    return None if times is None else array("q", times.astype(np.int64, copy=False).tobytes())


def _first(values: Sequence[Any]) -> str:
    return f"{values[0]!r:.200}" if len(values) else "none"
