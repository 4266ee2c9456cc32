"""A Spark stage inside the barrier graph.

The stage gathers the records of an epoch and runs them through one Spark job before the barrier that
closes the epoch. So it holds nothing at a barrier and has no state: after a failure its records come
again, because they came after the checkpoint that is restored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from ..common import failpoints
from ..common.errors import TidegateError, UserCodeError
from ..common.types import Row
from ..operators.base import StreamOperator
from ..protocol.elements import Batch, CheckpointBarrier
from .exchange import arrow_schema_of, to_arrow, to_dataframe
from .failures import cause_of
from .java import require_java
from .session import SparkSessionLease, SparkSettings, session_host


class SparkStageOperator(StreamOperator):
    """Runs `function(DataFrame) -> DataFrame` once per epoch.

    Args:
        function: The user's function; it may use `df.sparkSession`.
        schema: Arrow schema of the result. Records leave as Arrow batches of it.
        input_schema: Arrow schema of the records that come in; without it, it is taken from Arrow
            batches, from the fields of rows and dicts, or inferred with columns `_1`, `_2`, …
        settings: How the session is started.
        max_epoch_records: An epoch that grows beyond this runs at once, without waiting for a
            barrier; it bounds the memory of the stage.
    """

    def __init__(
        self,
        function: Callable[[Any], Any],
        schema: pa.Schema,
        input_schema: pa.Schema | None,
        settings: SparkSettings,
        max_epoch_records: int,
    ) -> None:
        self._function = function
        self._schema = schema
        self._input_schema = input_schema
        self._settings = settings
        self._max_epoch_records = max_epoch_records
        self._gathered: list[pa.Table] = []
        self._gathered_records = 0
        self._lease: SparkSessionLease | None = None

    def validate(self) -> None:
        """Find a Java before anything starts; workers that this process starts inherit it."""
        require_java().use()

    def open(self) -> None:
        self._lease = session_host().acquire(self._settings)

    def is_ready(self) -> bool:
        """Not while there are records to run and the session still starts: the task stays responsive."""
        return self._gathered_records == 0 or self._lease is None or not self._lease.is_starting()

    def process_batch(self, batch: Batch, input_index: int) -> None:
        self._gathered.append(self._as_table(batch.values))
        self._gathered_records += len(batch)
        if self._gathered_records >= self._max_epoch_records:
            self._run_epoch()

    def advance_watermark(self, timestamp_ms: int) -> None:
        self._run_epoch()

    def prepare_snapshot(self, barrier: CheckpointBarrier) -> None:
        self._run_epoch()

    def finish(self) -> None:
        self._run_epoch()

    def close(self) -> None:
        if self._lease is not None:
            self._lease.release()
        super().close()

    def _run_epoch(self) -> None:
        if not self._gathered_records:
            return
        failpoints.reach("spark_stage")
        gathered, self._gathered, self._gathered_records = self._gathered, [], 0
        result = self._run(self._united(gathered))
        for batch in result.to_batches(max_chunksize=4_096):
            # A slice would drag its whole table along wherever it is pickled; a copy does not.
            self.emit(Batch(batch.take(pa.array(range(batch.num_rows), pa.int64()))))

    def _run(self, table: pa.Table) -> pa.Table:
        assert self._lease is not None
        session = self._lease.session()
        try:
            frame = self._function(to_dataframe(session, table))
            self._check_schema(frame)
            return to_arrow(frame, self._schema)
        except TidegateError:
            raise
        except Exception as error:
            raise UserCodeError(
                f"operator {self.context.name_with_subtask}: its Spark job failed on an epoch of "
                f"{table.num_rows} records: {cause_of(error)}"
            ) from error

    def _check_schema(self, frame: Any) -> None:
        from pyspark.sql import DataFrame

        if not isinstance(frame, DataFrame):
            raise UserCodeError(
                f"operator {self.context.name_with_subtask}: the stage's function returned "
                f"{type(frame).__name__}; return a Spark DataFrame"
            )
        found = arrow_schema_of(frame)
        if found.names != self._schema.names or not _types_fit(found, self._schema):
            raise UserCodeError(
                f"operator {self.context.name_with_subtask}: the stage was declared with the schema "
                f"{_text(self._schema)} but its function returned {_text(found)}; select and cast "
                f"the columns, or correct the declaration"
            )

    def _as_table(self, values: Any) -> pa.Table:
        try:
            if isinstance(values, pa.RecordBatch):
                table = pa.Table.from_batches([values])
                return table if self._input_schema is None else table.cast(self._input_schema)
            return pa.Table.from_pylist([self._as_dict(value) for value in values], self._input_schema)
        except (pa.ArrowException, TypeError, ValueError, KeyError) as error:
            raise UserCodeError(
                f"operator {self.context.name_with_subtask}: a record does not fit the stage's input "
                f"schema: {error}"
            ) from error

    def _united(self, tables: list[pa.Table]) -> pa.Table:
        """One table of an epoch's batches, whose inferred types may differ as far as one covers another."""
        try:
            return pa.concat_tables(tables, promote_options="permissive")
        except pa.ArrowException as error:
            raise UserCodeError(
                f"operator {self.context.name_with_subtask}: the records of an epoch do not have the same "
                f"types ({error}); declare an input_schema"
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


def _types_fit(found: pa.Schema, declared: pa.Schema) -> bool:
    """Whether every column can be cast without a guess: the same kind of type."""
    return all(
        left.equals(right)
        or (pa.types.is_timestamp(left) and pa.types.is_timestamp(right))
        or (pa.types.is_integer(left) and pa.types.is_integer(right))
        for left, right in zip(found.types, declared.types)
    )


def _text(schema: pa.Schema) -> str:
    return "(" + ", ".join(f"{field.name}: {field.type}" for field in schema) + ")"
