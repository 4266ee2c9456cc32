"""Which Spark column holds a column of stored state, so that it comes back exactly."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


def spark_type(stored: pa.DataType) -> pa.DataType:
    """The Arrow layout in which Spark holds a stored column.

    Spark reads text, bytes and lists with 32-bit offsets only. It has no time of day and no nanoseconds:
    a time of day becomes the microseconds since midnight, an instant the nanoseconds since 1970, both as
    integers of 64 bits.
    """
    if pa.types.is_large_string(stored):
        return pa.string()
    if pa.types.is_large_binary(stored):
        return pa.binary()
    if pa.types.is_time(stored) or (pa.types.is_timestamp(stored) and stored.unit == "ns"):
        return pa.int64()
    if pa.types.is_unsigned_integer(stored):
        return pa.int32()
    if pa.types.is_map(stored):
        return pa.map_(spark_type(stored.key_type), spark_type(stored.item_type))
    if pa.types.is_large_list(stored) or pa.types.is_list(stored):
        return pa.list_(spark_type(stored.value_type))
    if pa.types.is_struct(stored):
        fields = [stored.field(index) for index in range(stored.num_fields)]
        return pa.struct([pa.field(field.name, spark_type(field.type)) for field in fields])
    return stored


EXPIRY = pa.timestamp("us", "UTC")
"""When an entry expires. Segments hold the same instants in milliseconds, without a time zone."""


def expiry_for_spark(column: pa.Array) -> pa.Array:
    """A stored column of expiries, single or one list per row, as instants."""
    if pa.types.is_list(column.type):
        return column.cast(pa.list_(pa.timestamp("us"))).cast(pa.list_(EXPIRY))
    return column.cast(pa.timestamp("us")).cast(EXPIRY)


def spark_schema(columns: pa.Schema) -> Any:
    """The Spark schema of columns with the types of `spark_type`."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(columns, prefer_timestamp_ntz=True)
