"""The table that a sink writes to: its columns, what it must fulfil, and COPY into it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.csv
from psycopg import sql
from psycopg.types.json import JsonbDumper

from ...common.errors import ConfigurationError, UserCodeError
from ...operators.arrow_records import record_fields
from .connection import Connection
from .errors import reason_of

_COLUMNS = """
    SELECT attname, attnotnull AND NOT atthasdef AND attidentity = '', attgenerated <> '' OR attidentity = 'a'
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
    """

    name: str
    columns: tuple[str, ...]

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
        writable = [column for column, _, is_generated in known if not is_generated]
        chosen = writable if columns is None else list(columns)
        wrong = [column for column in chosen if column not in writable]
        if wrong:
            raise ConfigurationError(
                f"table {name} has no column {', '.join(wrong)} that can be written; it has "
                f"{', '.join(writable)}"
            )
        left_out = [column for column, is_needed, _ in known if is_needed and column not in chosen]
        if left_out:
            raise ConfigurationError(
                f"the sink of table {name} leaves out {', '.join(left_out)}, which must not be null and has "
                f"no default; add it to columns, or give it a default"
            )
        return Target(name, tuple(chosen))

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

    def copy_statement(self, options: str = "", into: sql.Composable | None = None) -> sql.Composed:
        """`COPY … FROM STDIN` for the columns."""
        return sql.SQL("COPY {} ({}) FROM STDIN {}").format(
            self.identifier if into is None else into, names_of(self.columns), sql.SQL(options)
        )

    def copy_rows(
        self, connection: Connection, values: Sequence[Any], where: str, into: sql.Composable | None = None
    ) -> None:
        """Add records: tuples and lists by position, dicts and rows with field names by name.

        Raises:
            UserCodeError: A record does not fit the table; the message shows it.
        """
        value: Any = None
        width = len(self.columns)
        is_plain = set(map(type, values)) == {tuple} and set(map(len, values)) == {width}
        try:
            with connection.cursor().copy(self.copy_statement(into=into)) as copy:
                write_row = copy.write_row
                if is_plain:
                    for value in values:
                        write_row(value)
                else:
                    for value in values:
                        fields = record_fields(value, self.columns)
                        if len(fields) != width:
                            raise ValueError(f"it has {len(fields)} fields, the sink writes {width} columns")
                        write_row(fields)
        except (psycopg.DataError, psycopg.IntegrityError) as error:
            # The server's own complaints come when the COPY ends, and tell the line.
            raise self._misfit(where, _at_line(error, values, value), reason_of(error)) from error
        except (psycopg.ProgrammingError, TypeError, ValueError) as error:
            if isinstance(error, psycopg.Error) and error.sqlstate is not None:
                raise
            raise self._misfit(where, value, str(error)) from error

    def copy_columns(self, connection: Connection, batch: pa.RecordBatch, where: str) -> None:
        """Add the records of an Arrow batch; its columns are matched by name.

        Raises:
            UserCodeError: A column is missing, its type cannot be sent, or a record does not fit.
        """
        data = _as_csv(batch, self.columns, self.name, where)
        try:
            with connection.cursor().copy(self.copy_statement("(FORMAT csv)")) as copy:
                copy.write(data)
        except (psycopg.DataError, psycopg.IntegrityError) as error:
            record = _at_line(error, batch.to_pylist(), "of a batch")
            raise self._misfit(where, record, reason_of(error)) from error

    def _misfit(self, where: str, record: Any, reason: str) -> UserCodeError:
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


def _as_csv(batch: pa.RecordBatch, columns: Sequence[str], table: str, where: str) -> bytes:
    missing = [column for column in columns if column not in batch.schema.names]
    if missing:
        raise UserCodeError(
            f"{where}: the batches have no column {', '.join(missing)}, which the sink writes to table "
            f"{table}"
        )
    chosen = batch.select(list(columns))
    unfit = [f"{field.name}: {field.type}" for field in chosen.schema if _differs_in_csv(field.type)]
    if unfit:
        raise UserCodeError(
            f"{where}: {', '.join(unfit)} cannot be written to table {table} from an Arrow batch; cast it, "
            f"or pass records"
        )
    data = pa.BufferOutputStream()
    try:
        # Texts are quoted and nulls are not: so COPY can tell an empty text from null.
        pyarrow.csv.write_csv(chosen, data, pyarrow.csv.WriteOptions(include_header=False))
    except pa.ArrowException as error:
        raise UserCodeError(
            f"{where}: the columns ({', '.join(f'{field.name}: {field.type}' for field in chosen.schema)}) "
            f"cannot be written to table {table} as they are: {error}; cast them, or pass records"
        ) from error
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


def _at_line(error: psycopg.Error, values: Sequence[Any], otherwise: Any) -> Any:
    """The record that a server's error is about, by the line in its context (`COPY t, line 3, column c`)."""
    context = error.diag.context or ""
    _, found, rest = context.partition("line ")
    number = rest.partition(",")[0].partition(":")[0].strip()
    if found and number.isdecimal() and 1 <= int(number) <= len(values):
        return values[int(number) - 1]
    return otherwise
