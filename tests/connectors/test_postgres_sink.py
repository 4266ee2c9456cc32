"""The exactly-once PostgreSQL sink against a real server: nothing lost, nothing doubled, clear errors."""

from __future__ import annotations

import datetime
import pickle
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from tidegate.common import Row, WatermarkStrategy
from tidegate.common.errors import ConfigurationError, UserCodeError
from tidegate.datastream import MapFunction, StreamExecutionEnvironment
from tidegate.datastream.connectors.number_seq import NumberSequenceSource
from tidegate.datastream.connectors.postgres import PostgresConnectorError, PostgresSink
from tidegate.operators.base import OperatorContext
from tidegate.operators.output import Output
from tidegate.operators.sinks import SinkOperator
from tidegate.protocol.checkpoints.handles import OperatorSnapshot
from tidegate.protocol.checkpoints.redistribution import redistribute
from tidegate.protocol.elements import Batch, CheckpointBarrier
from tidegate.protocol.ids import CheckpointId
from tidegate.testing import PostgresServer

from .halves import InTwoHalves

MakeContext = Callable[..., OperatorContext]


@pytest.fixture
def numbers(database: Any) -> Any:
    # With a key: a transaction that nobody decides would block whoever writes the same number again.
    database.query("CREATE TABLE numbers (number bigint PRIMARY KEY)")
    return database


def visible(database: Any) -> list[int]:
    return [number for (number,) in database.query("SELECT number FROM numbers ORDER BY 1")]


class Run:
    """One attempt of a job with one sink subtask, step by step; a crash is that nobody calls it any more.

    `completed` is what a complete checkpoint holds: the sink's snapshot and the source's position.
    """

    def __init__(
        self, sink: PostgresSink, context: OperatorContext, completed: tuple[OperatorSnapshot | None, int]
    ) -> None:
        self.completed = completed
        snapshot, self._position = completed
        self._checkpoint_id = CheckpointId(int(context.attempt) * 10)
        self.operator = SinkOperator(pickle.loads(pickle.dumps(sink)))
        if snapshot is not None:
            (mine,) = redistribute([snapshot], 1, 128)
            context.operator_state.restore(mine.lists, True)
        self.operator.setup(context, Output())

    def open(self) -> None:
        self.operator.open()

    def write(self) -> None:
        self.operator.process_batch(Batch([(self._position + step,) for step in range(5)]), 0)
        self._position += 5

    def prepare(self) -> None:
        self._checkpoint_id = CheckpointId(self._checkpoint_id + 1)
        self.operator.prepare_snapshot(CheckpointBarrier(self._checkpoint_id, 0))

    def snapshot(self) -> None:
        frozen = self.operator.snapshot_state(CheckpointBarrier(self._checkpoint_id, 0))
        self._snapshot = (frozen.persist(), self._position)

    def complete(self) -> None:
        self.completed = self._snapshot

    def commit(self) -> None:
        self.operator.notify_checkpoint_complete(self._checkpoint_id)


EPOCH = [Run.write, Run.write, Run.prepare, Run.snapshot, Run.complete, Run.commit]
STEPS = [Run.open, *EPOCH, *EPOCH]


@pytest.mark.parametrize("crash_after", range(len(STEPS) + 1))
def test_every_record_is_written_once_if_the_process_dies_between_any_two_steps(
    numbers: Any, operator_context: MakeContext, crash_after: int
) -> None:
    sink = PostgresSink(numbers.conninfo, "numbers", retry_timeout_s=5)
    completed: tuple[OperatorSnapshot | None, int] = (None, 0)
    runs = []  # those that crashed keep their sessions, as a process does that was only cut off
    for attempt, steps in enumerate((STEPS[:crash_after], STEPS[: 1 + crash_after // 2], STEPS), start=1):
        run = Run(sink, operator_context(attempt), completed)
        runs.append(run)
        for step in steps:
            step(run)
        completed = run.completed
    assert visible(numbers) == list(range(completed[1]))
    assert numbers.prepared() == []


def test_nothing_is_visible_before_its_checkpoint_is_complete(
    numbers: Any, operator_context: MakeContext
) -> None:
    run = Run(PostgresSink(numbers.conninfo, "numbers"), operator_context(), (None, 0))
    for step in (Run.open, Run.write, Run.prepare, Run.snapshot):
        step(run)
        assert visible(numbers) == []
    assert len(numbers.prepared()) == 1
    run.commit()
    assert visible(numbers) == list(range(5))
    run.operator.close()


def test_a_transaction_that_somebody_rolled_back_is_not_taken_for_committed(
    numbers: Any, operator_context: MakeContext
) -> None:
    sink = PostgresSink(numbers.conninfo, "numbers")
    sink.commit_attempts = 1
    run = Run(sink, operator_context(), (None, 0))
    for step in STEPS[:6]:
        step(run)
    (name,) = numbers.prepared()
    numbers.query(f"ROLLBACK PREPARED '{name}'")
    again = Run(sink, operator_context(2), run.completed)
    with pytest.raises(PostgresConnectorError, match=r"numbers \(1/1\).*aborted.*records are missing"):
        again.open()


@pytest.mark.parametrize("parallelism", [1, 3])
def test_transactions_that_wait_for_their_commit_move_with_a_rescale(
    numbers: Any, operator_context: MakeContext, parallelism: int
) -> None:
    sink = PostgresSink(numbers.conninfo, "numbers")
    snapshots = []
    for subtask in (0, 1):
        run = Run(sink, operator_context(1, subtask, 2), (None, 100 * subtask))
        for step in STEPS[:5]:
            step(run)
        assert run._snapshot[0] is not None
        snapshots.append(run._snapshot[0])
    for subtask, snapshot in enumerate(redistribute(snapshots, parallelism, 128)):
        operator = SinkOperator(sink)
        context = operator_context(2, subtask, parallelism)
        context.operator_state.restore(snapshot.lists, True)
        operator.setup(context, Output())
        operator.open()
    assert visible(numbers) == [*range(10), *range(100, 110)]
    assert numbers.prepared() == []


def test_another_job_with_the_same_prefix_clears_away_what_a_dead_one_left(
    numbers: Any, operator_context: MakeContext
) -> None:
    sink = PostgresSink(numbers.conninfo, "numbers", transaction_prefix="orders")
    unrelated = PostgresSink(numbers.conninfo, "numbers", transaction_prefix="other")
    for position, left in ((0, sink), (50, unrelated)):
        run = Run(left, operator_context(3, job="dead"), (None, position))
        for step in STEPS[:5]:
            step(run)
    assert len(numbers.prepared()) == 2
    run = Run(sink, operator_context(1, job="alive"), (None, 0))
    for step in STEPS:
        step(run)
    assert visible(numbers) == list(range(20))
    (kept,) = numbers.prepared()
    assert "/other/" in kept
    numbers.query(f"ROLLBACK PREPARED '{kept}'")


# ---------------------------------------------------------------- records


def written(database: Any, context: OperatorContext, sink: PostgresSink, values: Any) -> None:
    operator = SinkOperator(sink)
    operator.setup(context, Output())
    operator.open()
    try:
        operator.process_batch(Batch(values), 0)
        operator.prepare_snapshot(CheckpointBarrier(CheckpointId(1), 0))
        operator.snapshot_state(CheckpointBarrier(CheckpointId(1), 0))
        operator.notify_checkpoint_complete(CheckpointId(1))
    finally:
        operator.close()


def test_tuples_lists_dicts_and_rows_are_all_taken(database: Any, operator_context: MakeContext) -> None:
    database.query("CREATE TABLE people (id serial, name text, age int)")
    records = [("a", 1), ["b", None], {"age": 3, "name": ""}, Row("d", 4), Row(name="e\t\\N", age=5)]
    sink = PostgresSink(database.conninfo, "people", ["name", "age"])
    written(database, operator_context(), sink, records)
    assert database.query("SELECT name, age FROM people ORDER BY id") == [
        ("a", 1),
        ("b", None),
        ("", 3),
        ("d", 4),
        ("e\t\\N", 5),
    ]


TYPES = """CREATE TABLE "Odd Names".values (i int, f float8, n numeric, t text, d date, ts timestamp,
    tz timestamptz, b boolean, raw bytea, doc jsonb, many int[],
    generated int GENERATED ALWAYS AS (i + 1) STORED)"""


def test_python_values_of_many_types_arrive_as_they_are(database: Any, operator_context: MakeContext) -> None:
    database.query('CREATE SCHEMA "Odd Names"')
    database.query(TYPES)
    when = datetime.datetime(2026, 2, 28, 23, 59, 59, 999_999)
    utc = when.replace(tzinfo=datetime.timezone.utc)
    record = (
        1, float("inf"), Decimal("1.50"), 'q"ü\n', when.date(), when, utc, True, b"\x00\xff",
        {"a": [1]}, [1, 2],
    )  # fmt: skip
    sink = PostgresSink(database.conninfo, "Odd Names.values")
    written(database, operator_context(), sink, [record, (None,) * 11])
    assert database.query('SELECT * FROM "Odd Names".values ORDER BY i') == [(*record, 2), (None,) * 12]


def test_arrow_batches_are_matched_by_name_and_keep_nulls_and_empty_texts(
    database: Any, operator_context: MakeContext
) -> None:
    database.query("CREATE TABLE readings (n bigint, text text, at timestamptz, price numeric, ok boolean)")
    batch = pa.record_batch(
        {
            "ok": pa.array([True, None, False]),
            "price": pa.array([Decimal("1.10"), None, Decimal("-2.00")], pa.decimal128(10, 2)),
            "at": pa.array([0, None, 1_500], pa.timestamp("ms", "UTC")),
            "text": pa.array(['a "quoted", \\.\nline', "", None]),
            "n": pa.array([1, None, 3], pa.int64()),
            "not written": pa.array([1, 2, 3]),
        }
    )
    written(database, operator_context(), PostgresSink(database.conninfo, "readings"), batch)
    at = datetime.datetime.fromtimestamp(0, datetime.timezone.utc)
    assert database.query("SELECT * FROM readings ORDER BY n") == [
        (1, 'a "quoted", \\.\nline', at, Decimal("1.10"), True),
        (3, None, at + datetime.timedelta(milliseconds=1_500), Decimal("-2.00"), False),
        (None, "", None, None, None),
    ]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (("many",), "invalid input syntax for type bigint"),
        ((1, 2), "2 fields"),
        ((None,), "null value"),
        ((3,), "duplicate key"),
        ((1 << 70,), "out of range"),
        (({1},), "cannot adapt type"),
        ("text", "it is a str"),
    ],
)
def test_a_record_that_does_not_fit_is_shown(
    numbers: Any, operator_context: MakeContext, bad: Any, reason: str
) -> None:
    sink = PostgresSink(numbers.conninfo, "numbers")
    with pytest.raises(UserCodeError, match=rf"numbers \(1/1\): the record .*numbers: .*{reason}") as raised:
        written(numbers, operator_context(), sink, [(3,), bad, (4,)])
    if "duplicate" not in reason:
        assert repr(bad)[:20] in str(raised.value)
    assert visible(numbers) == []


def test_values_that_arrow_would_write_otherwise_arrive_as_psycopg_writes_them(
    database: Any, operator_context: MakeContext
) -> None:
    database.query("CREATE TABLE shown (id serial, n numeric, t text, f float8, b boolean)")
    records = [
        (5.0, 2.0, 0.1, True), (1 << 70, True, float("nan"), None), (None, None, None, False),
        (7, datetime.date(2026, 2, 28), float("-inf"), True), (8, "\\.", 1e300, True), (9, "", -0.0, True),
        (1, "a\r\nb\n\\.\n", 5e-324, True),
    ]  # fmt: skip
    sink = PostgresSink(database.conninfo, "shown", ["n", "t", "f", "b"])
    written(database, operator_context(), sink, records)
    assert database.query("SELECT n::text, t, f::text, b FROM shown ORDER BY id") == [
        ("5.0", "2.0", "0.1", True), (str(1 << 70), "t", "NaN", None), (None, None, None, False),
        ("7", "2026-02-28", "-Infinity", True), ("8", "\\.", "1e+300", True), ("9", "", "-0", True),
        ("1", "a\r\nb\n\\.\n", "5e-324", True),
    ]  # fmt: skip


def test_the_record_that_does_not_fit_is_found_behind_texts_of_several_lines(
    database: Any, operator_context: MakeContext
) -> None:
    database.query("CREATE TABLE notes (text text, many text[], small smallint)")
    good = [("two\nlines", ["a\nb\nc"], 1), ("", None, 2)] * 3_000
    records = [*good, ("bad\none", [], 40_000), *good]
    sink = PostgresSink(database.conninfo, "notes")
    with pytest.raises(UserCodeError, match=r"the record \('bad\\none', \[\], 40000\) does not fit"):
        written(database, operator_context(), sink, records)
    columns = pa.RecordBatch.from_pylist(
        [{"text": text, "small": small} for text, _, small in records],
        pa.schema({"text": pa.string(), "small": pa.int32()}),
    )
    sink = PostgresSink(database.conninfo, "notes", ["text", "small"])
    with pytest.raises(UserCodeError, match=r"the record \{'text': 'bad\\none', 'small': 40000\} does not"):
        written(database, operator_context(), sink, columns)


def test_a_time_limit_for_statements_does_not_end_an_epoch(
    numbers: Any, operator_context: MakeContext
) -> None:
    limited = f"options='--search_path={numbers.name} --statement_timeout=200'"
    sink = PostgresSink(f"{numbers.server.conninfo()} {limited}", "numbers")
    run = Run(sink, operator_context(), (None, 0))
    run.open()
    run.write()
    # Longer than the limit, in a session of its own.
    numbers.query("SELECT pg_sleep(0.5)")
    for step in (Run.write, Run.prepare, Run.snapshot, Run.commit):
        step(run)
    assert visible(numbers) == list(range(10))
    run.operator.close()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("DROP TABLE numbers", r'relation "numbers" does not exist; create the table'),
        ("ALTER TABLE numbers RENAME number TO n", r'column "number" .* does not exist; correct the columns'),
    ],
)
def test_a_table_that_changes_while_the_job_runs_is_a_clear_error(
    numbers: Any, operator_context: MakeContext, change: str, problem: str
) -> None:
    run = Run(PostgresSink(numbers.conninfo, "numbers"), operator_context(), (None, 0))
    for step in STEPS[:7]:
        step(run)
    numbers.query(change)
    with pytest.raises(PostgresConnectorError, match=rf"numbers \(1/1\): writing table numbers .*{problem}"):
        run.write()
    run.operator.close()


def test_a_column_that_arrow_cannot_send_is_named(numbers: Any, operator_context: MakeContext) -> None:
    sink = PostgresSink(numbers.conninfo, "numbers")
    with pytest.raises(UserCodeError, match=r"number: binary cannot be written"):
        written(numbers, operator_context(), sink, pa.record_batch({"number": pa.array([b"1"])}))
    with pytest.raises(UserCodeError, match=r"no column number"):
        written(numbers, operator_context(), sink, pa.record_batch({"other": pa.array([1])}))


# ---------------------------------------------------------------- in a job


def run_into(env: StreamExecutionEnvironment, sink: Any) -> None:
    numbers = env.from_source(NumberSequenceSource(0, 9), WatermarkStrategy.no_watermarks(), "numbers")
    numbers.map(lambda number: (number,)).sink_to(sink).name("rows").uid("rows")
    env.execute()


@pytest.mark.parametrize(
    ("changed", "columns", "problem"),
    [
        (("password=", "password=wrong"), None, "password authentication failed"),
        (("dbname=", "dbname=no_"), None, "does not exist"),
        (("host=127.0.0.1", "host=127.0.0.1 hostaddr=127.0.0.1 port=1 #"), None, "malformed"),
        (("", ""), ["nummer"], "no column nummer that can be written; it has number"),
        (("", ""), [], "leaves out number"),
    ],
)
def test_what_cannot_work_is_an_error_before_the_job_starts(
    numbers: Any,
    local_env: Callable[..., StreamExecutionEnvironment],
    changed: tuple[str, str],
    columns: Any,
    problem: str,
) -> None:
    with pytest.raises(ConfigurationError, match=problem) as raised:
        run_into(local_env(), PostgresSink(numbers.conninfo.replace(*changed), "numbers", columns))
    assert "password=" not in str(raised.value)


def test_a_missing_table_is_an_error_before_the_job_starts(
    database: Any, local_env: Callable[..., StreamExecutionEnvironment]
) -> None:
    with pytest.raises(ConfigurationError, match=r"no table public\.orders in database postgres; create it"):
        run_into(local_env(), PostgresSink(database.conninfo, "public.orders"))


def test_a_server_that_is_away_is_an_error_before_the_job_starts(
    local_env: Callable[..., StreamExecutionEnvironment],
) -> None:
    with pytest.raises(ConfigurationError, match=r"cannot connect to .* at 127\.0\.0\.1:1: "):
        run_into(local_env(), PostgresSink("host=127.0.0.1 port=1 dbname=x", "numbers"))


def test_a_server_without_prepared_transactions_is_an_error_before_the_job_starts(
    local_env: Callable[..., StreamExecutionEnvironment],
) -> None:
    with PostgresServer(max_prepared_transactions=0) as server:
        sink = PostgresSink(server.conninfo(), "pg_catalog.pg_description")
        with pytest.raises(ConfigurationError, match=r"max_prepared_transactions = 0.*PostgresUpsertSink"):
            run_into(local_env(), sink)


CURRENT: dict[str, Any] = {}
"""The database and the fault of the test at hand: functions of a job are pickled, and cannot hold them."""


def first_half_is_there() -> bool:
    found: int = CURRENT["database"].query("SELECT count(*) FROM numbers WHERE mod(number, 1000) < 500")[0][0]
    return found == 1_000


class FailsOnce(MapFunction):
    def map(self, value: int) -> tuple[int]:
        if value == 1_700 and CURRENT["faults"]:
            CURRENT["faults"].pop()()
        return (value,)


def injected() -> None:
    raise RuntimeError("injected")


def server_failure() -> None:
    server = CURRENT["database"].server
    server.crash()
    server.start()


@pytest.mark.parametrize("fault", [injected, server_failure])
def test_a_job_that_fails_between_two_checkpoints_writes_every_record_once(
    numbers: Any, local_env: Callable[..., StreamExecutionEnvironment], fault: Callable[[], None]
) -> None:
    CURRENT.update(database=numbers, faults=[fault])
    env = local_env(parallelism=2)
    source = env.from_source(InTwoHalves(first_half_is_there), WatermarkStrategy.no_watermarks(), "numbers")
    source.map(FailsOnce()).sink_to(PostgresSink(numbers.conninfo, "numbers")).uid("rows")

    report = env.execute("numbers").report

    assert CURRENT["faults"] == []
    assert visible(numbers) == list(range(2_000))
    assert numbers.prepared() == []
    assert report.restarts >= 1
