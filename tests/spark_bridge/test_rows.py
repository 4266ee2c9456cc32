"""Sources of Spark rows on the local target."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest
from tidegate.common.errors import ConfigurationError

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


def test_a_source_without_an_order_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="order_by"):
        jobs.environment().from_spark(lambda spark: spark.range(3), [])
