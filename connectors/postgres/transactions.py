"""Prepared transactions by name: whose they are, and what became of them."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Collection
from dataclasses import dataclass

import psycopg
from psycopg import sql

from ...common.errors import ConfigurationError
from ...operators.base import OperatorContext
from .connection import Connection
from .errors import PostgresConnectorError

logger = logging.getLogger(__name__)

LONGEST_PREFIX = 80
"""PostgreSQL takes names of 200 bytes; the rest of a name is shorter than 120."""


@dataclass(slots=True)
class PostgresTransaction:
    """What one subtask wrote in one epoch.

    Attributes:
        name: The global identifier, by which any session can commit it once it is prepared.
        xid: The server's number of it, known from when it is prepared: it tells later whether a transaction
            that is not there any more was committed.
    """

    name: str
    xid: str = ""


class TransactionNames:
    """Names of the transactions of one subtask.

        tidegate/<prefix>/<operator>/<job>/<attempt>/<subtask>/<number>

    Args:
        prefix: What the transactions of this sink begin with in whichever job; the job's id by default.
    """

    def __init__(self, context: OperatorContext, prefix: str | None) -> None:
        uid = hashlib.sha256(context.operator_uid.encode()).hexdigest()[:12]
        self._of_sink = f"tidegate/{prefix or context.job_id}/{uid}/"
        self._of_job = f"{self._of_sink}{context.job_id}/"
        self._job_id = str(context.job_id)
        self._attempt = int(context.attempt)
        self._subtask = context.subtask_index
        self._count = 0
        digest = hashlib.sha256(self._of_sink.encode()).hexdigest()[:12]
        self._sessions_of_sink = f"tidegate {digest} "
        self.application_name = f"{self._sessions_of_sink}{context.job_id} {self._attempt}"

    def next(self) -> str:
        """A name that was never used."""
        self._count += 1
        return f"{self._of_job}{self._attempt}/{self._subtask}/{self._count}"

    def end_earlier_attempts(self, connection: Connection, kept: Collection[str]) -> None:
        """Throw away what earlier attempts have open or prepared.

        A process that was only cut off, or a machine whose connections the server has not given up yet, would
        hold its locks against the rows that come again, and its transaction could be prepared late.

        Args:
            kept: Transactions that a checkpoint holds: some subtask commits them.
        """
        sessions = connection.execute(
            "SELECT pid, application_name FROM pg_stat_activity WHERE datname = current_database() "
            "AND usename = current_user AND starts_with(application_name, %s)",
            (self._sessions_of_sink,),
        ).fetchall()
        for pid, application_name in sessions:
            if self._is_earlier_session(application_name):
                logger.warning("ending the session of an earlier attempt of this sink (process %d)", pid)
                connection.execute("SELECT pg_terminate_backend(%s)", (pid,))
        prepared = connection.execute(
            "SELECT gid FROM pg_prepared_xacts WHERE database = current_database() AND starts_with(gid, %s)",
            (self._of_sink,),
        ).fetchall()
        for (name,) in prepared:
            if name not in kept and self._is_earlier(name):
                logger.info("rolling back transaction %s, which no checkpoint holds", name)
                roll_back(connection, name)

    def _is_earlier_session(self, application_name: str) -> bool:
        _, _, job, attempt = application_name.split(" ")
        return job != self._job_id or int(attempt) < self._attempt

    def _is_earlier(self, name: str) -> bool:
        """Whether it is of an earlier attempt; another job with the same prefix is over."""
        if not name.startswith(self._of_job):
            return True
        return int(name[len(self._of_job) :].split("/")[0]) < self._attempt


def check_prefix(prefix: str | None) -> None:
    """Raise `ConfigurationError` if names cannot begin so."""
    if prefix is not None and (not prefix or "/" in prefix or len(prefix.encode()) > LONGEST_PREFIX):
        raise ConfigurationError(
            f"transaction_prefix is {prefix!r:.100}; it has 1 to {LONGEST_PREFIX} bytes, and no slash"
        )


def prepare(connection: Connection, transaction: PostgresTransaction) -> None:
    """Make the open transaction durable, under its name."""
    row = connection.execute("SELECT pg_current_xact_id()::text").fetchone()
    assert row is not None
    transaction.xid = row[0]
    connection.execute(_statement("PREPARE TRANSACTION {}", transaction.name))


def commit(connection: Connection, transaction: PostgresTransaction, where: str) -> None:
    """Commit a prepared transaction; nothing happens if that was done before.

    Raises:
        PostgresConnectorError: Somebody rolled it back.
    """
    try:
        connection.execute(_statement("COMMIT PREPARED {}", transaction.name))
    except psycopg.errors.UndefinedObject as error:
        row = connection.execute("SELECT pg_xact_status(%s::xid8)", (transaction.xid,)).fetchone()
        status = None if row is None else row[0]
        # The server forgets what became of very old transactions; those were committed long ago.
        if status not in ("committed", None):
            raise PostgresConnectorError(
                f"{where}: transaction {transaction.name} is not prepared any more and was not committed "
                f"(the server says: {status}). Somebody rolled it back, or this is another server than the "
                f"one that the checkpoint was taken with: its records are missing. Restore an older "
                f"checkpoint, or write them again"
            ) from error


def roll_back(connection: Connection, name: str) -> None:
    """Roll a prepared transaction back, if it is there."""
    try:
        connection.execute(_statement("ROLLBACK PREPARED {}", name))
    except psycopg.errors.UndefinedObject:
        return


def _statement(text: str, name: str) -> sql.Composed:
    return sql.SQL(text).format(sql.Literal(name))
