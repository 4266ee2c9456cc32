"""Compaction in the file sink: files are merged, and every record appears once, whenever a process dies."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tidegate.common import WatermarkStrategy
from tidegate.common.errors import ConfigurationError
from tidegate.common.serialization import Encoder
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.datastream.connectors.file_system import (
    BucketAssigner,
    CsvFormat,
    FileCompactor,
    FileCompactStrategy,
    FileSink,
    FileSource,
    ParquetFormat,
    StreamFormat,
)
from tidegate.operators.output import Output
from tidegate.operators.sinks import SinkOperator
from tidegate.protocol.checkpoints.handles import OperatorSnapshot
from tidegate.protocol.checkpoints.redistribution import redistribute
from tidegate.protocol.elements import Batch
from tidegate.protocol.ids import CheckpointId

from .test_file_sink import NUMBERS, barrier, context, numbers, staged, visible

MakeEnv = Callable[..., StreamExecutionEnvironment]
EVERY_3 = FileCompactStrategy.builder().enable_compaction_on_checkpoint(3).build()


def compacting(
    directory: Path, strategy: FileCompactStrategy = EVERY_3, compactor: FileCompactor | None = None
) -> FileSink:
    builder = FileSink.for_bulk_format(directory, ParquetFormat(), NUMBERS)
    builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
    merge = compactor or FileCompactor.record_wise_file_compactor()
    return builder.enable_compact(strategy, merge).build()


class Run:
    """One attempt of a sink subtask, step by step, from a completed checkpoint and the position in it."""

    def __init__(
        self,
        directory: Path,
        attempt: int,
        completed: tuple[list[OperatorSnapshot], int],
        parallelism: int = 1,
    ) -> None:
        self.completed = completed
        self.position = completed[1]
        self.epoch = 0
        self.operators = []
        parts = redistribute(completed[0], parallelism, 128) if completed[0] else []
        for subtask in range(parallelism):
            operator = SinkOperator(compacting(directory))
            where = context(attempt, subtask, parallelism)
            if parts:
                where.operator_state.restore(parts[subtask].lists, True)
            operator.setup(where, Output())
            operator.open()
            self.operators.append(operator)

    def write(self) -> None:
        for operator in self.operators:
            operator.process_batch(Batch(numbers([self.position])), 0)
            self.position += 1

    def snapshot(self) -> None:
        self.epoch += 1
        self.taken = []
        for operator in self.operators:
            operator.prepare_snapshot(barrier(self.epoch))
            self.taken.append(operator.snapshot_state(barrier(self.epoch)).persist())

    def complete(self) -> None:
        self.completed = (self.taken, self.position)

    def commit(self) -> None:
        for operator in self.operators:
            operator.notify_checkpoint_complete(CheckpointId(self.epoch))

    def finish(self) -> None:
        for operator in self.operators:
            operator.finish()


EPOCH: list[Callable[[Run], None]] = [Run.write, Run.snapshot, Run.complete, Run.commit]
STEPS = EPOCH * 7


@pytest.mark.parametrize("crash_after", range(len(STEPS) + 1))
@pytest.mark.parametrize("second_crash_after", [0, 2, 3, 7, 14])
def test_every_record_appears_once_if_the_process_dies_between_any_two_steps(
    tmp_path: Path, crash_after: int, second_crash_after: int
) -> None:
    completed: tuple[list[OperatorSnapshot], int] = ([], 0)
    for attempt, steps in enumerate((crash_after, second_crash_after), start=1):
        run = Run(tmp_path, attempt, completed)
        for step in STEPS[:steps]:
            step(run)
            assert len(visible(tmp_path)) <= run.completed[1], "visible before the checkpoint was complete"
        completed = run.completed
        assert len(visible(tmp_path)) == len(set(visible(tmp_path)))
    last = Run(tmp_path, 3, completed)
    for step in EPOCH * 2:
        step(last)
    last.finish()
    for step in EPOCH[1:]:
        step(last)
    assert sorted(visible(tmp_path)) == list(range(last.position))
    assert staged(tmp_path) == []


def test_the_files_of_three_checkpoints_become_one(tmp_path: Path) -> None:
    run = Run(tmp_path, 1, ([], 0))
    for step in EPOCH * 2:
        step(run)
    assert visible(tmp_path) == []
    assert len(staged(tmp_path)) == 2
    for step in EPOCH[1:]:
        step(run)  # an epoch without records counts too
    assert visible(tmp_path) == [0, 1]
    assert len(list(tmp_path.glob("*.parquet"))) == 1
    assert staged(tmp_path) == []


@pytest.mark.parametrize("parallelism", [1, 3])
def test_held_files_move_with_a_rescale_and_are_not_cleaned_up(tmp_path: Path, parallelism: int) -> None:
    first = Run(tmp_path, 1, ([], 0), parallelism=2)
    for step in [*EPOCH, *EPOCH[:-1]]:
        step(first)
    second = Run(tmp_path, 2, first.completed, parallelism)
    for step in EPOCH:
        step(second)  # the completed checkpoint lets the sink clean up
    assert len(staged(tmp_path)) == 4 + parallelism
    second.finish()
    for step in EPOCH[1:]:
        step(second)
    assert sorted(visible(tmp_path)) == list(range(4 + parallelism))
    assert staged(tmp_path) == []


def test_a_commit_that_died_before_it_deleted_the_merged_files_deletes_them(tmp_path: Path) -> None:
    run = Run(tmp_path, 1, ([], 0))
    for step in [*EPOCH * 2, *EPOCH[:-1]]:
        step(run)
    kept = {path: path.read_bytes() for path in (tmp_path / ".staging").iterdir()}
    run.commit()
    for path in list(kept)[:3]:
        if not (tmp_path / path.name).exists():
            path.write_bytes(kept[path])
    Run(tmp_path, 2, run.completed)
    assert sorted(visible(tmp_path)) == [0, 1, 2]
    assert staged(tmp_path) == []


def test_a_checkpoint_whose_files_were_merged_since_is_refused_with_advice(tmp_path: Path) -> None:
    run = Run(tmp_path, 1, ([], 0))
    for step in EPOCH * 2:
        step(run)
    old = run.completed
    for step in EPOCH:
        step(run)
    with pytest.raises(Exception, match=r"is gone.*merged and published it: restore the latest one"):
        Run(tmp_path, 2, old)


def test_a_bucket_is_merged_at_its_size(tmp_path: Path) -> None:
    strategy = FileCompactStrategy.builder().set_size_threshold(1_500).set_num_compact_threads(1).build()
    operator = SinkOperator(compacting(tmp_path, strategy))
    operator.setup(context(), Output())
    operator.open()
    sizes = []
    for epoch in range(1, 7):
        operator.process_batch(Batch(numbers(range(20))), 0)
        operator.prepare_snapshot(barrier(epoch))
        operator.snapshot_state(barrier(epoch))
        sizes.append(sum(path.stat().st_size for path in (tmp_path / ".staging").iterdir()))
        operator.notify_checkpoint_complete(CheckpointId(epoch))
    files = list(tmp_path.glob("*.parquet"))
    assert 1 <= len(files) < 6
    assert all(pq.read_table(file).num_rows >= 40 for file in files)


@pytest.mark.parametrize(
    ("compactor", "expected"),
    [
        (FileCompactor.concat_file_compactor(b"--\n"), ["a\n--\nb\n"]),
        (FileCompactor.concat_file_compactor(), ["a\nb\n"]),
        (FileCompactor.record_wise_file_compactor(), ["a\nb\n"]),
        (FileCompactor.identical_file_compactor(), ["a\n", "b\n"]),
    ],
)
def test_compactors_on_files_of_lines(compactor: FileCompactor, expected: list[str], tmp_path: Path) -> None:
    builder = FileSink.for_row_format(tmp_path, Encoder.simple_string_encoder())
    builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
    operator = SinkOperator(builder.enable_compact(EVERY_3, compactor).build())
    operator.setup(context(), Output())
    operator.open()
    for epoch, line in enumerate("ab", start=1):
        operator.process_batch(Batch([line]), 0)
        operator.prepare_snapshot(barrier(epoch))
    operator.finish()
    operator.prepare_snapshot(barrier(3))
    operator.notify_checkpoint_complete(CheckpointId(3))
    assert sorted(path.read_text() for path in tmp_path.glob("part-*")) == expected


def test_a_job_merges_its_files_and_publishes_all_at_the_end(tmp_path: Path, local_env: MakeEnv) -> None:
    out = tmp_path / "out"
    builder = FileSink.for_row_format(out, Encoder.simple_string_encoder())
    builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
    env = local_env()
    sink = builder.enable_compact(EVERY_3, FileCompactor.concat_file_compactor()).build()
    env.from_collection([str(number) for number in range(500)]).sink_to(sink)
    env.execute()
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), out).build()
    stream = local_env().from_source(source, WatermarkStrategy.no_watermarks(), "lines")
    with stream.execute_and_collect() as results:
        assert sorted(map(int, results)) == list(range(500))


def test_compaction_that_cannot_work_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="record_wise_file_compactor"):
        compacting(tmp_path, compactor=FileCompactor.concat_file_compactor())
    with pytest.raises(ConfigurationError, match="header or footer"):
        FileCompactor.concat_file_compactor().validate(CsvFormat(pa.schema([("a", pa.int64())])))
    with pytest.raises(ConfigurationError, match="needs enable_compaction_on_checkpoint"):
        FileCompactStrategy.builder().build()
    with pytest.raises(ConfigurationError, match="set_parallelism"):
        FileCompactStrategy.builder().set_num_compact_threads(4)
    with pytest.raises(ConfigurationError, match="starts at 1"):
        FileCompactStrategy.builder().set_size_threshold(0)


def test_disabled_compaction_is_a_plain_sink(tmp_path: Path) -> None:
    builder: Any = FileSink.for_bulk_format(tmp_path, ParquetFormat(), NUMBERS)
    builder.enable_compact(EVERY_3, FileCompactor.record_wise_file_compactor())
    assert type(builder.disable_compact().build()) is FileSink
