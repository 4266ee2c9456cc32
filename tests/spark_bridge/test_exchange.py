"""Arrow tables go into Spark and come out as they were, in partitions that fit into a task."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from tidegate.spark_bridge.exchange import to_arrow, to_dataframe

pytestmark = pytest.mark.spark


def test_arrow_layouts_that_spark_does_not_read_are_plain_afterwards(spark_session: Any) -> None:
    words = pa.array(["a", None, "b", "a"])
    instants = pa.array([0, None, 1_000, -1_000], pa.timestamp("ns"))
    chunks = pa.chunked_array([words.slice(0, 1), words.slice(1)])
    table = pa.table(
        {"word": chunks.dictionary_encode(), "large": words.cast(pa.large_string()), "at": instants}
    )
    plain = pa.table({"word": words, "large": words, "at": instants.cast(pa.timestamp("us"))})
    assert to_arrow(to_dataframe(spark_session, table), plain.schema) == plain


def test_a_table_without_rows_keeps_its_columns(spark_session: Any) -> None:
    table = pa.schema([("id", pa.int64()), ("name", pa.string())]).empty_table()
    assert to_arrow(to_dataframe(spark_session, table), table.schema) == table


def test_wide_rows_make_more_partitions(spark_session: Any) -> None:
    blob = pa.array([b"x" * 4_000_000] * 20)
    frame = to_dataframe(spark_session, pa.table({"blob": blob}))
    # 80 MB in pieces of at most 32 MiB.
    assert frame.rdd.getNumPartitions() == 3
    assert frame.selectExpr("sum(length(blob))").collect() == [(80_000_000,)]


def test_a_type_that_spark_does_not_have_is_refused_by_its_column(spark_session: Any) -> None:
    with pytest.raises(TypeError, match=r"\(id: int64, size: uint64\).*input_schema"):
        to_dataframe(spark_session, pa.table({"id": [1], "size": pa.array([1], pa.uint64())}))
