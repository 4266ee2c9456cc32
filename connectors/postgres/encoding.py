"""Records as the CSV text that COPY reads, made a column at a time.

Arrow writes whole columns of plain numbers and texts without touching Python objects again. Every other value
becomes text as psycopg would write it, so what arrives does not depend on which way was taken. Texts are
quoted and nulls are not: so COPY can tell an empty text from null.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.csv
from psycopg.adapt import PyFormat, Transformer

from ...common.errors import UserCodeError
from ...operators.columnar.arrow_records import record_fields
from .table import Target

_OPTIONS = pyarrow.csv.WriteOptions(include_header=False)
_FLOATS = frozenset((700, 701))
_BOOLEAN = 16


class RecordEncoder:
    """Encodes records for one table.

    Args:
        connection: Its adapters say how values become text.
        where: The operator and subtask, for errors.
    """

    def __init__(self, target: Target, connection: psycopg.Connection[Any], where: str) -> None:
        self._target = target
        self._where = where
        self._transformer = Transformer(connection)

    def rows(self, values: Sequence[Any]) -> bytes:
        """Tuples and lists by position, dicts and rows with field names by name.

        Raises:
            UserCodeError: A record does not fit the table; the message shows it.
        """
        width = len(self._target.columns)
        is_plain = set(map(type, values)) == {tuple} and set(map(len, values)) == {width}
        fields = values if is_plain else [self._fields(value) for value in values]
        # Not by zip(*fields): an iterator for each record keeps the garbage collector busy.
        columns = [
            self._column(list(map(itemgetter(place), fields)), kind, values)
            for place, kind in enumerate(self._target.kinds)
        ]
        return _csv(pa.RecordBatch.from_arrays(columns, list(self._target.columns)))

    def columns(self, batch: pa.RecordBatch) -> bytes:
        """An Arrow batch; its columns are matched by name.

        Raises:
            UserCodeError: A column is missing, or its type cannot be sent.
        """
        table, missing = self._target.name, self._target.missing_in(batch.schema.names)
        if missing:
            raise UserCodeError(
                f"{self._where}: the batches have no column {', '.join(missing)}, which the sink writes to "
                f"table {table}"
            )
        chosen = batch.select(list(self._target.columns))
        unfit = [f"{field.name}: {field.type}" for field in chosen.schema if _differs_in_csv(field.type)]
        if unfit:
            raise UserCodeError(
                f"{self._where}: {', '.join(unfit)} cannot be written to table {table} from an Arrow batch; "
                f"cast it, or pass records"
            )
        try:
            return _csv(chosen)
        except pa.ArrowException as error:
            named = ", ".join(f"{field.name}: {field.type}" for field in chosen.schema)
            raise UserCodeError(
                f"{self._where}: the columns ({named}) cannot be written to table {table} as they are: "
                f"{error}; cast them, or pass records"
            ) from error

    def _fields(self, value: Any) -> Sequence[Any]:
        columns = self._target.columns
        try:
            fields = record_fields(value, columns)
            if len(fields) != len(columns):
                raise ValueError(f"it has {len(fields)} fields, the sink writes {len(columns)} columns")
        except (TypeError, ValueError) as error:
            raise self._target.misfit(self._where, value, str(error)) from error
        return fields

    def _column(self, column: Sequence[Any], kind: int, values: Sequence[Any]) -> pa.Array:
        plain = _plain_type(set(map(type, column)), kind)
        if plain is not None:
            try:
                return pa.array(column, plain)
            except (pa.ArrowException, OverflowError, UnicodeError):
                # Arrow cannot hold it, a numeric column may. Else psycopg says what is wrong with it.
                pass
        return pa.array(self._as_text(column, values), pa.binary()).cast(pa.string())

    def _as_text(self, column: Sequence[Any], values: Sequence[Any]) -> list[bytes | None]:
        get_dumper = self._transformer.get_dumper
        texts: list[bytes | None] = []
        try:
            for value in column:
                dumped = None if value is None else get_dumper(value, PyFormat.TEXT).dump(value)
                texts.append(None if dumped is None else bytes(dumped))
        except (psycopg.Error, TypeError, ValueError) as error:
            raise self._target.misfit(self._where, values[len(texts)], str(error)) from error
        return texts


def _plain_type(types: set[type], kind: int) -> pa.DataType | None:
    """The Arrow type whose text is the one that psycopg writes for values of these types."""
    types.discard(type(None))
    if types <= {str}:
        return pa.string()
    if types == {int}:
        return pa.int64()
    # In a column of texts or numerics `5.0` and `5`, or `true` and `t`, would differ.
    if types == {float} and kind in _FLOATS:
        return pa.float64()
    if types == {bool} and kind == _BOOLEAN:
        return pa.bool_()
    return None


def _csv(batch: pa.RecordBatch) -> bytes:
    data = pa.BufferOutputStream()
    pyarrow.csv.write_csv(batch, data, _OPTIONS)
    text: bytes = data.getvalue().to_pybytes()
    return text


def _differs_in_csv(kind: pa.DataType) -> bool:
    """Whether Arrow writes the type as a text that PostgreSQL would take for another value."""
    return bool(
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
        or pa.types.is_duration(kind)
    )
