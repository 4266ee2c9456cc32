"""A Spark stage inside the barrier graph.

The stage gathers the records of an epoch and runs them through one Spark job before the barrier that
closes the epoch. So it holds nothing at a barrier and has no state: after a failure its records come
again, because they came after the checkpoint that is restored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from ..common import failpoints
from ..common.errors import ConfigurationError, TidegateError, UserCodeError
from ..operators.base import OperatorContext, StreamOperator
from ..operators.output import Output
from ..operators.processing_time import TimerHandle
from ..protocol.elements import MAX_WATERMARK_MS, Batch, CheckpointBarrier, Watermark, WatermarkStatus
from .epoch_trace import traced_epoch
from .epochs import EpochBuffer
from .exchange import arrow_schema_of, to_arrow, to_dataframe
from .failures import cause_of
from .java import require_java
from .session import SparkSessionLease, SparkSettings, session_host

EPOCH = "epoch"
"""The name of an epoch's records in the query of `SparkQuery`."""


@dataclass(frozen=True)
class StageSettings:
    """How one stage runs.

    Attributes:
        session: How the session of the job is started.
        input_schema: Arrow schema of the records that come in; without it, it is taken from Arrow
            batches, from the fields of rows and dicts, or inferred with columns `_1`, `_2`, …
        max_epoch_records: An epoch that grows beyond this runs at once, without waiting for a
            barrier; it bounds the memory of the stage.
        interval_ms: Run an epoch so long after its first record, and let watermarks wait for that; `None`:
            every watermark ends an epoch.
        configs: Settings of Spark SQL for this stage alone.
    """

    session: SparkSettings
    input_schema: pa.Schema | None
    max_epoch_records: int
    interval_ms: int | None = None
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class SparkQuery:
    """A stage's function that is a query: the epoch's records are `{epoch}` in it."""

    query: str

    def __call__(self, frame: Any) -> Any:
        return frame.sparkSession.sql(self.query, **{EPOCH: frame})


class SparkStageOperator(StreamOperator):
    """Runs `function(DataFrame) -> DataFrame` once per epoch.

    Args:
        function: The user's function; it may use `df.sparkSession`.
        schema: Arrow schema of the result. Records leave as Arrow batches of it.
        settings: How the stage runs.
    """

    def __init__(self, function: Callable[[Any], Any], schema: pa.Schema, settings: StageSettings) -> None:
        self._function = function
        self._schema = schema
        self._settings = settings
        self._lease: SparkSessionLease | None = None
        self._own_session: Any = None
        self._alarm: TimerHandle | None = None
        self._held_watermark_ms: int | None = None
        self._gathered: EpochBuffer

    def validate(self) -> None:
        """Find a Java before anything starts; workers that this process starts inherit it."""
        require_java().use()

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._gathered = EpochBuffer(f"operator {context.name_with_subtask}", self._settings.input_schema)

    def open(self) -> None:
        self._lease = session_host().acquire(self._settings.session)

    def is_ready(self) -> bool:
        """Not while there are records to run and the session still starts: the task stays responsive."""
        return self._gathered.records == 0 or not self._is_starting()

    def process_batch(self, batch: Batch, input_index: int) -> None:
        self._gathered.add(batch.values)
        if self._gathered.records >= self._settings.max_epoch_records:
            self._run_epoch()
        elif self._alarm is None and self._settings.interval_ms is not None:
            self._alarm = self._run_after(self._settings.interval_ms)

    def _run_after(self, interval_ms: int) -> TimerHandle:
        clock = self.context.processing_time
        return clock.call_at(clock.now_ms() + interval_ms, self._interval_is_over)

    def _interval_is_over(self) -> None:
        if self._is_starting():
            # Waiting for the session here would keep the task from everything else.
            self._alarm = self._run_after(self._settings.interval_ms or 0)
        else:
            self._run_epoch()

    def _take_changes(self, changes: list[Watermark | WatermarkStatus]) -> None:
        for change in changes:
            if isinstance(change, Watermark) and self._may_wait(change):
                self._held_watermark_ms = change.timestamp_ms
            else:
                self._run_epoch()
                super()._take_changes([change])

    def _may_wait(self, watermark: Watermark) -> bool:
        """Whether there are records that a watermark must not overtake, and the time to wait for them."""
        is_last = watermark.timestamp_ms == MAX_WATERMARK_MS
        return self._settings.interval_ms is not None and self._gathered.records > 0 and not is_last

    def prepare_snapshot(self, barrier: CheckpointBarrier) -> None:
        self._run_epoch()

    def finish(self) -> None:
        self._run_epoch()

    def close(self) -> None:
        if self._lease is not None:
            self._lease.release()
        super().close()

    def _is_starting(self) -> bool:
        return self._lease is not None and self._lease.is_starting()

    def _run_epoch(self) -> None:
        alarm, self._alarm = self._alarm, None
        if alarm is not None:
            alarm.cancel()
        if self._gathered.records:
            failpoints.reach("spark_stage")
            result = self._run(self._gathered.take())
            for batch in result.to_batches(max_chunksize=4_096):
                # A slice would drag its whole table along wherever it is pickled; a copy does not.
                self.emit(Batch(batch.take(pa.array(range(batch.num_rows), pa.int64()))))
        held, self._held_watermark_ms = self._held_watermark_ms, None
        if held is not None:
            self.output.emit_watermark(held)

    def _run(self, table: pa.Table) -> pa.Table:
        assert self._lease is not None
        # Waits for the session, which has to be there to find out whether it is lost.
        self._lease.session()
        try:
            with self._lease.losses(f"operator {self.context.name_with_subtask}"):
                return self._run_in(self._session(), table)
        except TidegateError:
            raise
        except Exception as error:
            raise UserCodeError(
                f"operator {self.context.name_with_subtask}: its Spark job failed on an epoch of "
                f"{table.num_rows} records: {cause_of(error)}"
            ) from error

    def _run_in(self, session: Any, table: pa.Table) -> pa.Table:
        with traced_epoch(session, self.context, table.num_rows):
            frame = self._function(to_dataframe(session, table))
            self._check_schema(frame)
            return to_arrow(frame, self._schema)

    def _session(self) -> Any:
        assert self._lease is not None
        session = self._lease.session()
        if not self._settings.configs:
            return session
        if self._own_session is None:
            self._own_session = self._configured(session.newSession())
        return self._own_session

    def _configured(self, session: Any) -> Any:
        for key, value in self._settings.configs.items():
            try:
                session.conf.set(key, value)
            except Exception as error:
                raise ConfigurationError(
                    f"operator {self.context.name_with_subtask}: {key} cannot be set for one stage: "
                    f"{cause_of(error)}. Only settings of Spark SQL can; the others are those of the "
                    f"session: tidegate.spark.conf"
                ) from error
        return session

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
