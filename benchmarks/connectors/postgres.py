"""Records written to PostgreSQL exactly once by a job, beside a bare COPY of the same records."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.csv
from tidegate.common import WatermarkStrategy
from tidegate.datastream import Source, SourceReader
from tidegate.datastream.connectors.postgres import PostgresSink
from tidegate.protocol.elements import Batch
from tidegate.testing.postgres_server import PostgresServer

from ..local_job import environment
from .common import compare

BATCH = 4_096
ROWS: list[tuple[int, str, float, int]] = []
"""Made once; the source only cuts them."""


class Rows(Source):
    """The rows above, in batches. The position is the next row."""

    def create_splits(self, parallelism: int) -> list[Any]:
        return [0]

    def create_reader(self, splits: list[Any]) -> SourceReader:
        return _Reader(splits)

    def max_source_parallelism(self) -> int | None:
        return 1


class _Reader(SourceReader):
    def __init__(self, splits: list[int]) -> None:
        self.position = splits[0] if splits else len(ROWS)

    def poll(self, max_records: int) -> Batch | None:
        values = ROWS[self.position : self.position + BATCH]
        self.position += len(values)
        return Batch(values) if values else None

    def snapshot_state(self) -> list[Any]:
        return [self.position]


def main(rows: int) -> None:
    ROWS.extend((number, f"name {number}", number * 0.5, number % 7) for number in range(rows))
    names = ("id", "name", "price", "shop")
    table = pa.table([pa.array(column) for column in zip(*ROWS)], names)
    with PostgresServer() as server, psycopg.connect(server.conninfo(), autocommit=True) as connection:
        connection.execute("CREATE TABLE rows (id bigint, name text, price float8, shop int)")

        def emptied(work: Callable[[], None]) -> Callable[[], None]:
            def run() -> None:
                connection.execute("TRUNCATE rows")
                work()
                found = connection.execute("SELECT count(*) FROM rows").fetchone()
                assert found == (rows,), found

            return run

        def job(as_columns: bool) -> None:
            with tempfile.TemporaryDirectory() as scratch:
                env = environment(scratch)
                stream = env.from_source(Rows(), WatermarkStrategy.no_watermarks(), "rows")
                if as_columns:
                    stream = env.from_arrow(table)
                stream.uid("rows").sink_to(PostgresSink(server.conninfo(), "rows")).uid("table")
                env.execute()

        def copy_rows() -> None:
            with connection.cursor().copy("COPY rows FROM STDIN") as copy:
                for values in ROWS:
                    copy.write_row(values)

        def copy_text() -> None:
            with connection.cursor().copy("COPY rows FROM STDIN (FORMAT csv)") as copy:
                for start in range(0, len(data), 1 << 20):
                    copy.write(data[start : start + (1 << 20)])

        sink = pa.BufferOutputStream()
        pa.csv.write_csv(table, sink, pa.csv.WriteOptions(include_header=False))
        data = sink.getvalue().to_pybytes()
        compare(
            "tuples → PostgreSQL, exactly once", "a bare COPY of the tuples (psycopg's write_row)",
            rows, emptied(lambda: job(False)), emptied(copy_rows), 0.6,
        )  # fmt: skip
        compare(
            "Arrow → PostgreSQL, exactly once", "a bare COPY of text that is there already",
            rows, emptied(lambda: job(True)), emptied(copy_text), 0.6,
        )  # fmt: skip


if __name__ == "__main__":
    # Of the module, not of `__main__`: the job would carry all rows as a part of its program.
    from benchmarks.connectors.postgres import main

    main(100_000 if "--quick" in sys.argv else 1_000_000)
