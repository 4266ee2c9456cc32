"""The table that a sink writes to: its columns, and what it must fulfil."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import sql
from psycopg.types.json import JsonbDumper

from ...common.errors import ConfigurationError, UserCodeError
from .connection import Connection

_COLUMNS = """
    SELECT attname, attnotnull AND NOT atthasdef AND attidentity = '',
    attgenerated <> '' OR attidentity = 'a', atttypid::int
    FROM pg_attribute WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped ORDER BY attnum"""

_UNIQUE_KEYS = """
    SELECT array_agg(attname::text) FROM pg_index
    JOIN pg_attribute ON attrelid = indrelid AND attnum = ANY (indkey)
    WHERE indrelid = %s AND indisunique AND indpred IS NULL AND indexprs IS NULL GROUP BY indexrelid"""


@dataclass(frozen=True, slots=True)
class Target:
    """A table, and the columns that are written.

    Attributes:
        name: `table` or `schema.table`, as it is in the catalog.
        columns: In the order of the records' fields.
        kinds: The server's ids of their types.
    """

    name: str
    columns: tuple[str, ...]
    kinds: tuple[int, ...]

    @staticmethod
    def find(connection: Connection, name: str, columns: Sequence[str] | None) -> Target:
        """Look the table up, and see whether records with these columns can be inserted.

        Args:
            columns: `None` for all that can be written.

        Raises:
            ConfigurationError: The table or a column is missing, or one that needs a value is left out.
        """
        oid = _oid(connection, name)
        known = connection.execute(_COLUMNS, (oid,)).fetchall()
        writable = [column for column, _, is_generated, _ in known if not is_generated]
        chosen = writable if columns is None else list(columns)
        wrong = [column for column in chosen if column not in writable]
        if wrong:
            raise ConfigurationError(
                f"table {name} has no column {', '.join(wrong)} that can be written; it has "
                f"{', '.join(writable)}"
            )
        left_out = [column for column, is_needed, _, _ in known if is_needed and column not in chosen]
        if left_out:
            raise ConfigurationError(
                f"the sink of table {name} leaves out {', '.join(left_out)}, which must not be null and has "
                f"no default; add it to columns, or give it a default"
            )
        kinds = {column: kind for column, _, _, kind in known}
        return Target(name, tuple(chosen), tuple(kinds[column] for column in chosen))

    @property
    def identifier(self) -> sql.Composed:
        """The name, quoted."""
        return _identifier(self.name)

    def check_unique(self, connection: Connection, keys: Sequence[str]) -> None:
        """See whether rows of one key can be told: there must be a unique index on exactly these columns.

        Raises:
            ConfigurationError: There is none.
        """
        found = [
            tuple(names) for (names,) in connection.execute(_UNIQUE_KEYS, (_oid(connection, self.name),))
        ]
        if not any(set(names) == set(keys) for names in found):
            known = " or ".join(f"({', '.join(names)})" for names in found) or "none"
            raise ConfigurationError(
                f"table {self.name} has no unique index on exactly ({', '.join(keys)}), which an upsert "
                f"needs; its unique indexes: {known}"
            )

    def missing_in(self, names: Sequence[str]) -> list[str]:
        """The columns that are not among these."""
        return [column for column in self.columns if column not in names]

    def copy_statement(self, into: sql.Composable | None = None) -> sql.Composed:
        """`COPY … FROM STDIN` for the columns, as CSV behind a line that is passed over.

        Args:
            into: Another table with these columns.
        """
        return sql.SQL("COPY {} ({}) FROM STDIN (FORMAT csv, HEADER)").format(
            self.identifier if into is None else into, names_of(self.columns)
        )

    def misfit(self, where: str, record: Any, reason: str) -> UserCodeError:
        """The error that shows a record which does not fit.

        Args:
            where: The operator and subtask.
        """
        return UserCodeError(f"{where}: the record {record!r:.300} does not fit table {self.name}: {reason}")


def adapt_documents(connection: Connection) -> None:
    """Let dicts be written to json and jsonb columns."""
    connection.adapters.register_dumper(dict, JsonbDumper)


def names_of(columns: Sequence[str]) -> sql.Composed:
    """Column names, quoted, with commas."""
    return sql.SQL(", ").join(map(sql.Identifier, columns))


def _identifier(name: str) -> sql.Composed:
    return sql.SQL(".").join(map(sql.Identifier, name.split(".", 1)))


def _oid(connection: Connection, name: str) -> int:
    row = connection.execute(
        "SELECT to_regclass(%s)::oid", (_identifier(name).as_string(connection),)
    ).fetchone()
    if row is None or row[0] is None:
        raise ConfigurationError(
            f"there is no table {name} in database {connection.info.dbname}; create it, or correct its name "
            f"(names are taken as they are in the catalog, without quotes)"
        )
    oid: int = row[0]
    return oid
