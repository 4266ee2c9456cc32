"""Records of a stage into Spark and results out again, directly between subtasks and executors.

Executors fetch the partitions of an epoch from the subtasks that hold them, and push the partitions of the
result to subtasks (see `exchange_client` and `exchange_server`). No record passes through Spark's driver
process: it gets one row for each partition. Types are the same both ways. All calls of PySpark are public;
`pyspark.sql.pandas.types` converts schemas.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from ..failures import cause_of
from . import exchange_client
from .exchange_client import one_row, prepare_worker, push_partition, read_partition
from .exchange_server import Endpoint, Pushed, SparkExchangeError

_MOST_PARTITION_BYTES = 128 << 20
"""A Spark task that failed starts again at the beginning of its partition."""
_LEAST_PARTITION_ROWS = 5_000
"""A Spark task costs more than its records below this number."""
_SEGMENT_BYTES = 64 << 10
"""Spark writes the head of a task to its Python worker, and then the function. The operating system holds the
second message back until the first is acknowledged, which takes 40 ms (Nagle's algorithm and delayed
acknowledgements), unless it is as large as a segment of the loopback device."""

ArrowFunction = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

_FAILED = re.compile(r"exchange_client\.ExchangeError: (.*)", re.DOTALL)
PUSHED = pa.schema(
    [("target", pa.int64()), ("partition", pa.int64()), ("attempt", pa.int64()), ("rows", pa.int64())]
)
"""What a Spark task reports of the results that it has pushed."""


def input_frame(session: Any, endpoints: Sequence[Endpoint]) -> Any:
    """A Spark DataFrame of all records that subtasks serve, in the order of the endpoints.

    It is valid until the runs end.

    Raises:
        TypeError: A column has a type that Spark does not have, or the types differ between subtasks.
    """
    parts = [(end.reach, number) for end in endpoints for number in range(end.partitions)]
    schema = plain_schema(_common([end.schema for end in endpoints]))

    def fetch(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                reach, partition = parts[number]
                yield from read_partition(reach, partition, schema)

    return session.range(0, len(parts), 1, len(parts)).mapInArrow(travelling(fetch), spark_schema(schema))


def push(frame: Any, schema: pa.Schema, endpoints: Sequence[Endpoint]) -> list[Pushed]:
    """Run a Spark job whose executors push its results to subtasks.

    Args:
        frame: Its results.
        schema: What the results are converted to; only units of time and widths of integers may differ.
        endpoints: Of the subtasks.

    Returns:
        The partitions that count. Tasks that failed, or ran twice, may have pushed others.
    """
    reaches = [end.reach for end in endpoints]

    def put(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        task = TaskContext.get()
        assert task is not None, "only Spark tasks call this"
        partition, attempt = task.partitionId(), task.taskAttemptId()
        target, rows = push_partition(reaches, partition, attempt, batches, schema)
        yield one_row(PUSHED, (target, partition, attempt, rows))

    # By position: names may contain dots, or occur twice.
    numbered = frame.toDF(*[f"c{number}" for number in range(len(frame.columns))])
    return [Pushed(*row) for row in numbered.mapInArrow(travelling(put), spark_schema(PUSHED)).collect()]


def to_arrow(frame: Any) -> pa.Table:
    """The rows of a small Spark DataFrame, in its order; they pass through Spark's driver process."""
    rows = frame.mapInArrow(packing(), "batch binary").collect()
    tables = [pa.ipc.open_stream(row[0]).read_all() for row in rows]
    return pa.concat_tables(tables) if tables else arrow_schema_of(frame).empty_table()


def packing() -> Callable[[Iterator[Any]], Iterator[Any]]:
    """What executors do with a partition: each Arrow batch becomes one row.

    A function of its own, since such travel by value: the executors need PyArrow and not Tidegate.
    """

    def packed(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            if batch.num_rows:
                sink = pa.BufferOutputStream()
                with pa.ipc.new_stream(sink, batch.schema) as stream:
                    stream.write_batch(batch)
                message = sink.getvalue()
                # `pyarrow.array` would import pandas.
                offsets = pa.py_buffer(struct.pack("=2i", 0, message.size))
                column = pa.Array.from_buffers(pa.binary(), 1, [None, offsets, message])
                yield pa.RecordBatch.from_arrays([column], ["batch"])

    return packed


def exchange_error(error: Exception) -> SparkExchangeError | None:
    """The reason why executors could not exchange records with a subtask; `None` if that is not why.

    Args:
        error: What Spark raised.
    """
    found = _FAILED.search(cause_of(error))
    return None if found is None else SparkExchangeError(found[1])


def arrow_schema_of(frame: Any) -> pa.Schema:
    """The Arrow schema of a Spark DataFrame's rows."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(frame.schema)


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """The layout of the same types that Spark reads: no dictionaries, no nanoseconds, no large strings.

    Raises:
        TypeError: A column has a type that Spark does not have.
    """
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(spark_schema(schema))


def spark_schema(schema: pa.Schema) -> Any:
    """Spark's schema for Arrow data.

    Raises:
        TypeError: A column has a type that Spark does not have.
    """
    from pyspark.errors import PySparkTypeError
    from pyspark.sql.pandas.types import from_arrow_schema

    try:
        return from_arrow_schema(schema, prefer_timestamp_ntz=False)
    except PySparkTypeError as error:
        raise TypeError(
            f"Spark has no type for one of the columns "
            f"({', '.join(f'{field.name}: {field.type}' for field in schema)}): {error}. Convert it "
            f"before the stage, or declare another input_schema"
        ) from error


def partitions_of(table: pa.Table, parallelism: int) -> int:
    """How many partitions to make of a table: one for each core, fewer of few records, more of large ones.

    Args:
        table: The records.
        parallelism: How many tasks Spark can run at a time.
    """
    records: int = table.num_rows
    enough = min(parallelism, -(-records // _LEAST_PARTITION_ROWS))
    return max(1, enough, -(-int(table.nbytes) // _MOST_PARTITION_BYTES))


def _common(schemas: Sequence[pa.Schema]) -> pa.Schema:
    try:
        return pa.unify_schemas(schemas, promote_options="permissive")
    except pa.ArrowException as error:
        raise TypeError(
            f"the records of an epoch do not have the same types in all subtasks ({error}); declare an "
            f"input_schema"
        ) from error


def travelling(function: ArrowFunction) -> ArrowFunction:
    """A function as `mapInArrow` takes it to executors, which have no Tidegate.

    Args:
        function: It may use `exchange_client`, PyArrow and the standard library.
    """
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(exchange_client)  # type: ignore[no-untyped-call]

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        yield from function(batches)

    # The name that Spark shows.
    run.__name__ = function.__name__
    # An attribute travels with the function.
    run.__dict__["filling"] = bytes(_SEGMENT_BYTES)
    return run
