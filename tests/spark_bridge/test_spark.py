"""Stages and sources on a real Spark session, which RayDP runs on Ray. One session for all tests.

The functions without `test_` run in the actor, so they are pickled by value and hold no fixtures.
"""

from __future__ import annotations

import os
import sys
import tempfile
from typing import Any

import psutil
import pyarrow as pa
import pytest
from tidegate.protocol.elements import Batch, CheckpointBarrier
from tidegate.protocol.ids import Attempt, CheckpointId

pytestmark = pytest.mark.slow

INPUT = pa.schema([("id", pa.int64()), ("name", pa.string())])
OUTPUT = pa.schema([("id", pa.int64()), ("twice", pa.int64())])
BARRIER = CheckpointBarrier(CheckpointId(1), 0)


@pytest.fixture(autouse=True, scope="module")
def _pickled_by_value() -> None:
    from ray import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])


# ------------------------------------------------------------ in the actor


def context() -> Any:
    from tidegate.operators.base import OperatorContext
    from tidegate.state.operator_state import OperatorStateBackend

    unused: Any = None
    return OperatorContext(
        operator_uid="uid",
        operator_name="join",
        subtask_index=0,
        parallelism=1,
        max_parallelism=128,
        attempt=Attempt(0),
        attempt_number=0,
        is_checkpointing=True,
        is_restored=False,
        now_ms=lambda: 0,
        create_keyed_backend=unused,
        operator_state=OperatorStateBackend("join", 0),
        local_dir=tempfile.gettempdir(),
        results=unused,
    )


def open_stage(
    settings: Any,
    function: Any,
    schema: pa.Schema,
    limit: int,
    emitted: list[Batch],
    input_schema: pa.Schema | None = INPUT,
) -> Any:
    from tidegate.spark_bridge.stage import SparkStageOperator

    stage = SparkStageOperator(function, schema, input_schema, settings, limit)
    stage.setup(context(), emitted.append)
    stage.open()
    return stage


def run_stage(
    settings: Any,
    function: Any,
    batches: list[Any],
    schema: pa.Schema = OUTPUT,
    limit: int = 1_000_000,
    input_schema: pa.Schema | None = INPUT,
) -> tuple[int, list[Any]]:
    """Records emitted by size alone, and all records emitted before a barrier."""
    from tidegate.operators.base import rows

    emitted: list[Batch] = []
    stage = open_stage(settings, function, schema, limit, emitted, input_schema)
    for batch in batches:
        stage.process_batch(Batch(batch), 0)
    by_size = sum(len(batch) for batch in emitted)
    stage.prepare_snapshot(BARRIER)
    return by_size, [row for batch in emitted for row in rows(batch)]


def error_of(settings: Any, function: Any, batches: list[Any]) -> str:
    from tidegate.common.errors import TidegateError

    try:
        run_stage(settings, function, batches)
    except TidegateError as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


def twice(frame: Any) -> Any:
    return frame.selectExpr("id", "id * 2 as twice")


def numbers(spark: Any) -> Any:
    return spark.range(1_000).selectExpr("id", "concat('n', id % 7) as name")


def read_source(settings: Any, splits: list[Any], polls: int, size: int) -> tuple[list[Any], list[Any]]:
    """Records of some polls (-1: until the end) and the position after them."""
    from tidegate.spark_bridge.session import session_host
    from tidegate.spark_bridge.source import SparkSource

    reader = SparkSource(numbers, ["name", "id"], settings).create_reader(splits)
    reader.open(context())
    session_host().session()
    records: list[Any] = []
    while polls != 0 and (batch := reader.poll(size)) is not None:
        records += batch.values
        polls -= 1
    state = reader.snapshot_state()
    reader.close()
    return records, state


def first_poll_of_a_new_session(settings: Any) -> tuple[int | None, bool, float]:
    import time

    from tidegate.spark_bridge.session import session_host
    from tidegate.spark_bridge.source import SparkSource

    source = SparkSource(numbers, ["id"], settings)
    reader = source.create_reader(source.create_splits(1))
    stage = open_stage(settings, twice, OUTPUT, 10, [])
    reader.open(context())
    before = time.monotonic()
    batch = reader.poll(10)
    took = time.monotonic() - before
    is_ready_without_records = stage.is_ready()
    stage.process_batch(Batch([(1, "a")]), 0)
    is_ready = stage.is_ready()
    session_host().session()
    return None if batch is None else len(batch), is_ready_without_records and not is_ready, took


def java_pid() -> int:
    from tidegate.spark_bridge.session import session_host

    return int(session_host().session().sparkContext._jvm.java.lang.ProcessHandle.current().pid())


def stop() -> None:
    from tidegate.spark_bridge.session import session_host

    session_host().stop()


# ------------------------------------------------------------ the tests, in this order


def test_a_session_starts_in_the_background_when_slots_take_every_cpu(spark_process: Any) -> None:
    assert spark_process.free_cpus == 0
    polled, waits, took_s = spark_process.run(first_poll_of_a_new_session, spark_process.settings)
    assert polled == 0
    assert waits
    assert took_s < 1


def test_an_epoch_leaves_before_its_barrier_in_the_order_it_came(spark_process: Any) -> None:
    batches = [[(n, "x") for n in range(start, start + 50)] for start in range(0, 200, 50)]
    by_size, records = spark_process.run(run_stage, spark_process.settings, twice, batches)
    assert by_size == 0
    assert records == [(n, 2 * n) for n in range(200)]


def test_an_epoch_runs_when_it_is_full(spark_process: Any) -> None:
    batches = [[(n, "x") for n in range(start, start + 50)] for start in range(0, 150, 50)]
    by_size, records = spark_process.run(run_stage, spark_process.settings, twice, batches, OUTPUT, 100)
    assert by_size == 100
    assert len(records) == 150


def test_an_epoch_without_records_emits_nothing(spark_process: Any) -> None:
    assert spark_process.run(run_stage, spark_process.settings, twice, []) == (0, [])


def test_nulls_and_arrow_layouts_survive_spark(spark_process: Any) -> None:
    batch = pa.record_batch(
        [
            pa.array([1, None, 3], pa.int64()),
            pa.array(["a", None, "a"]).dictionary_encode(),
        ],
        names=["id", "name"],
    )

    def keep(frame: Any) -> Any:
        return frame.selectExpr("*", "timestamp_micros(1000 * id) as at")

    schema = INPUT.append(pa.field("at", pa.timestamp("ms")))
    result = spark_process.run(run_stage, spark_process.settings, keep, [batch], schema, 10, None)
    from datetime import datetime

    first, third = datetime(1970, 1, 1, 0, 0, 0, 1_000), datetime(1970, 1, 1, 0, 0, 0, 3_000)
    assert result == (0, [(1, "a", first), (None, None, None), (3, "a", third)])


def test_another_schema_is_one_error_that_shows_both(spark_process: Any) -> None:
    def once(frame: Any) -> Any:
        return frame.selectExpr("id", "cast(id as string) as twice")

    error = spark_process.run(error_of, spark_process.settings, once, [[(1, "a")]])
    assert error.startswith("UserCodeError: operator join (1/1): ")
    assert "(id: int64, twice: int64)" in error
    assert "(id: int64, twice: string)" in error


def test_a_failing_function_is_one_error_that_names_the_operator(spark_process: Any) -> None:
    def wrong(frame: Any) -> Any:
        return frame.select("no_such_column")

    def divides(frame: Any) -> Any:
        return frame.selectExpr("id", "cast(raise_error('bad row') as bigint) as twice")

    for function, cause in ((wrong, "no_such_column"), (divides, "bad row"), (lambda frame: 1, "int")):
        error = spark_process.run(error_of, spark_process.settings, function, [[(1, "a")]])
        assert error.startswith("UserCodeError: operator join (1/1): ")
        assert cause in error


def test_a_record_that_does_not_fit_is_refused(spark_process: Any) -> None:
    error = spark_process.run(error_of, spark_process.settings, twice, [[("one", "a")]])
    assert error.startswith("UserCodeError: operator join (1/1): a record does not fit")


def test_a_source_goes_on_after_the_last_record_of_its_snapshot(spark_process: Any) -> None:
    settings = spark_process.settings
    everything, end = spark_process.run(read_source, settings, [0], -1, 300)
    assert everything == sorted(((n, f"n{n % 7}") for n in range(1_000)), key=lambda row: (row[1], row[0]))
    assert end == [1_000]
    head, position = spark_process.run(read_source, settings, [0], 2, 150)
    tail, _ = spark_process.run(read_source, settings, position, -1, 400)
    assert len(head) == 300
    assert head + tail == everything


def test_a_killed_java_fails_the_epoch_and_the_next_attempt_gets_a_new_session(spark_process: Any) -> None:
    pid = spark_process.run(java_pid)
    driver = psutil.Process(pid)

    def with_a_kill(frame: Any) -> Any:
        os.kill(pid, 9)
        return twice(frame)

    error = spark_process.run(error_of, spark_process.settings, with_a_kill, [[(1, "a")]])
    assert error.startswith("UserCodeError: operator join (1/1): its Spark job failed")
    psutil.wait_procs([driver], timeout=10)
    assert spark_process.run(run_stage, spark_process.settings, twice, [[(1, "a")]]) == (0, [(1, 2)])
    assert spark_process.run(java_pid) != pid


def test_stop_leaves_no_java_behind(spark_process: Any, java_processes: Any) -> None:
    running = java_processes()
    assert running
    spark_process.run(stop)
    _gone, alive = psutil.wait_procs(running, timeout=30)
    assert alive == []
