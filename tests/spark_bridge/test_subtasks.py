"""A stage with several subtasks: one DataFrame of all their records, and results in each of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from . import jobs

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

COUNT = 3_000
OUTPUT = pa.schema([("id", pa.int64()), ("epoch_size", pa.int64())])


def with_epoch_size(frame: Any) -> Any:
    frame = frame.repartition(4)
    return frame.selectExpr("id", f"{frame.count()}L as epoch_size")


def test_all_subtasks_share_each_epoch(tmp_path: Path) -> None:
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
    # Each epoch was one DataFrame of the records of both subtasks.
    sizes = {size for _, size in found}
    assert all(sum(each == size for _, each in found) % size == 0 for size in sizes)
    assert max(sizes) > COUNT / 2
