"""What can go wrong with PostgreSQL, as one clear error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from ...common.errors import TidegateError

_ADVICE = {
    "28000": "let the user in (pg_hba.conf)",
    "28P01": "correct the password",
    "3D000": "create the database, or correct its name",
    "42501": "grant the user of the job what is missing",
    "42703": "correct the columns of the connector, or add the column",
    "42P01": "create the table, or correct its name",
    "53100": "free some space on the server's disk; nothing that was committed is lost",
    "53200": "raise max_prepared_transactions on the server, and restart it",
    "53300": "raise max_connections on the server, or lower the parallelism",
}


class PostgresConnectorError(TidegateError):
    """PostgreSQL refused something, or could not be reached. The cause is chained."""


def reason_of(error: psycopg.Error) -> str:
    """What the server said, with its detail and hint, on one line."""
    said = error.diag.message_primary
    if said is None:
        return " ".join(str(error).split()) or type(error).__name__
    parts = [said, error.diag.message_detail, error.diag.message_hint, _ADVICE.get(error.sqlstate or "")]
    return "; ".join(part.rstrip(".") for part in parts if part)


@contextmanager
def postgres_errors(where: str, action: str) -> Iterator[None]:
    """Turn an error of psycopg inside into a `PostgresConnectorError`.

    Args:
        where: The operator and subtask, as `operator name (1/2)`.
        action: What is being done, as `writing table orders`.
    """
    try:
        yield
    except psycopg.Error as error:
        raise PostgresConnectorError(f"{where}: {action} failed: {reason_of(error)}") from error
