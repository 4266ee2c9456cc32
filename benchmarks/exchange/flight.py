"""Arrow Flight as the carrier of the exchange: pushed and served partitions by a token, without TLS."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from pyarrow import flight

Batches = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class _Server(flight.FlightServerBase):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__("grpc+tcp://127.0.0.1:0")
        self.tables: dict[bytes, pa.Table] = {}

    def do_get(self, context: Any, ticket: Any) -> Any:
        return flight.RecordBatchStream(self.tables[ticket.ticket])

    def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        self.tables[descriptor.command] = reader.read_all()


class FlightEnd:
    """This process's end."""

    def __init__(self) -> None:
        self._server = _Server()
        self._address = f"grpc+tcp://127.0.0.1:{self._server.port}"
        self._token = b""
        threading.Thread(target=self._server.serve, daemon=True).start()

    def fetching(self, table: pa.Table, parts: int) -> Batches:
        """What executors do to read a table in parts."""
        address, token = self._address, secrets.token_bytes(32)
        for number in range(parts):
            start, end = (table.num_rows * each // parts for each in (number, number + 1))
            self._server.tables[token + bytes([number])] = table.slice(start, end - start)

        def fetch(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    with flight.connect(address) as client:
                        ticket = flight.Ticket(token + bytes([number]))
                        yield from client.do_get(ticket).to_reader()

        return fetch

    def putting(self, schema: pa.Schema) -> Batches:
        """What executors do to push their results."""
        address, token = self._address, secrets.token_bytes(32)
        self._token = token

        def put(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            from pyspark import TaskContext

            task = TaskContext.get()
            assert task is not None, "only Spark tasks call this"
            partition, rows = task.partitionId(), 0
            descriptor = flight.FlightDescriptor.for_command(token + bytes([partition]))
            with flight.connect(address) as client:
                writer, _reader = client.do_put(descriptor, schema)
                for batch in batches:
                    writer.write_batch(pa.RecordBatch.from_arrays(batch.columns, schema=schema))
                    rows += batch.num_rows
                writer.close()
            yield pa.record_batch(
                [pa.array([partition], pa.int32()), pa.array([rows])], ["partition", "rows"]
            )

        return put

    def taken(self, partitions: list[int], schema: pa.Schema) -> pa.Table:
        """What executors have pushed."""
        tables = [self._server.tables[self._token + bytes([each])] for each in sorted(partitions)]
        return pa.concat_tables(tables)

    def forget(self) -> None:
        """Free the tables."""
        self._server.tables.clear()
