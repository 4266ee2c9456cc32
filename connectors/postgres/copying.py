"""COPY into a table over several batches, so that the server works while the next batch is made."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any, TypeAlias

import psycopg
import pyarrow as pa
from psycopg import sql

from ...common.errors import UserCodeError
from .connection import Connection
from .encoding import RecordEncoder
from .errors import reason_of
from .table import Target

COPY_BYTES = 4 << 20
"""A COPY ends when it has so much: till then its records are kept, to show the one that does not fit."""


_SENT_ROWS = 8_192
"""Arrow batches are long: the server gets the first rows while the others are encoded."""

_Records: TypeAlias = "Sequence[Any] | pa.RecordBatch"


class CopyStream:
    """Records on their way into a table, in the transaction that is open on a connection.

    The server's complaints come when a COPY ends: in the `add` that fills it up, or in `end`.

    Args:
        where: The operator and subtask, for errors.
        into: The table, if it is not the one that the target describes, but one with the same columns.
    """

    def __init__(
        self, target: Target, connection: Connection, where: str, into: sql.Composable | None = None
    ) -> None:
        self._target = target
        self._connection = connection
        self._where = where
        self._statement = target.copy_statement(into)
        self._encoder = RecordEncoder(target, connection, where)
        self._open = ExitStack()
        self._copy: psycopg.Copy | None = None
        self._sent: list[tuple[_Records, int]] = []
        self._sent_bytes = 0

    def add_rows(self, values: Sequence[Any]) -> None:
        """Add records.

        Raises:
            UserCodeError: One does not fit the table; the message shows it.
        """
        if values:
            self._add(values, self._encode(values))

    def add_columns(self, batch: pa.RecordBatch) -> None:
        """Add the records of an Arrow batch, as `add_rows` does."""
        for first in range(0, batch.num_rows, _SENT_ROWS):
            part = batch.slice(first, _SENT_ROWS)
            self._add(part, self._encode(part))

    def _encode(self, records: _Records) -> bytes:
        if isinstance(records, pa.RecordBatch):
            return self._encoder.columns(records)
        return self._encoder.rows(records)

    def _add(self, records: _Records, data: bytes) -> None:
        if self._copy is None:
            self._copy = self._open.enter_context(self._connection.cursor().copy(self._statement))
            # The server counts line ends within texts only once it has seen one that ends a line.
            self._copy.write(b"\n")
        # Texts may have line ends too, so there may be more lines than records.
        self._sent.append((records, data.count(b"\n")))
        self._sent_bytes += len(data)
        self._copy.write(data)
        if self._sent_bytes >= COPY_BYTES:
            self.end()

    def end(self) -> None:
        """Wait until the server has taken everything.

        Raises:
            UserCodeError: A record does not fit the table; the message shows it.
        """
        try:
            self._open.close()
        except (psycopg.DataError, psycopg.IntegrityError) as error:
            raise self._misfit(error) from error
        finally:
            self._copy = None
            self._sent = []
            self._sent_bytes = 0

    def abandon(self) -> None:
        """Let go of everything; the connection is closed afterwards, and cannot be used again."""
        self._connection.close()
        try:
            self._open.close()
        except psycopg.Error:
            # The COPY ends with its connection, and nobody wants what was in it.
            return

    def _misfit(self, error: psycopg.Error) -> UserCodeError:
        record = self._at_line(_line_of(error))
        return self._target.misfit(self._where, record, reason_of(error))

    def _at_line(self, line: int) -> Any:
        """The record that ends with a line, or behind it; the first line is 1."""
        for records, lines in self._sent:
            if line <= lines:
                return self._within(records, line)
            line -= lines
        return "of a batch"

    def _within(self, records: _Records, line: int) -> Any:
        place = 0
        while line > 0:
            line -= self._encode(records[place : place + 1]).count(b"\n")
            place += 1
        found = records[place - 1 : place]
        return found.to_pylist()[0] if isinstance(found, pa.RecordBatch) else found[0]


def copy_all(
    target: Target,
    connection: Connection,
    values: Sequence[Any],
    where: str,
    into: sql.Composable | None = None,
) -> None:
    """Add records, and wait until the server has taken them; arguments and errors as of `CopyStream`."""
    copying = CopyStream(target, connection, where, into)
    copying.add_rows(values)
    copying.end()


def _line_of(error: psycopg.Error) -> int:
    """The line in an error's context (`COPY t, line 3, column c`), without the header.

    One behind all others if it tells none.
    """
    _, found, rest = (error.diag.context or "").partition("line ")
    number = rest.partition(",")[0].partition(":")[0].strip()
    return int(number) - 1 if found and number.isdecimal() else sys.maxsize
