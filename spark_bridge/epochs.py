"""The records of an epoch, gathered as Arrow tables."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from ..common.errors import UserCodeError
from ..common.types import Row
from ..protocol.elements import Batch, ColumnBatch


class RecordTables:
    """Makes Arrow tables of records.

    Args:
        where: Names the operator and its subtask in errors.
        input_schema: Arrow schema of the records; without it, it is taken from Arrow batches, from the fields
            of rows and dicts, or inferred with columns `_1`, `_2`, …
    """

    def __init__(self, where: str, input_schema: pa.Schema | None) -> None:
        self._where = where
        self._input_schema = input_schema

    def joined(self, tables: list[pa.Table]) -> pa.Table:
        """All records of an epoch.

        Raises:
            UserCodeError: Inferred types of its batches differ more than one can cover another.
        """
        try:
            return pa.concat_tables(tables, promote_options="permissive")
        except pa.ArrowException as error:
            raise UserCodeError(
                f"{self._where}: the records of an epoch do not have the same types ({error}); declare an "
                f"input_schema"
            ) from error

    def table(self, batch: Batch) -> pa.Table:
        """The records of a batch.

        Raises:
            UserCodeError: A record does not fit the schema.
        """
        try:
            if isinstance(batch, ColumnBatch):
                table = pa.Table.from_batches([batch.values])
                return table if self._input_schema is None else table.cast(self._input_schema)
            return pa.Table.from_pylist([self._as_dict(value) for value in batch.rows()], self._input_schema)
        except (pa.ArrowException, TypeError, ValueError, KeyError) as error:
            raise UserCodeError(
                f"{self._where}: a record does not fit the stage's input schema: {error}"
            ) from error

    def _as_dict(self, value: Any) -> dict[str, Any]:
        if isinstance(value, dict):
            return value
        if isinstance(value, Row) and getattr(value, "_fields", None):
            return value.as_dict()
        fields = value if isinstance(value, (tuple, list, Row)) else (value,)
        if self._input_schema is not None:
            return dict(zip(self._input_schema.names, fields, strict=True))
        return {f"_{number}": field for number, field in enumerate(fields, start=1)}


class EpochBuffer:
    """Gathers records until their epoch ends.

    Args:
        where: As for `RecordTables`, as is `input_schema`.
    """

    def __init__(self, where: str, input_schema: pa.Schema | None) -> None:
        self._records = RecordTables(where, input_schema)
        self._tables: list[pa.Table] = []
        self.records = 0

    def add(self, batch: Batch) -> None:
        """Take the records of a batch.

        Raises:
            UserCodeError: A record does not fit the schema.
        """
        table = self._records.table(batch)
        self._tables.append(table)
        self.records += table.num_rows

    def take(self) -> pa.Table:
        """All records of the epoch, which ends with that.

        Raises:
            UserCodeError: Inferred types of its batches differ more than one can cover another.
        """
        tables, self._tables, self.records = self._tables, [], 0
        return self._records.joined(tables)
