"""The file sink writes every record once, whatever happens between any two of its steps."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tidegate.common import Configuration, Row, WatermarkStrategy, failpoints
from tidegate.common.errors import ConfigurationError, UserCodeError
from tidegate.connectors.files.parts import FileTransaction
from tidegate.datastream import MapFunction, StreamExecutionEnvironment
from tidegate.datastream.connectors.file_system import (
    FileConnectorError,
    FileSink,
    ParquetFormat,
    RollingPolicy,
)
from tidegate.operators.base import OperatorContext
from tidegate.operators.output import Output
from tidegate.operators.sinks import SinkOperator
from tidegate.operators.timers.processing_time import ProcessingTimeService
from tidegate.protocol.checkpoints.handles import OperatorSnapshot
from tidegate.protocol.checkpoints.redistribution import redistribute
from tidegate.protocol.elements import Batch, CheckpointBarrier
from tidegate.protocol.ids import Attempt, CheckpointId, JobId
from tidegate.state.operator.list_storage import OperatorStateBackendParameters
from tidegate.state.operator.operator_state_backend import OperatorStateBackend
from tidegate.state.storage.memory_storage import MemoryCheckpointStorage

from .halves import InTwoHalves

STORAGE = MemoryCheckpointStorage()
NUMBERS = pa.schema([("number", pa.int64())])


class NoResults:
    def offer(self, key: str, values: list[Any]) -> None:
        raise AssertionError("a file sink offers nothing to the driver")

    def has_credit(self) -> bool:
        return True


def no_keyed_state(key_type: object) -> Any:
    raise AssertionError("a sink has no keyed state")


def context(
    attempt: int = 1, subtask: int = 0, parallelism: int = 1, uid: str = "sink", job: str = "job"
) -> OperatorContext:
    return OperatorContext(
        operator_uid=uid,
        operator_name="numbers sink",
        subtask_index=subtask,
        parallelism=parallelism,
        max_parallelism=128,
        attempt=Attempt(attempt),
        attempt_number=attempt - 1,
        is_checkpointing=True,
        is_restored=attempt > 1,
        now_ms=lambda: 0,
        processing_time=ProcessingTimeService(lambda: 0),
        mailbox=lambda action: None,
        create_keyed_backend=no_keyed_state,
        operator_state=OperatorStateBackend(
            OperatorStateBackendParameters(uid, "numbers sink", subtask, attempt, STORAGE)
        ),
        local_dir="",
        results=NoResults(),
        job_id=JobId(job),
    )


def barrier(checkpoint_id: int) -> CheckpointBarrier:
    return CheckpointBarrier(CheckpointId(checkpoint_id), 0)


def numbers(values: Iterable[int]) -> list[tuple[int]]:
    return [(value,) for value in values]


def opened(sink: FileSink, where: OperatorContext) -> tuple[Any, Any]:
    writer, committer = sink.create_writer(), sink.create_committer()
    committer.open(where)
    writer.open(where)
    return writer, committer


def staged(directory: Path) -> list[str]:
    return sorted(path.name for path in (directory / ".staging").iterdir())


def visible(directory: Path) -> list[int]:
    files = sorted(directory.glob("*.parquet"))
    return [number for file in files for number in pq.read_table(file)["number"].to_pylist()]


class Run:
    """One attempt of a job of one sink subtask, step by step.

    `completed` is what a completed checkpoint remembers: committables and the source's position.
    """

    def __init__(self, sink: FileSink, attempt: int, completed: tuple[list[Any], int]) -> None:
        self.completed = completed
        self._committables, self._position = completed
        self._prepared: list[Any] = []
        self.writer, self.committer = opened(sink, context(attempt))

    def recommit(self) -> None:
        self.committer.commit(self._committables)

    def write(self) -> None:
        self.writer.write_batch(numbers(range(self._position, self._position + 10)))
        self._position += 10

    def prepare(self) -> None:
        self._prepared = pickle.loads(pickle.dumps(self.writer.prepare_commit()))

    def complete(self) -> None:
        self.completed = (self._prepared, self._position)

    def commit(self) -> None:
        self.committer.commit(self._prepared)

    def notify(self) -> None:
        self.committer.notify_checkpoint_complete(CheckpointId(1))


EPOCH: list[Callable[[Run], None]] = [
    Run.write, Run.write, Run.prepare, Run.complete, Run.commit, Run.notify
]  # fmt: skip
STEPS = [Run.recommit, *EPOCH, *EPOCH]
RECORDS = 40


@pytest.mark.parametrize("crash_after", range(len(STEPS) + 1))
@pytest.mark.parametrize("second_crash_after", [0, 1, 3, 5, len(STEPS)])
def test_every_record_is_written_once_if_the_process_dies_between_any_two_steps(
    tmp_path: Path, crash_after: int, second_crash_after: int
) -> None:
    sink = FileSink(tmp_path, NUMBERS)
    completed: tuple[list[Any], int] = ([], 0)
    dead = []
    for attempt, steps in enumerate((crash_after, second_crash_after), start=1):
        run = Run(sink, attempt, completed)
        dead.append(run)  # a process that is killed closes nothing
        for step in STEPS[:steps]:
            if run.completed[1] < RECORDS or step is Run.commit:
                step(run)
        completed = run.completed
        assert len(visible(tmp_path)) <= completed[1], "visible before the checkpoint was complete"

    last = Run(sink, 3, completed)
    last.recommit()
    while last.completed[1] < RECORDS:
        for step in EPOCH:
            step(last)
    last.notify()

    assert sorted(visible(tmp_path)) == list(range(RECORDS))
    assert staged(tmp_path) == []


def test_nothing_is_visible_before_the_commit(tmp_path: Path) -> None:
    writer, committer = opened(FileSink(tmp_path, NUMBERS), context())
    writer.write_batch(numbers(range(5)))
    committables = writer.prepare_commit()
    assert visible(tmp_path) == []
    committer.commit(committables)
    assert visible(tmp_path) == list(range(5))


def test_an_epoch_without_records_makes_no_file(tmp_path: Path) -> None:
    writer, _ = opened(FileSink(tmp_path, NUMBERS), context())
    assert writer.prepare_commit() == []
    assert staged(tmp_path) == []


def test_committing_again_after_a_restore_changes_nothing(tmp_path: Path) -> None:
    sink = FileSink(tmp_path, NUMBERS, rolling_policy=RollingPolicy(1), row_group_bytes=1)
    writer, committer = opened(sink, context())
    for first in (0, 5):
        writer.write_batch(numbers(range(first, first + 5)))
    committables = writer.prepare_commit()
    files = committables[0].files
    committer.commit([FileTransaction(files[:1])])  # the process died between two renames
    for attempt in (2, 3):
        _, restored = opened(sink, context(attempt))
        restored.commit(committables)
        assert visible(tmp_path) == list(range(10))


def test_a_commit_that_fails_between_two_files_is_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sink = FileSink(tmp_path, NUMBERS, rolling_policy=RollingPolicy(1), row_group_bytes=1)
    writer, committer = opened(sink, context())
    for first in (0, 5):
        writer.write_batch(numbers(range(first, first + 5)))
    committables = writer.prepare_commit()
    arming = failpoints.Arming("job", failpoints.parse("commit_mid:1:raise"), MemoryCheckpointStorage())
    failpoints.arm(arming)
    try:
        failpoints.enter(["sink"], 0)
        committer.commit(committables)
    finally:
        failpoints.arm(None)
    assert [report.fired for report in failpoints.reports(arming)] == [1]
    assert "trying again" in caplog.text
    assert visible(tmp_path) == list(range(10))


def test_a_staged_file_that_vanished_is_a_clear_error(tmp_path: Path) -> None:
    writer, committer = opened(FileSink(tmp_path, NUMBERS), context())
    writer.write_batch(numbers([1]))
    committables = writer.prepare_commit()
    Path(committables[0].files[0].staged_path).unlink()
    with pytest.raises(FileConnectorError, match=r"numbers sink \(1/1\).*cannot be committed.*is gone"):
        committer.commit(committables)


def test_left_overs_of_earlier_attempts_stay_until_a_checkpoint_of_this_one_is_complete(
    tmp_path: Path,
) -> None:
    sink = FileSink(tmp_path, NUMBERS)
    for where in (
        context(1),
        context(1, subtask=1, parallelism=2),
        context(1, uid="other"),
        context(1, job="b"),
    ):
        writer, _ = opened(sink, where)
        writer.write_batch(numbers([1]))
        writer.prepare_commit()
    writer, committer = opened(sink, context(2))
    writer.write_batch(numbers([2]))
    writer.prepare_commit()
    assert len(staged(tmp_path)) == 5

    committer.notify_checkpoint_complete(CheckpointId(1))

    # Left are those of the other operator, the other job, and this attempt.
    attempts = Counter(name.split("-")[2] for name in staged(tmp_path))
    assert attempts == {"1": 2, "2": 1}


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_files_that_wait_for_their_commit_move_with_a_rescale(tmp_path: Path, parallelism: int) -> None:
    sink = FileSink(tmp_path, NUMBERS)
    snapshots: list[OperatorSnapshot] = []
    for subtask in (0, 1):
        operator = SinkOperator(sink)
        operator.setup(context(1, subtask, 2), Output())
        operator.open()
        for epoch in (1, 2):  # neither is complete when the second is taken
            operator.process_batch(Batch(numbers([10 * subtask + epoch])), 0)
            operator.prepare_snapshot(barrier(epoch))
            frozen = operator.snapshot_state(barrier(epoch))
        snapshots.append(frozen.persist())
    assert visible(tmp_path) == []

    for subtask, snapshot in enumerate(redistribute(snapshots, parallelism, 128)):
        operator = SinkOperator(sink)
        where = context(2, subtask, parallelism)
        where.operator_state.restore(snapshot.lists, True)
        operator.setup(where, Output())
        operator.open()

    assert sorted(visible(tmp_path)) == [1, 2, 11, 12]
    assert staged(tmp_path) == []


def test_a_checkpoint_that_never_completes_is_committed_with_the_next(tmp_path: Path) -> None:
    operator = SinkOperator(FileSink(tmp_path, NUMBERS))
    operator.setup(context(), Output())
    operator.open()
    for epoch in (1, 2, 3):
        operator.process_batch(Batch(numbers([epoch])), 0)
        operator.prepare_snapshot(barrier(epoch))
        operator.snapshot_state(barrier(epoch))
    operator.notify_checkpoint_aborted(CheckpointId(1))
    operator.notify_checkpoint_complete(CheckpointId(2))
    assert visible(tmp_path) == [1, 2]


def test_the_operator_lets_the_committer_clean_up_once_a_checkpoint_is_complete(tmp_path: Path) -> None:
    for attempt in (1, 2):
        operator = SinkOperator(FileSink(tmp_path, NUMBERS))
        operator.setup(context(attempt), Output())
        operator.open()
        operator.process_batch(Batch(numbers([attempt])), 0)
        operator.prepare_snapshot(barrier(attempt))
    assert len(staged(tmp_path)) == 2
    operator.notify_checkpoint_complete(CheckpointId(2))
    assert visible(tmp_path) == [2]
    assert staged(tmp_path) == []


def test_closing_a_writer_removes_what_it_did_not_hand_over(tmp_path: Path) -> None:
    sink = FileSink(tmp_path, NUMBERS, rolling_policy=RollingPolicy(1_000), row_group_bytes=100)
    writer, _ = opened(sink, context())
    for first in range(0, 1_000, 20):
        writer.write_batch(numbers(range(first, first + 20)))
    assert len(staged(tmp_path)) > 1
    writer.close()
    assert staged(tmp_path) == []


def test_files_roll_at_their_size_and_records_are_held_up_to_one_row_group(tmp_path: Path) -> None:
    sink = FileSink(
        tmp_path,
        NUMBERS,
        file_format=ParquetFormat("none"),
        rolling_policy=RollingPolicy(20_000),
        row_group_bytes=8_000,
    )
    writer, committer = opened(sink, context())
    for first in range(0, 10_000, 100):
        writer.write_batch(numbers(range(first, first + 100)))
    committer.commit(writer.prepare_commit())
    files = sorted(tmp_path.glob("*.parquet"))
    assert len(files) > 2
    assert all(file.stat().st_size < 40_000 for file in files)
    assert {pq.ParquetFile(file).metadata.row_group(0).num_rows for file in files} == {1_000}
    assert sorted(visible(tmp_path)) == list(range(10_000))


def test_the_name_of_a_file_tells_subtask_attempt_and_sequence(tmp_path: Path) -> None:
    writer, committer = opened(FileSink(tmp_path, NUMBERS), context(7, subtask=3, parallelism=4))
    for _ in range(2):
        writer.write_batch(numbers([1]))
        committer.commit(writer.prepare_commit())
    names = sorted(path.name[: len("part-3-7-0")] for path in tmp_path.glob("*.parquet"))
    assert names == ["part-3-7-0", "part-3-7-1"]


def test_a_full_disk_names_operator_and_file_and_leaves_earlier_files_alone(tmp_path: Path) -> None:
    writer, committer = opened(FileSink(tmp_path, NUMBERS), context())
    writer.write_batch(numbers([1]))
    committables = writer.prepare_commit()
    committer.commit(committables)
    # The next file lies on a device that is always full.
    name = Path(committables[0].files[0].staged_path).name.replace("part-0-1-0", "part-0-1-1")
    (tmp_path / ".staging" / name).symlink_to("/dev/full")
    writer.write_batch(numbers([2]))
    with pytest.raises(FileConnectorError, match=rf"numbers sink \(1/1\).*{name}.*No space left.*free"):
        writer.prepare_commit()
    writer.close()
    assert visible(tmp_path) == [1]


def test_a_directory_that_cannot_be_made_names_operator_and_path(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FileConnectorError, match=r"numbers sink \(1/1\): creating .*file/out.*is a file"):
        opened(FileSink(tmp_path / "file" / "out", NUMBERS), context())


def test_a_file_system_that_is_not_there_is_an_error_that_shows_no_secret() -> None:
    with pytest.raises(ConfigurationError, match=r"nfs5://host/out is in no file system") as raised:
        FileSink("nfs5://user:secret@host/out?key=secret", NUMBERS)
    assert "secret" not in str(raised.value)


PERSON = pa.schema([("name", pa.string()), pa.field("age", pa.int32(), nullable=False)])


def test_tuples_lists_dicts_and_rows_are_all_taken(tmp_path: Path) -> None:
    writer, committer = opened(FileSink(tmp_path, PERSON), context())
    writer.write_batch([("a", 1), ["b", 2], {"age": 3, "name": "c"}, Row("d", 4), Row(name="e", age=5)])
    committer.commit(writer.prepare_commit())
    (file,) = tmp_path.glob("*.parquet")
    assert pq.read_table(file).to_pydict() == {"name": list("abcde"), "age": [1, 2, 3, 4, 5]}


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (("x", "many"), "many"),
        (("x",), "1 fields"),
        (("x", 1, 2), "3 fields"),
        (("x", None), "age must not be None"),
        ({"name": "x"}, "its fields are"),
        ("text", "str"),
        (("x", 1 << 40), "1099511627776"),
    ],
)
def test_a_record_that_does_not_fit_is_shown(tmp_path: Path, bad: Any, reason: str) -> None:
    writer, _ = opened(FileSink(tmp_path, PERSON), context())
    with pytest.raises(UserCodeError, match=rf"numbers sink \(1/1\): the record .*{reason}"):
        writer.write_batch([("fine", 1), bad, ("fine", 2)])


# ---------------------------------------------------------------- in a job


class FailsOnce(MapFunction):
    def __init__(self, marker: Path) -> None:
        self._marker = marker

    def map(self, value: int) -> tuple[int]:
        if value == 1_700 and not self._marker.exists():
            self._marker.touch()
            raise RuntimeError("injected")
        return (value,)


def test_a_job_that_fails_between_two_checkpoints_writes_every_record_once(tmp_path: Path) -> None:
    out = tmp_path / "out"
    configuration = Configuration()
    configuration.set_string("execution.target", "local")
    configuration.set_string("execution.checkpointing.interval", "20 ms")
    configuration.set_string("execution.checkpointing.dir", str(tmp_path / "checkpoints"))
    env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(2)
    source = env.from_source(
        InTwoHalves(lambda: any(out.glob("*.parquet"))), WatermarkStrategy.no_watermarks(), "numbers"
    )
    source.map(FailsOnce(tmp_path / "failed")).sink_to(FileSink(out, NUMBERS)).uid("files")

    report = env.execute("files").report

    assert report.restarts == 1
    assert sorted(visible(out)) == list(range(2_000))
    assert staged(out) == []
