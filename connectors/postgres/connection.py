"""Connections that come back after the server was away."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import psycopg

from ...common.errors import ConfigurationError
from .errors import PostgresConnectorError, reason_of

logger = logging.getLogger(__name__)

Result = TypeVar("Result")
Connection = psycopg.Connection[Any]

RETRIED_STATES = frozenset({"40001", "40P01"})
"""The server rolled the transaction back for the sake of another one: the same again may succeed."""

_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 5.0


@dataclass(frozen=True)
class Database:
    """Where a server is, and who asks.

    Args:
        conninfo: As libpq takes it: `host=… dbname=…` or `postgresql://…`. A password is better left to
            `PGPASSWORD` or a password file of the workers than put here, since it travels with the job.
        retry_timeout_s: How long a task tries to reach a server that does not answer.
    """

    conninfo: str = field(repr=False)
    retry_timeout_s: float = 60.0

    def __post_init__(self) -> None:
        try:
            psycopg.conninfo.conninfo_to_dict(self.conninfo)
        except psycopg.Error as error:
            raise ConfigurationError(
                f"the connection string of PostgreSQL is malformed: {reason_of(error)}; write it as "
                f"'host=db dbname=orders user=job' or 'postgresql://job@db/orders'"
            ) from error
        if not self.retry_timeout_s >= 0:
            raise ConfigurationError(f"retry_timeout_s is {self.retry_timeout_s}; it is a number of seconds")

    def __str__(self) -> str:
        """Which database it is, without its password."""
        known = psycopg.conninfo.conninfo_to_dict(self.conninfo)
        host = known.get("host") or known.get("hostaddr") or "the default host"
        port = f":{known['port']}" if known.get("port") else ""
        return f"PostgreSQL database {known.get('dbname') or 'by default'} at {host}{port}"

    def connect(self, application_name: str = "tidegate") -> Connection:
        """One try to connect. Every statement is a transaction, unless `BEGIN` is executed.

        Args:
            application_name: What `pg_stat_activity` shows; at most 63 characters.
        """
        connection: Connection = psycopg.connect(
            self.conninfo,
            autocommit=True,
            connect_timeout=10,
            client_encoding="UTF8",
            application_name=application_name,
        )
        # A transaction of an epoch is idle while no records come.
        connection.execute("SET idle_in_transaction_session_timeout = 0")
        return connection

    def check(self) -> Connection:
        """Connect from the driver, before the job starts.

        Raises:
            ConfigurationError: The server is not there, or does not let the user in.
        """
        try:
            return self.connect()
        except psycopg.Error as error:
            raise ConfigurationError(f"cannot connect to the {self}: {reason_of(error)}") from error


class Session:
    """One connection of a subtask, opened when it is needed and again when it broke.

    Args:
        where: The operator and subtask, for errors.
    """

    def __init__(self, database: Database, where: str, application_name: str = "tidegate") -> None:
        self._database = database
        self._where = where
        self._application_name = application_name
        self._connection: Connection | None = None

    @property
    def is_broken(self) -> bool:
        """Whether there is no connection that could be used."""
        return self._connection is None or self._connection.closed

    def connection(self) -> Connection:
        """The connection; one try to open it if there is none."""
        if self._connection is None or self._connection.closed:
            self._connection = self._database.connect(self._application_name)
        return self._connection

    def retrying(self, action: str, work: Callable[[Connection], Result]) -> Result:
        """Do something that may be done twice, again and again until the server takes it.

        Args:
            action: What it is, for errors, as `writing table orders`.
            work: Leaves no transaction open. It is tried again when the connection broke, or the server
                chose it as the victim of a deadlock; every other error is passed on.

        Raises:
            PostgresConnectorError: The server did not answer for as long as the database's retry timeout.
        """
        deadline = time.monotonic() + self._database.retry_timeout_s
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                return work(self.connection())
            except psycopg.Error as error:
                if not (self.is_broken or error.sqlstate in RETRIED_STATES):
                    raise
                if time.monotonic() + pause_s > deadline:
                    raise PostgresConnectorError(
                        f"{self._where}: {action} failed for {self._database.retry_timeout_s:g} seconds, the "
                        f"last time because: {reason_of(error)}; see whether the {self._database} runs"
                    ) from error
                logger.warning(
                    "%s: %s failed (%s); trying again in %.1f s",
                    self._where, action, reason_of(error), pause_s,
                )  # fmt: skip
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def close(self) -> None:
        """Let go of the connection and of its open transaction."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
