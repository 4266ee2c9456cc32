"""Sources of Spark rows on the local target."""

from __future__ import annotations

import os
import runpy
import shutil
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from tidegate.common.errors import ConfigurationError, JobExecutionError
from tidegate.operators.elementwise import FilterOperator
from tidegate.spark_bridge.source import SparkPosition, SparkSource

from ..operators.harness import OperatorUnderTest
from . import jobs

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark_session")]


@pytest.fixture
def in_new_york() -> Iterator[None]:
    before = os.environ.get("TZ")
    os.environ["TZ"] = "America/New_York"
    time.tzset()
    yield
    if before is None:
        del os.environ["TZ"]
    else:
        os.environ["TZ"] = before
    time.tzset()


def test_rows_come_sorted_with_nulls_and_in_utc_wherever_the_process_is(in_new_york: None) -> None:
    def build(spark: Any) -> Any:
        return spark.sql(
            "select id, if(id = 1, null, timestamp_micros(id)) as at, array(timestamp_micros(id)) as all "
            "from values (3L), (1L), (2L) as t(id)"
        )

    with jobs.environment().from_spark(build, ["id"]).execute_and_collect() as results:
        rows = list(results)
    at = [datetime(1970, 1, 1, 0, 0, 0, micros) for micros in range(4)]
    assert rows == [(1, None, [at[1]]), (2, at[2], [at[2]]), (3, at[3], [at[3]])]


def test_a_small_data_frame_becomes_broadcast_state() -> None:
    example = runpy.run_path(str(Path(__file__).parents[2] / "examples/guide/broadcast_state.py"))
    env = jobs.environment().set_parallelism(2)
    query = "select * from values ('UK', 10L), ('FR', 5L) as t(country, most)"
    limits = env.from_spark(lambda spark: spark.sql(query), ["country"]).broadcast(example["LIMITS"])
    orders = env.from_collection([("Ada", "UK", 8), ("Bob", "FR", 4), ("Ada", "UK", 7)])
    keyed = orders.key_by(lambda order: (order[0], order[1]))
    warnings = keyed.connect(limits).process(example["OverTheLimit"]())
    with warnings.execute_and_collect() as results:
        assert list(results) == ["Ada ordered 15, the limit is 10"]


def test_a_restored_source_does_not_compute_again_what_it_had_emitted(tmp_path: Path) -> None:
    def build(spark: Any) -> Any:
        """Rows with nulls in their order, and a file for each row that a function was called for."""
        from pyspark.sql import functions

        made = tmp_path / "made"

        def noted(number: int) -> int:
            made.mkdir(exist_ok=True)
            (made / str(number)).touch()
            return number

        rows = spark.range(20).selectExpr("if(id < 4, null, id div 4) as part", "id")
        return rows.withColumn("noted", functions.udf(noted, "long")("id"))

    source = SparkSource(build, ["part", "id"], jobs.SPARK)

    def rest(position: Any, count: int) -> tuple[list[Any], Any]:
        reader = source.create_reader([position])
        reader.open(OperatorUnderTest(FilterOperator(bool)).operator.context)
        found: list[Any] = []
        while len(found) < count and (batch := reader.poll(count - len(found))) is not None:
            found += batch.rows()
        (position,) = reader.snapshot_state()
        reader.close()
        return found, position

    everything, _ = rest(SparkPosition(), 99)
    assert everything == [(n // 4 or None, n, n) for n in range(20)]
    for emitted in (2, 7):
        first, position = rest(SparkPosition(), emitted)
        shutil.rmtree(tmp_path / "made")
        second, end = rest(position, 99)
        assert first + second == everything
        assert (position.rows, end.rows) == (emitted, 20)
        computed = {int(file.name) for file in (tmp_path / "made").iterdir()}
        assert computed == set(range(emitted, 20))


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("select * from values (1), (2), (1) as t(id)", r"order_by \(id\) does not tell rows apart"),
        ("select 1 as other", "order_by names id, which the DataFrame does not have"),
        ("select array(1) as id", "order_by names id, which has parts"),
    ],
    ids=["twice", "missing", "nested"],
)
def test_an_order_that_does_not_tell_rows_apart_is_refused(query: str, words: str) -> None:
    stream = jobs.environment().from_spark(lambda spark: spark.sql(query), ["id"])
    with pytest.raises(JobExecutionError, match=words), stream.execute_and_collect() as results:
        list(results)


def test_a_source_without_an_order_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="order_by"):
        jobs.environment().from_spark(lambda spark: spark.range(3), [])
