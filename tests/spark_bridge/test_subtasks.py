"""A stage with several subtasks: one DataFrame of all their records, and results in each of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tidegate.common import Duration

from . import jobs

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

COUNT = 3_000
OUTPUT = pa.schema([("id", pa.int64()), ("epoch_size", pa.int64())])


def with_epoch_size(frame: Any) -> Any:
    frame = frame.repartition(4)
    return frame.selectExpr("id", f"{frame.count()}L as epoch_size")


def test_results_of_all_subtasks_leave_once_although_a_task_fails(tmp_path: Path) -> None:
    env = jobs.environment(tmp_path)
    failed = tmp_path / "failed"

    def fail_once(row: Any) -> Any:
        if not failed.exists():
            failed.touch()
            raise ValueError("once")
        return row

    numbers = env.from_collection([(n,) for n in range(COUNT)]).rebalance()
    stage = numbers.spark_stage(with_epoch_size, OUTPUT, jobs.NUMBERS).set_parallelism(2)
    with stage.map(fail_once).set_parallelism(2).execute_and_collect() as results:
        found = [tuple(row) for row in results]
    assert sorted(number for number, _ in found) == list(range(COUNT))


def test_an_epoch_is_one_dataframe_of_all_subtasks() -> None:
    numbers = jobs.environment().from_collection([(n,) for n in range(COUNT)]).rebalance()
    # Only the end of the input ends the epoch.
    stage = numbers.spark_stage(with_epoch_size, OUTPUT, jobs.NUMBERS, interval=Duration.of_minutes(10))
    with stage.set_parallelism(2).execute_and_collect() as results:
        found = sorted(tuple(row) for row in results)
    assert found == [(number, COUNT) for number in range(COUNT)]
