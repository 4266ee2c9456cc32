"""Epochs that go to Spark: once each, whole, and again after a failure under the same number."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tidegate.common import WatermarkStrategy
from tidegate.common.errors import UserCodeError
from tidegate.common.failpoints import VARIABLE
from tidegate.spark_bridge.sink import DirectoryTarget, FunctionTarget, SparkSink, SparkSinkOperator

from ..operators.harness import OperatorUnderTest
from . import jobs

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark_session")]


@contextmanager
def armed(points: str) -> Iterator[None]:
    os.environ[VARIABLE] = points
    try:
        yield
    finally:
        del os.environ[VARIABLE]


def as_csv(frame: Any) -> Any:
    return frame.write.format("csv")


def committed(directory: Path) -> dict[str, list[int]]:
    """The numbers in the directory of each epoch."""
    return {
        epoch.name.split("-")[0]: sorted(
            int(n) for part in epoch.glob("*.csv") for n in part.read_text().split()
        )
        for epoch in directory.glob("epoch=*")
    }


def sink(target: Any, restored: Any = None, attempt: int = 1) -> OperatorUnderTest[SparkSinkOperator]:
    operator = SparkSinkOperator(SparkSink(target, jobs.NUMBERS, jobs.SPARK))
    under_test = OperatorUnderTest(operator, restored, attempt=attempt, parallelism=1).open()
    assert jobs.is_started(under_test.operator)
    return under_test


def test_an_epoch_appears_with_its_checkpoint_and_a_second_commit_changes_nothing(tmp_path: Path) -> None:
    target = DirectoryTarget(as_csv, str(tmp_path))
    first = sink(target)
    first.process([(1,), (2,)])
    snapshot = first.checkpoint(4)
    first.process([(3,)])
    assert committed(tmp_path) == {}
    first.complete(4)
    assert committed(tmp_path) == {"epoch=0000000004": [1, 2]}
    first.operator.close()

    # The process died before it could note that epoch 4 was written; the records behind it come again.
    second = sink(target, snapshot, attempt=2)
    assert committed(tmp_path) == {"epoch=0000000004": [1, 2]}
    second.process([(3,), (4,)])
    second.checkpoint(6)
    second.checkpoint(7)
    (tmp_path / "_staging").joinpath("-uid/1/left").mkdir(parents=True)
    second.complete(7)
    assert committed(tmp_path) == {"epoch=0000000004": [1, 2], "epoch=0000000006": [3, 4]}
    assert not list((tmp_path / "_staging").glob("*/1"))
    second.operator.close()


def test_a_function_that_gives_no_writer_is_one_clear_error(tmp_path: Path) -> None:
    broken = sink(DirectoryTarget(lambda frame: None, str(tmp_path / "out")))
    broken.process([(1,)])
    broken.checkpoint(2)
    with pytest.raises(
        UserCodeError, match=r"epoch 2 could not be written: TypeError: .*returned NoneType.*"
    ):
        broken.complete(2)
    broken.operator.close()
    assert not (tmp_path / "out").exists()


def test_a_function_gets_an_epoch_again_with_the_same_number_until_it_succeeds(tmp_path: Path) -> None:
    calls = tmp_path / "calls"

    def write(frame: Any, epoch_id: int) -> None:
        numbers = sorted(row.id for row in frame.collect())
        with calls.open("a") as file:
            file.write(f"{epoch_id} {numbers}\n")
        if calls.read_text().count("\n") == 1:
            raise ValueError("the table is locked")

    first = sink(FunctionTarget(write))
    first.process([(1,), (2,)])
    snapshot = first.checkpoint(3)
    with pytest.raises(
        UserCodeError, match=r"Totals \(1/1\): epoch 3 could not be written: ValueError: the table"
    ):
        first.complete(3)
    first.operator.close()
    sink(FunctionTarget(write), snapshot, attempt=2).operator.close()
    assert calls.read_text() == "3 [1, 2]\n3 [1, 2]\n"


def test_a_job_writes_every_record_once_although_its_stage_and_its_commits_fail(
    tmp_path: Path, spark_session: Any
) -> None:
    env = jobs.environment(tmp_path, {"restart-strategy.fixed-delay.attempts": "9"})
    source = jobs.HeldSparkSource(
        lambda spark: spark.range(400),
        jobs.SPARK,
        lambda taken, _: jobs.NO_LIMIT if taken > 3 else 100 * taken,
    )
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    same = numbers.spark_stage(lambda frame: frame, jobs.NUMBERS, jobs.NUMBERS, 100).uid("stage")
    same.sink_to_spark(as_csv, str(tmp_path / "out"), jobs.NUMBERS).uid("out")
    with armed("spark_stage@stage:2:raise,commit_before@out:1:raise,commit_after@out:2:raise"):
        client = env.execute_async()
    fired = [point.fired for point in client.result().report.fail_points]
    assert fired == [1, 1, 1]
    written = [number for numbers in committed(tmp_path / "out").values() for number in numbers]
    assert sorted(written) == list(range(400))
    frame = spark_session.read.schema("id long").csv(str(tmp_path / "out"))
    assert frame.selectExpr("count(*)", "sum(id)").collect() == [(400, 399 * 200)]
