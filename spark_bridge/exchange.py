"""Arrow tables into Spark and out again, with exactly the same types both ways.

PySpark 3.5 has no public call for this (`createDataFrame` goes through pandas, which turns a nullable
integer into a float). It does have the parts, which its own pandas path uses; RayDP bounds PySpark at
3.5.7, so they are those of one version.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

_MAX_PARTITION_ROWS = 50_000
_MAX_PARTITION_BYTES = 32 * 1024 * 1024
"""A partition travels inside its task's description, which Spark refuses beyond 128 MiB."""


def to_dataframe(session: Any, table: pa.Table) -> Any:
    """A Spark DataFrame with the rows and columns of an Arrow table.

    The data goes through the driver to the executors, wherever they run; no shared disk is needed.

    Raises:
        TypeError: A column has a type that Spark does not have.
    """
    from pyspark.sql import DataFrame
    from pyspark.sql.pandas.serializers import ArrowStreamSerializer
    from pyspark.sql.pandas.types import to_arrow_schema

    jvm = session._jvm
    schema = _spark_schema(table.schema)
    # Spark's Java side reads one layout of a type: no dictionaries, no nanoseconds, no large strings.
    plain = table.cast(to_arrow_schema(schema))
    rows = _partition_rows(plain, session.sparkContext.defaultParallelism)
    batches = plain.combine_chunks().to_batches(max_chunksize=rows)
    if not batches:
        return session.createDataFrame([], schema)
    server = session._sc._serialize_to_jvm(
        batches,
        ArrowStreamSerializer(),
        jvm.PythonSQLUtils.readArrowStreamFromFile,
        jvm.ArrowIteratorServer,
    )
    frame = jvm.PythonSQLUtils.toDataFrame(server, schema.json(), session._jsparkSession)
    return DataFrame(frame, session)


def to_arrow(frame: Any, schema: pa.Schema) -> pa.Table:
    """The rows of a Spark DataFrame, in its order, as an Arrow table of `schema`."""
    batches = frame._collect_as_arrow()
    if not batches:
        return schema.empty_table()
    return pa.Table.from_batches(batches).cast(schema)


def arrow_schema_of(frame: Any) -> pa.Schema:
    """The Arrow schema of a Spark DataFrame's rows."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(frame.schema)


def _partition_rows(table: pa.Table, parallelism: int) -> int:
    """Rows of a partition: enough partitions for all cores, none of them too big for a task."""
    records: int = table.num_rows
    even = -(-records // max(1, parallelism))
    fitting = _MAX_PARTITION_BYTES * records // max(1, int(table.nbytes))
    return max(1, min(even, fitting, _MAX_PARTITION_ROWS))


def _spark_schema(schema: pa.Schema) -> Any:
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
