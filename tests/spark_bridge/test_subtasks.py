"""A stage with several subtasks: one DataFrame of all their records, and results in each of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tidegate.common import Duration
from tidegate.common.errors import JobExecutionError

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


def fails_on_one_row(frame: Any) -> Any:
    def check(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if COUNT - 1 in batch.column("id").to_pylist():
                raise ValueError("the last number is wrong")
            yield batch

    return with_epoch_size(frame.mapInArrow(check, frame.schema))


def returns_nothing(frame: Any) -> Any:
    return None


def returns_other_columns(frame: Any) -> Any:
    return frame.selectExpr("id", "'1' as epoch_size")


FAILURES = pytest.mark.parametrize(
    ("function", "cause"),
    [
        (fails_on_one_row, "ValueError: the last number is wrong"),
        (returns_nothing, "the stage's function returned NoneType; return a Spark DataFrame"),
        (
            returns_other_columns,
            "declared with the schema (id: int64, epoch_size: int64) but its function returned "
            "(id: int64, epoch_size: string)",
        ),
    ],
    ids=["row", "nothing", "schema"],
)


@FAILURES
def test_a_failing_function_names_the_subtask_that_ran_the_epoch_of_all(function: Any, cause: str) -> None:
    numbers = jobs.environment().from_collection([(n,) for n in range(COUNT)]).rebalance()
    stage = numbers.spark_stage(function, OUTPUT, jobs.NUMBERS, interval=Duration.of_minutes(10))
    with (
        pytest.raises(JobExecutionError) as failed,
        stage.name("join").set_parallelism(2).execute_and_collect() as results,
    ):
        list(results)
    error = str(failed.value).splitlines()[0]
    assert "operator join (1/2), epoch 1: " in error
    assert cause in error


@FAILURES
def test_no_record_of_a_subtask_is_lost_when_the_function_fails_and_is_corrected(
    tmp_path: Path, function: Any, cause: str
) -> None:
    failures = tmp_path / "failures"

    def corrected_after_two_failures(frame: Any) -> Any:
        if not failures.exists() or len(failures.read_bytes()) < 2:
            with failures.open("ab") as file:
                file.write(b"x")
            return function(frame)
        return with_epoch_size(frame)

    numbers = jobs.environment(tmp_path).from_collection([(n,) for n in range(COUNT)]).rebalance()
    stage = numbers.spark_stage(
        corrected_after_two_failures, OUTPUT, jobs.NUMBERS, interval=Duration.of_minutes(10)
    )
    with stage.set_parallelism(2).execute_and_collect() as results:
        assert sorted(row[0] for row in results) == list(range(COUNT))
    assert failures.read_bytes() == b"xx"


def test_a_record_that_does_not_fit_is_refused_with_the_name_of_its_subtask() -> None:
    # Each record is a batch of its own, and goes to the next subtask.
    env = jobs.environment(options={"tidegate.batch.size": "1"})
    numbers = env.from_collection([(1,), ("two",), (3,), ("four",)]).rebalance()
    stage = numbers.spark_stage(with_epoch_size, OUTPUT, jobs.NUMBERS).name("join").set_parallelism(2)
    with pytest.raises(JobExecutionError) as failed, stage.execute_and_collect() as results:
        list(results)
    error = str(failed.value).splitlines()[0]
    assert "operator join (2/2)" in error
    assert "does not fit the stage's input schema" in error
