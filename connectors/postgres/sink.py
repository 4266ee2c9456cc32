"""The exactly-once sink of a PostgreSQL table: an epoch is a transaction, prepared at the barrier.

Rows go into an open transaction by COPY. At a barrier `PREPARE TRANSACTION` makes them durable: they survive
a crash of the task and of the server, and nobody sees them. When the checkpoint is complete, `COMMIT
PREPARED` shows them. The scheme is that of XA and of Flink's JDBC sink.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg

from ...common.errors import ConfigurationError
from ...operators.base import OperatorContext
from ...operators.checkpointed import (
    CheckpointedFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
)
from ...operators.two_phase_commit import TwoPhaseCommitSink
from ...protocol.elements import Batch, ColumnBatch
from ...protocol.ids import CheckpointId
from ...state.descriptors import ListStateDescriptor
from .connection import Connection, Database, Session
from .copying import CopyStream
from .errors import postgres_errors
from .table import Target, adapt_documents
from .transactions import PostgresTransaction, TransactionNames, check_prefix, commit, prepare, roll_back


class PostgresSink(TwoPhaseCommitSink[PostgresTransaction], CheckpointedFunction):
    """Appends records to a table, each exactly once.

    The server must allow prepared transactions: `max_prepared_transactions` at least twice the parallelism
    of all such sinks. Rows are visible when the checkpoint that covers them is complete.

    Args:
        conninfo: As libpq takes it: `host=… dbname=…` or `postgresql://…`.
        table: `table` or `schema.table`, as it is in the catalog.
        columns: Columns in the order of the records' fields; all that can be written if not given. Dicts and
            rows with field names are matched by name, Arrow batches too.
        transaction_prefix: A name of your own for the sink's transactions. A job that starts from a
            checkpoint of a killed one then rolls back what that one left behind; no two jobs may run with
            the same at once. Without it only restarts of one job do so.
        retry_timeout_s: How long a task tries to reach a server that does not answer.
    """

    # With the doubling pauses this outlasts the restart of a server: some 25 seconds.
    commit_attempts = 9

    def __init__(
        self,
        conninfo: str,
        table: str,
        columns: Sequence[str] | None = None,
        *,
        transaction_prefix: str | None = None,
        retry_timeout_s: float = 60.0,
    ) -> None:
        check_prefix(transaction_prefix)
        self._database = Database(conninfo, retry_timeout_s)
        self._table = table
        self._columns = None if columns is None else tuple(columns)
        self._prefix = transaction_prefix

    def validate(self) -> None:
        super().validate()
        with self._database.check() as connection:
            Target.find(connection, self._table, self._columns)
            row = connection.execute("SHOW max_prepared_transactions").fetchone()
        if row is None or int(row[0]) == 0:
            raise ConfigurationError(
                f"the {self._database} has max_prepared_transactions = 0, so it cannot prepare transactions, "
                f"which the exactly-once sink needs; set it to twice the parallelism or more in "
                f"postgresql.conf and restart the server, or use PostgresUpsertSink or PostgresAppendSink"
            )

    def open(self, context: OperatorContext) -> None:
        self._where = f"operator {context.name_with_subtask}"
        self._action = f"writing table {self._table}"
        self._names = TransactionNames(context, self._prefix)
        # An open transaction occupies its session, so commits have another.
        self._writing = Session(self._database, self._where, self._names.application_name)
        self._committing = Session(self._database, self._where, self._names.application_name)
        self._begun: str | None = None
        self._copy: CopyStream | None = None
        self._prepared: dict[str, None] = {}
        # One subtask is enough, and the first is there at every parallelism.
        self._must_clean = context.subtask_index == 0
        with postgres_errors(self._where, f"connecting to the {self._database}"):
            self._target = self._committing.retrying(
                "connecting", lambda connection: Target.find(connection, self._table, self._columns)
            )

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        state = context.get_operator_state_store().get_union_list_state(
            ListStateDescriptor("_prepared_transactions", None)
        )
        # By now this subtask has committed its share of them, and others are committing theirs.
        kept = set(state.get())
        self._state = state
        if self._must_clean:
            self._end_earlier_attempts(kept)

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self._state.update(list(self._prepared))

    def begin_transaction(self) -> PostgresTransaction:
        """Name a transaction; the server hears of it with its first record."""
        return PostgresTransaction(self._names.next())

    def write(self, transaction: PostgresTransaction, values: list[Any]) -> None:
        with postgres_errors(self._where, self._action):
            self._copying(transaction).add_rows(values)

    def write_elements(self, transaction: PostgresTransaction, batch: Batch) -> None:
        if not isinstance(batch, ColumnBatch):
            self.write(transaction, batch.rows())
            return
        with postgres_errors(self._where, self._action):
            self._copying(transaction).add_columns(batch.values)

    def _copying(self, transaction: PostgresTransaction) -> CopyStream:
        if self._begun != transaction.name or self._copy is None:
            # Nothing is lost if the session broke while it was idle. Once there are rows in it, a broken one
            # fails the task, and they come again from the checkpoint.
            self._writing.retrying("beginning a transaction", _begin)
            self._begun = transaction.name
            self._copy = CopyStream(self._target, self._writing.connection(), self._where)
        if self._writing.is_broken:
            raise psycopg.OperationalError("the connection broke, and the open transaction with it")
        return self._copy

    def pre_commit(self, transaction: PostgresTransaction) -> None:
        with postgres_errors(self._where, self._action):
            self._copying(transaction).end()
        with postgres_errors(self._where, f"preparing transaction {transaction.name}"):
            prepare(self._writing.connection(), transaction)
        self._prepared[transaction.name] = None

    def commit(self, transaction: PostgresTransaction) -> None:
        with postgres_errors(self._where, f"committing transaction {transaction.name}"):
            commit(self._committing.connection(), transaction, self._where)
        self._prepared.pop(transaction.name, None)

    def abort(self, transaction: PostgresTransaction) -> None:
        self._let_go()

    def recover_and_abort(self, transaction: PostgresTransaction) -> None:
        """It may have been prepared for a checkpoint that was never complete."""
        with postgres_errors(self._where, f"rolling back transaction {transaction.name}"):
            roll_back(self._committing.connection(), transaction.name)

    def notify_committed(self, checkpoint_id: CheckpointId) -> None:
        if self._must_clean:
            # Once more: an earlier attempt that was cut off may have prepared one since.
            self._end_earlier_attempts(set())
            self._must_clean = False

    def _end_earlier_attempts(self, kept: set[str]) -> None:
        with postgres_errors(self._where, "rolling back transactions of earlier attempts"):
            self._committing.retrying(
                "rolling back transactions of earlier attempts",
                lambda connection: self._names.end_earlier_attempts(connection, kept),
            )

    def close(self) -> None:
        self._let_go()
        self._committing.close()

    def _let_go(self) -> None:
        copying, self._copy = self._copy, None
        if copying is not None:
            copying.abandon()
        self._writing.close()


def _begin(connection: Connection) -> None:
    adapt_documents(connection)
    connection.execute("BEGIN")
    # A COPY is one statement, and waits for the records of an epoch.
    connection.execute("SET LOCAL statement_timeout = 0")
