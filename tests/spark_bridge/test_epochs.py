"""Stages in jobs on the local target; all share one Spark session of this process."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tidegate.common import WatermarkStrategy
from tidegate.common.errors import JobExecutionError
from tidegate.datastream import DataStream, StreamExecutionEnvironment
from tidegate.protocol.elements import MAX_WATERMARK_MS
from tidegate.protocol.stages.epochs import EpochLimits
from tidegate.spark_bridge.stage import SparkStageOperator, StageSettings

from . import jobs

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark_session")]

OUTPUT = pa.schema([("id", pa.int64()), ("twice", pa.int64())])
SIZES = pa.schema([("id", pa.int64()), ("epoch_size", pa.int64())])


def twice(frame: Any) -> Any:
    return frame.selectExpr("id", "id * 2 as twice")


def epoch_size(frame: Any) -> Any:
    return frame.selectExpr("id", "count(*) over () as epoch_size")


def never_called(frame: Any) -> Any:
    raise AssertionError("an epoch without records was run")


def records(stream: Any) -> list[Any]:
    with stream.execute_and_collect() as results:
        return list(results)


def held(env: StreamExecutionEnvironment, count: int, hold_at: int) -> DataStream:
    """Numbers that stop until the second checkpoint; the first may be taken before they come."""
    source = jobs.HeldSparkSource(
        lambda spark: spark.range(count),
        jobs.SPARK,
        lambda taken, _: jobs.NO_LIMIT if taken > 1 else hold_at,
    )
    return env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")


def error_of(function: Callable[[Any], Any], collection: list[Any], schema: pa.Schema | None) -> str:
    # Each record is a batch of its own, whose types are inferred where no schema is declared.
    stream = jobs.environment(options={"tidegate.batch.size": "1"}).from_collection(collection)
    with pytest.raises(JobExecutionError) as raised:
        records(stream.spark_stage(function, OUTPUT, input_schema=schema).name("join"))
    # The traceback follows for those who want it.
    return str(raised.value).splitlines()[0]


def test_results_come_in_the_order_of_their_records() -> None:
    stream = jobs.environment().from_collection([(n,) for n in range(2_000)])
    results = records(stream.spark_stage(twice, OUTPUT, input_schema=jobs.NUMBERS))
    assert results == [(n, 2 * n) for n in range(2_000)]


def test_an_epoch_that_is_full_does_not_wait() -> None:
    env = jobs.environment(options={"tidegate.batch.size": "10"})
    stream = env.from_collection([(n,) for n in range(250)])
    results = records(stream.spark_stage(epoch_size, SIZES, jobs.NUMBERS, max_epoch_records=100))
    assert sorted(results) == [(n, 50 if n >= 200 else 100) for n in range(250)]


def test_an_interval_ends_an_epoch_and_watermarks_wait_for_it() -> None:
    settings = StageSettings(jobs.SPARK, jobs.NUMBERS, EpochLimits(100, 1_000))
    stage = jobs.StageUnderTest(SparkStageOperator(epoch_size, SIZES, settings))
    stage.take_mail()
    stage.advance_to(5_000)
    stage.process([(1,)])
    stage.operator.process_watermark(10)
    stage.advance_to(5_999)
    stage.process([(2,)])
    stage.operator.process_watermark(20)
    stage.checkpoint(1)
    assert stage.mail.empty()
    stage.advance_to(6_000)
    stage.process([(3,)])
    stage.operator.process_watermark(30)
    stage.take_mail()
    assert (jobs.emitted(stage), stage.watermarks) == ([(1, 2), (2, 2)], [20])
    stage.operator.process_watermark(MAX_WATERMARK_MS)
    assert not stage.operator.is_drained()
    stage.take_mail()
    assert (jobs.emitted(stage)[2:], stage.watermarks) == ([(3, 1)], [20, MAX_WATERMARK_MS])
    assert stage.operator.is_drained()
    stage.operator.close()


def test_a_query_and_settings_of_a_stage_are_its_own() -> None:
    stream = jobs.environment().from_collection([(n,) for n in range(3)])
    query = "select id, cast(typeof(id) = 'bigint' as bigint) + 1 as twice from {epoch} where id > 0"
    first = stream.spark_stage(query, OUTPUT, jobs.NUMBERS, configs={"spark.sql.shuffle.partitions": "7"})

    def partitions(frame: Any) -> Any:
        return frame.selectExpr(
            "id", f"{frame.sparkSession.conf.get('spark.sql.shuffle.partitions')}L as twice"
        )

    inherited = first.spark_stage(partitions, OUTPUT, OUTPUT)
    own = inherited.spark_stage(partitions, OUTPUT, OUTPUT, configs={"spark.sql.shuffle.partitions": "9"})
    # Were the settings of one stage those of another, the last would not be the only one with nine.
    both = first.map(lambda row: (*row, 0)).union(
        inherited.map(lambda row: (*row, 1)), own.map(lambda row: (*row, 2))
    )
    found = records(both)
    assert sorted(found) == [(1, 2, 0), (1, 2, 1), (1, 9, 2), (2, 2, 0), (2, 2, 1), (2, 9, 2)]


def test_a_setting_of_the_session_is_refused_for_a_stage() -> None:
    stream = jobs.environment().from_collection([(1,)])
    stage = stream.spark_stage(twice, OUTPUT, jobs.NUMBERS, configs={"spark.executor.memory": "2g"})
    with pytest.raises(JobExecutionError, match=r"spark\.executor\.memory cannot be set for one stage"):
        records(stage)


def test_an_epoch_without_records_is_not_run(tmp_path: Path) -> None:
    env = jobs.environment(tmp_path)
    source = jobs.HeldSparkSource(
        lambda spark: spark.range(10),
        jobs.SPARK,
        lambda taken, _: 999 if taken > 1 else 5,
    )
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    nothing = numbers.filter(lambda record: False).uid("filter")
    assert records(nothing.spark_stage(never_called, OUTPUT, jobs.NUMBERS).uid("stage")) == []


def test_nulls_and_types_survive_two_stages() -> None:
    schema = pa.schema(
        [
            ("whole", pa.int64()),
            ("small", pa.int16()),
            ("real", pa.float64()),
            ("flag", pa.bool_()),
            ("text", pa.string()),
            ("raw", pa.binary()),
            ("day", pa.date32()),
            ("at", pa.timestamp("us")),
            ("amount", pa.decimal128(12, 2)),
            ("parts", pa.list_(pa.int64())),
        ]
    )
    given = [
        # More digits than a float has: a way through pandas would round it because of the null below.
        (
            2**62 + 1,
            -7,
            0.1,
            True,
            "é\n",
            b"\x00\xff",
            dt.date(1969, 7, 20),
            None,
            Decimal("-1.20"),
            [1, None],
        ),
        (None,) * 10,
        (0, None, None, False, "", b"", None, dt.datetime(1955, 11, 5, 6, 15, 0, 1), Decimal("0.00"), []),
    ]
    stream = jobs.environment().from_collection(given)
    for name in ("first", "second"):
        stream = stream.spark_stage(lambda frame: frame, schema, input_schema=schema).name(name)
    assert records(stream) == given


def test_columns_are_inferred_where_none_are_declared() -> None:
    env = jobs.environment(options={"tidegate.batch.size": "1"})
    stream = env.from_collection([(1, None), (2, "b"), (None, None)])
    schema = pa.schema([("_1", pa.int64()), ("_2", pa.string())])
    assert records(stream.spark_stage(lambda frame: frame, schema)) == [(1, None), (2, "b"), (None, None)]


def test_another_schema_is_one_error_that_shows_both() -> None:
    def as_text(frame: Any) -> Any:
        return frame.selectExpr("id", "cast(id as string) as twice")

    error = error_of(as_text, [(1,)], jobs.NUMBERS)
    for words in ("operator join (1/1)", "(id: int64, twice: int64)", "(id: int64, twice: string)", "cast"):
        assert words in error


def boom(frame: Any) -> Any:
    raise ValueError("boom")


@pytest.mark.parametrize(
    ("function", "cause"),
    [
        (boom, "ValueError: boom"),
        (lambda frame: frame.select("no_such_column"), "no_such_column"),
        (lambda frame: frame.selectExpr("id", "cast(raise_error('bad') as bigint) as twice"), "bad"),
        (lambda frame: None, "returned NoneType; return a Spark DataFrame"),
        (lambda frame: pa.table({"id": [1], "twice": [2]}), "returned Table; return a Spark DataFrame"),
    ],
    ids=["exception", "unknown-column", "failing-row", "none", "arrow-table"],
)
def test_a_failing_function_is_one_short_error_that_names_the_operator(function: Any, cause: str) -> None:
    error = error_of(function, [(1,)], jobs.NUMBERS)
    assert "operator join (1/1)" in error
    assert cause in error
    assert len(error) < 1_000, "Spark's stack traces do not belong into the message"


def test_a_row_on_which_the_function_fails_is_an_error_with_its_cause_and_what_to_do() -> None:
    error = error_of(divided, [(n - 1,) for n in range(3)], jobs.NUMBERS)
    for words in (
        "operator join (1/1), epoch ",
        "its Spark job failed on ",
        "ZeroDivisionError: integer division or modulo by zero",
        "Correct the function: a restarted job runs it on these records again",
    ):
        assert words in error
    assert len(error) < 1_000


def divided(frame: Any) -> Any:
    """Fails on the one row whose id is 0."""

    def divide(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            twice = [2 // number for number in batch.column("id").to_pylist()]
            yield pa.record_batch([batch.column("id"), pa.array(twice, pa.int64())], schema=OUTPUT)

    return frame.mapInArrow(divide, "id long, twice long")


@pytest.mark.parametrize("failure", ["row", "nothing", "schema"])
def test_no_record_is_lost_when_the_function_fails_and_is_corrected(tmp_path: Path, failure: str) -> None:
    failures = tmp_path / "failures"

    def corrected_after_two_failures(frame: Any) -> Any:
        if (count := len(failures.read_bytes()) if failures.exists() else 0) < 2:
            failures.write_bytes(b"x" * (count + 1))
            wrong = {
                "row": divided(frame),
                "nothing": None,
                "schema": frame.selectExpr("id as other", "1L as twice"),
            }
            return wrong[failure]
        return twice(frame)

    stream = jobs.environment(tmp_path).from_collection([(n,) for n in range(20)]).uid("numbers")
    stage = stream.spark_stage(corrected_after_two_failures, OUTPUT, jobs.NUMBERS).uid("stage")
    assert records(stage) == [(n, 2 * n) for n in range(20)]
    assert failures.read_bytes() == b"xx"


@pytest.mark.parametrize(
    ("collection", "schema", "words"),
    [
        ([("one",)], jobs.NUMBERS, "does not fit the stage's input schema"),
        ([(1, 2)], jobs.NUMBERS, "does not fit the stage's input schema"),
        ([(dt.time(12),)], None, "Spark has no type for one of the columns (_1: time64[us])"),
        ([(1,), ("one",)], None, "declare an input_schema"),
    ],
    ids=["type", "length", "no-spark-type", "mixed"],
)
def test_a_record_that_does_not_fit_is_refused(
    collection: list[Any], schema: pa.Schema | None, words: str
) -> None:
    error = error_of(twice, collection, schema)
    assert "operator join (1/1)" in error
    assert words in error
