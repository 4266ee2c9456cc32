"""Sinks that write in transactions of their own: at least once, or one row per key."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import sql

from ...common.errors import ConfigurationError, UserCodeError
from ...operators.base import OperatorContext
from ...operators.columnar.arrow_records import record_fields
from ...operators.sinks import Sink, SinkWriter
from ...operators.timers.processing_time import TimerHandle
from .connection import Connection, Database, Session
from .copying import copy_all
from .errors import postgres_errors
from .table import Target, adapt_documents, names_of

_STAGE = sql.Identifier("pg_temp", "tidegate_upsert")


@dataclass(frozen=True, slots=True)
class _Flushing:
    """How a writer flushes."""

    database: Database
    table: str
    columns: tuple[str, ...] | None
    batch_rows: int
    flush_interval_ms: int


class _FlushingSink(Sink):
    def __init__(
        self,
        conninfo: str,
        table: str,
        columns: Sequence[str] | None = None,
        *,
        batch_rows: int = 5_000,
        flush_interval_ms: int = 1_000,
        retry_timeout_s: float = 60.0,
    ) -> None:
        if batch_rows < 1 or flush_interval_ms < 1:
            raise ConfigurationError(
                f"the sink of table {table}: batch_rows and flush_interval_ms start at 1"
            )
        chosen = None if columns is None else tuple(columns)
        self._flushing = _Flushing(
            Database(conninfo, retry_timeout_s), table, chosen, batch_rows, flush_interval_ms
        )

    def validate(self) -> None:
        with self._flushing.database.check() as connection:
            self.check(connection, Target.find(connection, self._flushing.table, self._flushing.columns))

    def check(self, connection: Connection, target: Target) -> None:
        """Raise `ConfigurationError` if the table does not do."""


class PostgresAppendSink(_FlushingSink):
    """Appends records to a table, each at least once: after a failure some are there twice.

    It needs no prepared transactions, and rows are visible at once. What was taken is in the table before a
    checkpoint is complete. When the server goes away, the batch at hand is tried again.

    Args:
        conninfo: As libpq takes it: `host=… dbname=…` or `postgresql://…`.
        table: `table` or `schema.table`, as it is in the catalog.
        columns: Columns in the order of the records' fields; all that can be written if not given. Dicts and
            rows with field names are matched by name.
        batch_rows: A transaction is committed when it has so many rows.
        flush_interval_ms: Or when its first row is so old.
        retry_timeout_s: How long a task tries to reach a server that does not answer.
    """

    def create_writer(self) -> SinkWriter:
        return _AppendingWriter(self._flushing)


class PostgresUpsertSink(_FlushingSink):
    """Keeps the last record of each key in a table: `INSERT … ON CONFLICT … DO UPDATE`.

    Writing a record again changes nothing, so after a failure the table comes to the same rows: effectively
    once for each key. Until the job has caught up with where it was, a row may go back to an older record.
    When the server goes away, the batch at hand is tried again. Records of a key must come from one subtask,
    so key the stream by it, or their order is lost.

    Args:
        conninfo: As libpq takes it: `host=… dbname=…` or `postgresql://…`.
        table: `table` or `schema.table`, as it is in the catalog.
        keys: Columns of the key; the table needs a unique index on exactly these.
        columns: Columns in the order of the records' fields; all that can be written if not given. Dicts and
            rows with field names are matched by name.
        batch_rows: Rows are written when there are so many keys.
        flush_interval_ms: Or when the first is so old.
        retry_timeout_s: How long a task tries to reach a server that does not answer.
    """

    def __init__(
        self,
        conninfo: str,
        table: str,
        keys: Sequence[str],
        columns: Sequence[str] | None = None,
        *,
        batch_rows: int = 5_000,
        flush_interval_ms: int = 1_000,
        retry_timeout_s: float = 60.0,
    ) -> None:
        super().__init__(
            conninfo,
            table,
            columns,
            batch_rows=batch_rows,
            flush_interval_ms=flush_interval_ms,
            retry_timeout_s=retry_timeout_s,
        )
        self._keys = (keys,) if isinstance(keys, str) else tuple(keys)
        if not self._keys or (columns is not None and not set(self._keys) <= set(columns)):
            raise ConfigurationError(
                f"the upsert sink of table {table} has the keys ({', '.join(self._keys)}); it needs one at "
                f"least, and all of them among its columns"
            )

    def check(self, connection: Connection, target: Target) -> None:
        target.check_unique(connection, self._keys)

    def create_writer(self) -> SinkWriter:
        return _UpsertingWriter(self._flushing, self._keys)


class _FlushingWriter(SinkWriter):
    """Gathers rows, and writes them in one transaction when it is time."""

    def __init__(self, flushing: _Flushing) -> None:
        self._flushing = flushing
        self._timer: TimerHandle | None = None

    def open(self, context: OperatorContext) -> None:
        self._where = f"operator {context.name_with_subtask}"
        self._action = f"writing table {self._flushing.table}"
        self._processing_time = context.processing_time
        self._session = Session(self._flushing.database, self._where, "tidegate")
        with postgres_errors(self._where, f"connecting to the {self._flushing.database}"):
            self._target = self._session.retrying(
                "connecting",
                lambda connection: Target.find(connection, self._flushing.table, self._flushing.columns),
            )

    def write_batch(self, values: list[Any]) -> None:
        for first in range(0, len(values), self._flushing.batch_rows):
            if self.gather(values[first : first + self._flushing.batch_rows]) >= self._flushing.batch_rows:
                self._flush()
        if self._timer is None and self.gather([]):
            due_ms = self._processing_time.now_ms() + self._flushing.flush_interval_ms
            self._timer = self._processing_time.call_at(due_ms, self._flush)

    def prepare_commit(self) -> list[Any]:
        self._flush()
        return []

    def _flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.gather([]):
            with postgres_errors(self._where, self._action):
                self._session.retrying(self._action, _in_transaction(self.write_gathered))
            self.forget()

    @abstractmethod
    def gather(self, values: list[Any]) -> int:
        """Add some records to what is to be written; how many rows that is now."""

    @abstractmethod
    def write_gathered(self, connection: Connection) -> None:
        """Write them, in a transaction that is open; called again if that was lost."""

    @abstractmethod
    def forget(self) -> None:
        """They are written."""

    def close(self) -> None:
        self._session.close()


class _AppendingWriter(_FlushingWriter):
    def __init__(self, flushing: _Flushing) -> None:
        super().__init__(flushing)
        self._values: list[Any] = []

    def gather(self, values: list[Any]) -> int:
        self._values += values
        return len(self._values)

    def write_gathered(self, connection: Connection) -> None:
        copy_all(self._target, connection, self._values, self._where)

    def forget(self) -> None:
        self._values = []


class _UpsertingWriter(_FlushingWriter):
    def __init__(self, flushing: _Flushing, keys: tuple[str, ...]) -> None:
        super().__init__(flushing)
        self._keys = keys
        self._rows: dict[Any, Any] = {}

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._positions = [self._target.columns.index(key) for key in self._keys]
        columns = self._target.columns
        others = [column for column in columns if column not in self._keys]
        updates = sql.SQL(", ").join(
            sql.SQL("{0} = EXCLUDED.{0}").format(sql.Identifier(column)) for column in others
        )
        # By key, so that two sinks that write the same rows seldom wait for each other in a circle.
        self._upsert = sql.SQL(
            "INSERT INTO {table} ({columns}) SELECT {columns} FROM {stage} ORDER BY {keys} "
            "ON CONFLICT ({keys}) DO {action}"
        ).format(
            table=self._target.identifier,
            columns=names_of(columns),
            stage=_STAGE,
            keys=names_of(self._keys),
            action=sql.SQL("UPDATE SET {}").format(updates) if others else sql.SQL("NOTHING"),
        )

    def gather(self, values: list[Any]) -> int:
        columns, positions, rows = self._target.columns, self._positions, self._rows
        for value in values:
            try:
                fields = value if type(value) is tuple else record_fields(value, columns)
                key = tuple([fields[position] for position in positions])
                # The last record of a key stands for it: one statement cannot touch a row twice.
                rows[key] = value
            except (TypeError, ValueError, IndexError) as error:
                raise UserCodeError(
                    f"{self._where}: the record {value!r:.300} does not fit table {self._target.name}: "
                    f"{error}"
                ) from error
        return len(rows)

    def write_gathered(self, connection: Connection) -> None:
        # Without constraints and defaults: it only takes the rows to where INSERT finds them.
        connection.execute(
            sql.SQL("CREATE TEMPORARY TABLE {} ON COMMIT DROP AS SELECT {} FROM {} WITH NO DATA").format(
                sql.Identifier("tidegate_upsert"), names_of(self._target.columns), self._target.identifier
            )
        )
        copy_all(self._target, connection, list(self._rows.values()), self._where, _STAGE)
        connection.execute(self._upsert)

    def forget(self) -> None:
        self._rows = {}


def _in_transaction(write: Callable[[Connection], None]) -> Callable[[Connection], None]:
    def run(connection: Connection) -> None:
        adapt_documents(connection)
        with connection.transaction():
            write(connection)

    return run
