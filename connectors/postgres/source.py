"""A source of the rows of a query, cut into ranges of a key that are read in parallel.

A split is a range of keys and the last key that was read. Rows come in the order of the key from a
server-side cursor, so that memory is bounded by one fetch, and a restored reader asks for what lies behind.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import psycopg
from psycopg import sql

from ...common.errors import ConfigurationError
from ...operators.base import OperatorContext
from ...operators.sources.enumerators import Boundedness, SplitEnumerator, SplitEnumeratorContext
from ...operators.sources.sources import Source, SourceReader
from ...protocol.elements import Batch, RowBatch
from .connection import Connection, Database, Session
from .errors import PostgresConnectorError, postgres_errors, reason_of

_WHOLE_NUMBERS = (20, 21, 23)
"""The server's ids of bigint, smallint and integer."""


@dataclass(frozen=True, slots=True)
class KeyRange:
    """Rows with `first <= key < end`; `None` stands for no bound. Of these, those up to `done` are read."""

    first: Any
    end: Any
    done: Any = None


@dataclass(frozen=True, slots=True)
class _Query:
    """What is read, and how much at a time."""

    database: Database
    text: str
    key: str
    fetch_rows: int

    def select(self, what: str, condition: sql.Composable) -> sql.Composed:
        """`SELECT what` from the rows of the query."""
        return sql.SQL("SELECT {} FROM ({}) AS rows WHERE {}").format(
            sql.SQL(what).format(key=sql.Identifier(self.key)),
            sql.SQL(self.text),
            condition,
        )


class PostgresSource(Source):
    """Reads the rows of a query, each exactly once; records are tuples of its columns.

    The rows are cut into ranges of one column, which subtasks take one after the other. Order holds within a
    range. Each range is read in a transaction of its own, so rows that are added or changed meanwhile may be
    seen or not; rows that are not touched are read once, also after a failure.

    Args:
        conninfo: As libpq takes it: `host=… dbname=…` or `postgresql://…`.
        query: A table's name as SQL writes it, or a `SELECT` without `ORDER BY` and `LIMIT`.
        key: Column to cut and order by: best a primary key, since it should have an index and few rows of
            one value; it must not be null. Rows with equal keys are held in memory together.
        partitions: How many ranges; by default four a subtask.
        fetch_rows: Rows that are fetched at a time.
        retry_timeout_s: How long a task tries to reach a server that does not answer.
    """

    def __init__(
        self,
        conninfo: str,
        query: str,
        key: str,
        *,
        partitions: int | None = None,
        fetch_rows: int = 10_000,
        retry_timeout_s: float = 60.0,
    ) -> None:
        if fetch_rows < 1 or (partitions is not None and partitions < 1):
            raise ConfigurationError("the PostgreSQL source's partitions and fetch_rows start at 1")
        text = query.strip().rstrip(";")
        is_query = text.split(None, 1)[:1] and text.split(None, 1)[0].lower() in ("select", "with", "values")
        self._query = _Query(
            Database(conninfo, retry_timeout_s),
            text if is_query else f"SELECT * FROM {text}",
            key,
            fetch_rows,
        )
        self._partitions = partitions

    def get_boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED

    def validate(self) -> None:
        with self._query.database.check() as connection:
            try:
                connection.execute(self._query.select("{key}", sql.SQL("false")))
            except psycopg.Error as error:
                raise ConfigurationError(
                    f"the PostgreSQL source cannot read column {self._query.key} of ({self._query.text}): "
                    f"{reason_of(error)}"
                ) from error

    def create_enumerator(self, context: SplitEnumeratorContext) -> SplitEnumerator:
        return _RangeEnumerator(context, self._query, self._partitions, None)

    def restore_enumerator(self, context: SplitEnumeratorContext, checkpoint: Any) -> SplitEnumerator:
        return _RangeEnumerator(context, self._query, self._partitions, checkpoint)

    def create_reader(self, splits: list[Any]) -> SourceReader:
        return _RangeReader(self._query)


class _RangeEnumerator(SplitEnumerator):
    """Finds the ranges once, and hands one to each reader that asks.

    Its state is the ranges that nobody has, or `None` while they are not known.
    """

    def __init__(
        self,
        context: SplitEnumeratorContext,
        query: _Query,
        partitions: int | None,
        ranges: list[KeyRange] | None,
    ) -> None:
        self._context = context
        self._query = query
        self._partitions = partitions or 4 * context.current_parallelism()
        self._ranges = ranges
        self._returned: list[KeyRange] = []
        self._waiting: list[int] = []

    def start(self) -> None:
        if self._ranges is None:
            query, partitions = self._query, self._partitions
            self._context.call_async(lambda: _ranges(query, partitions), self._found)

    def _found(self, ranges: list[KeyRange] | None, error: BaseException | None) -> None:
        if error is not None:
            raise error
        self._ranges = ranges
        waiting, self._waiting = self._waiting, []
        for subtask_id in waiting:
            self.handle_split_request(subtask_id)

    def handle_split_request(self, subtask_id: int) -> None:
        if self._returned:
            self._context.assign_split(self._returned.pop(0), subtask_id)
        elif self._ranges is None:
            self._waiting.append(subtask_id)
        elif self._ranges:
            self._context.assign_split(self._ranges.pop(0), subtask_id)
        else:
            self._context.signal_no_more_splits(subtask_id)

    def add_splits_back(self, splits: list[Any], subtask_id: int) -> None:
        self._returned += splits

    def snapshot_state(self, checkpoint_id: int) -> Any:
        return None if self._ranges is None else [*self._returned, *self._ranges]


class _RangeReader(SourceReader):
    """Reads its ranges one after the other. A batch ends where a key does, so a position is a key."""

    def __init__(self, query: _Query) -> None:
        self._query = query
        self._splits: list[KeyRange] = []
        self._cursor: psycopg.ServerCursor[Any] | None = None
        self._held: list[Any] = []

    def open(self, context: OperatorContext) -> None:
        self._where = f"operator {context.name_with_subtask}"
        self._session = Session(self._query.database, self._where)

    def add_splits(self, splits: list[Any]) -> None:
        self._splits += splits

    def snapshot_state(self) -> list[Any]:
        return list(self._splits)

    def poll(self, max_records: int) -> Batch | None:
        if not self._splits:
            return None
        with postgres_errors(self._where, f"reading ({self._query.text})"):
            rows = self._session.retrying("reading", self._fetch)
        if len(rows) < self._query.fetch_rows:
            whole, self._held = self._held + rows, []
            self._close_cursor()
            self._splits.pop(0)
        else:
            whole = self._up_to_last_key(self._held + rows)
        # The first field is the key.
        return RowBatch([row[1:] for row in whole])

    def _fetch(self, connection: Connection) -> list[Any]:
        if self._cursor is None or self._cursor.connection is not connection:
            # What was held back lies behind the position, and comes again.
            self._held = []
            self._cursor = self._open_cursor(connection, self._splits[0])
        return self._cursor.fetchmany(self._query.fetch_rows)

    def _open_cursor(self, connection: Connection, split: KeyRange) -> psycopg.ServerCursor[Any]:
        key = sql.Identifier(self._query.key)
        bounds = [(">=", split.first), ("<", split.end), (">", split.done)]
        conditions = [
            sql.SQL("{} {} {}").format(key, sql.SQL(operator), sql.Literal(bound))
            for operator, bound in bounds
            if bound is not None
        ]
        condition = sql.SQL(" AND ").join(conditions) if conditions else sql.SQL("true")
        cursor = psycopg.ServerCursor(connection, "tidegate_rows", withhold=False)
        connection.execute("BEGIN TRANSACTION READ ONLY")
        ordered = sql.SQL("{} ORDER BY {}").format(self._query.select("{key}, *", condition), key)
        cursor.execute(ordered)
        return cursor

    def _up_to_last_key(self, rows: list[Any]) -> list[Any]:
        """All but the rows of the last key, of which there may be more; they are held back."""
        last = rows[-1][0]
        kept = len(rows)
        while kept and rows[kept - 1][0] == last:
            kept -= 1
        self._held = rows[kept:]
        if kept:
            self._splits[0] = replace(self._splits[0], done=rows[kept - 1][0])
        return rows[:kept]

    def _close_cursor(self) -> None:
        cursor, self._cursor = self._cursor, None
        if cursor is not None:
            cursor.connection.execute("ROLLBACK")

    def close(self) -> None:
        self._session.close()


def _ranges(query: _Query, partitions: int) -> list[KeyRange]:
    """Cut the keys of a query: numbers evenly between the least and the greatest, others by how many rows.

    Raises:
        PostgresConnectorError: The server does not answer, or some keys are null.
    """
    session = Session(query.database, "the PostgreSQL source")
    try:
        with postgres_errors("the PostgreSQL source", f"finding ranges of ({query.text})"):
            bounds = session.retrying(
                "finding ranges", lambda connection: _bounds(connection, query, partitions)
            )
    finally:
        session.close()
    # Open at both ends: rows may have been added since.
    return [KeyRange(first, end) for first, end in itertools.pairwise([None, *bounds, None])]


def _bounds(connection: Connection, query: _Query, partitions: int) -> Sequence[Any]:
    nulls = query.select("1", sql.SQL("{} IS NULL LIMIT 1").format(sql.Identifier(query.key)))
    if connection.execute(nulls).fetchone() is not None:
        raise PostgresConnectorError(
            f"column {query.key} of ({query.text}) has nulls, so its rows cannot be put into an order; leave "
            f"them out of the query (WHERE {query.key} IS NOT NULL), or take another column as key"
        )
    cursor = connection.execute(query.select("min({key}), max({key})", sql.SQL("true")))
    assert cursor.description is not None
    low, high = cursor.fetchone() or (None, None)
    if low is None or partitions == 1:
        return []
    if cursor.description[0].type_code in _WHOLE_NUMBERS:
        cuts = {low + (high - low + 1) * number // partitions for number in range(1, partitions)}
        return sorted(cuts - {low})
    shares = ", ".join(str(number / partitions) for number in range(1, partitions))
    by_rows = f"percentile_disc(ARRAY[{shares}]) WITHIN GROUP (ORDER BY {{key}})"
    row = connection.execute(query.select(by_rows, sql.SQL("true"))).fetchone()
    found: list[Any] = [] if row is None else row[0]
    # The order is the server's own: equal keys lie side by side.
    return [key for key, _ in itertools.groupby(found) if key != low]
