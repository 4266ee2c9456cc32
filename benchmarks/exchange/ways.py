"""The ways that are compared. Each has both directions."""

from __future__ import annotations

import os
import secrets
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from tidegate.spark_bridge.exchange import exchange_frames as exchange
from tidegate.spark_bridge.exchange.exchange_server import ExchangeServer

from .flight import FlightEnd

MEMORY_BYTES = 4 << 30
"""Results stay in memory, as in the other ways."""
_WRITTEN = "partition int, rows bigint"


class Way(ABC):
    """Moves data between this process and executors.

    Args:
        session: Of Spark.
    """

    def __init__(self, session: Any) -> None:
        self.session = session
        self.parallelism: int = session.sparkContext.defaultParallelism

    @abstractmethod
    def into(self, table: pa.Table) -> Any:
        """A DataFrame with the rows of a table."""

    @abstractmethod
    def out(self, frame: Any, schema: pa.Schema) -> pa.Table:
        """The rows of a DataFrame."""

    def forget(self) -> None:
        """Free what the last call needed."""


class Direct(Way):
    """What a stage does: executors' Python workers open connections to this process."""

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self._server = ExchangeServer("benchmark", lambda: None, tempfile.gettempdir())
        self._runs: list[Any] = []

    def _serve(self, table: pa.Table) -> Any:
        parts = exchange.partitions_of(table, self.parallelism)
        self._runs.append(self._server.serve(table, parts, MEMORY_BYTES))
        return self._runs[-1]

    def into(self, table: pa.Table) -> Any:
        return exchange.input_frame(self.session, [self._serve(table).endpoint])

    def out(self, frame: Any, schema: pa.Schema) -> pa.Table:
        run = self._serve(schema.empty_table())
        return run.results(exchange.push(frame, schema, [run.endpoint]), schema)

    def forget(self) -> None:
        while self._runs:
            self._runs.pop().close()


class Private(Way):
    """Private calls of PySpark: everything goes through Spark's driver."""

    MOST_ROWS = 50_000

    def into(self, table: pa.Table) -> Any:
        from pyspark.sql import DataFrame
        from pyspark.sql.pandas.serializers import ArrowStreamSerializer
        from pyspark.sql.pandas.types import from_arrow_schema

        jvm = self.session._jvm
        rows = max(1, min(-(-table.num_rows // self.parallelism), self.MOST_ROWS))
        server = self.session._sc._serialize_to_jvm(
            table.combine_chunks().to_batches(max_chunksize=rows),
            ArrowStreamSerializer(),
            jvm.PythonSQLUtils.readArrowStreamFromFile,
            jvm.ArrowIteratorServer,
        )
        schema = from_arrow_schema(table.schema).json()
        frame = jvm.PythonSQLUtils.toDataFrame(server, schema, self.session._jsparkSession)
        return DataFrame(frame, self.session)

    def out(self, frame: Any, schema: pa.Schema) -> pa.Table:
        return pa.Table.from_batches(frame._collect_as_arrow()).cast(schema)


class Flight(Way):
    """As `Direct`, with Arrow Flight as the carrier."""

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self._end = FlightEnd()

    def into(self, table: pa.Table) -> Any:
        parts = max(1, min(self.parallelism, table.num_rows // 5_000))
        fetch = self._end.fetching(table, parts)
        spark_schema = exchange.spark_schema(table.schema)
        return self.session.range(0, parts, 1, parts).mapInArrow(fetch, spark_schema)

    def out(self, frame: Any, schema: pa.Schema) -> pa.Table:
        rows = frame.mapInArrow(self._end.putting(schema), _WRITTEN).collect()
        return self._end.taken([row[0] for row in rows], schema)

    def forget(self) -> None:
        self._end.forget()


class Files(Way):
    """Arrow IPC files on local disk, mapped by the reader. Executors must be on this node."""

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self._directory = tempfile.mkdtemp(prefix="tidegate-exchange-")

    def into(self, table: pa.Table) -> Any:
        parts = max(1, min(self.parallelism, table.num_rows // 5_000))
        paths = []
        for number in range(parts):
            start, end = (table.num_rows * each // parts for each in (number, number + 1))
            path = self._new()
            with pa.OSFile(path, "wb") as sink, pa.ipc.new_stream(sink, table.schema) as stream:
                stream.write_table(table.slice(start, end - start), max_chunksize=1 << 16)
            paths.append(path)

        def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    with pa.memory_map(paths[number]) as source:
                        yield from pa.ipc.open_stream(source)

        spark_schema = exchange.spark_schema(table.schema)
        return self.session.range(0, parts, 1, parts).mapInArrow(read, spark_schema)

    def out(self, frame: Any, schema: pa.Schema) -> pa.Table:
        prefix = self._new()

        def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            from pyspark import TaskContext

            task = TaskContext.get()
            assert task is not None, "only Spark tasks call this"
            partition, rows = task.partitionId(), 0
            with pa.OSFile(f"{prefix}-{partition}", "wb") as sink, pa.ipc.new_stream(sink, schema) as stream:
                for batch in batches:
                    stream.write_batch(pa.RecordBatch.from_arrays(batch.columns, schema=schema))
                    rows += batch.num_rows
            yield pa.record_batch(
                [pa.array([partition], pa.int32()), pa.array([rows])], ["partition", "rows"]
            )

        tables = []
        for row in frame.mapInArrow(write, _WRITTEN).collect():
            with pa.memory_map(f"{prefix}-{row[0]}") as source:
                tables.append(pa.ipc.open_stream(source).read_all())
        return pa.concat_tables(tables)

    def _new(self) -> str:
        return os.path.join(self._directory, secrets.token_hex(8))

    def forget(self) -> None:
        for name in os.listdir(self._directory):
            os.remove(os.path.join(self._directory, name))


class RayObjects(Way):
    """Arrow tables in Ray's object store, by the public calls of RayDP and Ray Data."""

    def into(self, table: pa.Table) -> Any:
        import ray.data

        parts = max(1, min(self.parallelism, table.num_rows // 5_000))
        bounds = [table.num_rows * number // parts for number in range(parts + 1)]
        tables = [table.slice(bounds[i], bounds[i + 1] - bounds[i]) for i in range(parts)]
        return ray.data.from_arrow(tables).to_spark(self.session)

    def out(self, frame: Any, schema: pa.Schema) -> pa.Table:
        import ray
        import ray.data

        found = ray.get(ray.data.from_spark(frame).to_arrow_refs())
        return pa.concat_tables([each.select(schema.names).cast(schema) for each in found])


WAYS: dict[str, type[Way]] = {
    "private calls, through the driver": Private,
    "direct connections": Direct,
    "direct, Arrow Flight": Flight,
    "Ray objects (RayDP)": RayObjects,
    "files on local disk": Files,
}
