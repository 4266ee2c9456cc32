"""The file source replays from a row number, in the order of the file."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from tidegate.common import Configuration, WatermarkStrategy
from tidegate.common.errors import ConfigurationError
from tidegate.datastream import MapFunction, StreamExecutionEnvironment
from tidegate.datastream.connectors.file_system import (
    FileConnectorError,
    FileEnumeratorProvider,
    FileSource,
    ParquetFormat,
    StreamFormat,
)
from tidegate.operators.base import OperatorContext

MakeReader = Callable[..., Any]


class Clock:
    now_ms = 0

    def __call__(self) -> int:
        return self.now_ms


class Coordinator:
    """What an enumerator talks to, without waiting."""

    def __init__(self) -> None:
        self.assigned: list[Any] = []
        self.is_over = False
        self.look: Any = None

    def current_parallelism(self) -> int:
        return 1

    def call_async(self, call: Any, handler: Any, initial_delay_ms: int = 0, period_ms: Any = None) -> None:
        def look() -> None:
            try:
                found = call()
            except Exception as error:
                handler(None, error)
            else:
                handler(found, None)

        self.look = look

    def assign_split(self, split: Any, subtask_id: int) -> None:
        self.assigned.append(split)

    def signal_no_more_splits(self, subtask_id: int) -> None:
        self.is_over = True


def splits_of(source: FileSource) -> list[Any]:
    """All parts of the files, as the enumerator gives them to one reader."""
    coordinator = Coordinator()
    enumerator = source.create_enumerator(coordinator)  # type: ignore[arg-type]
    enumerator.start()
    coordinator.look()
    while not coordinator.is_over:
        enumerator.handle_split_request(0)
    return coordinator.assigned


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Two files of 100 and 50 rows, in row groups of 30."""
    paths = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    for path, numbers in zip(paths, (range(100), range(100, 150))):
        table = pa.table({"number": list(numbers), "text": [f"t{number}" for number in numbers]})
        pq.write_table(table, path, row_group_size=30)
    return paths


@pytest.fixture
def reader(operator_context: Callable[..., OperatorContext]) -> Callable[..., Any]:
    """Makes an open reader of a source, of some splits or of all."""

    def make(source: FileSource, splits: list[Any] | None = None, clock: Clock | None = None) -> Any:
        made = source.create_reader([])
        made.open(operator_context(now_ms=clock or Clock()))
        made.add_splits(splits_of(source) if splits is None else splits)
        return made

    return make


def rest(source_reader: Any) -> list[Any]:
    records: list[Any] = []
    while (batch := source_reader.poll(20)) is not None:
        assert len(batch) <= 20
        records.extend(batch.values)
    return records


def test_rows_come_as_tuples_in_the_order_of_each_file(files: list[Path], reader: MakeReader) -> None:
    source = FileSource(files)
    assert rest(reader(source)) == [(n, f"t{n}") for n in range(150)]


def test_columns_come_in_the_order_asked_for(files: list[Path], reader: MakeReader) -> None:
    source = FileSource(files[1:], columns=["text", "number"])
    assert rest(reader(source))[0] == ("t100", 100)


@pytest.mark.parametrize("polls", range(12))
def test_a_restored_reader_goes_on_exactly_where_the_snapshot_was_taken(
    files: list[Path], reader: MakeReader, polls: int
) -> None:
    source = FileSource(files, columns=["number"])
    first = reader(source)
    seen = []
    for _ in range(polls):
        batch = first.poll(20)
        seen += [] if batch is None else batch.values
    splits = pickle.loads(pickle.dumps(first.snapshot_state()))
    rest(first)  # a snapshot does not move with the reader
    assert seen + rest(reader(source, splits)) == [(n,) for n in range(150)]


def test_a_file_that_changed_under_a_checkpoint_is_refused(files: list[Path], reader: MakeReader) -> None:
    source = FileSource(files)
    splits = splits_of(source)
    pq.write_table(pa.table({"number": [1]}), files[0])
    with pytest.raises(FileConnectorError, match=r"numbers \(1/1\): .*a\.parquet has .* bytes, it had"):
        reader(source, splits).poll(20)


def test_a_missing_file_is_named_before_the_job_starts(files: list[Path], tmp_path: Path) -> None:
    configuration = Configuration()
    configuration.set_string("execution.target", "local")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    source = FileSource([*files, tmp_path / "c.parquet"])
    env.from_source(source, WatermarkStrategy.no_watermarks(), "files").add_sink(print)
    with pytest.raises(ConfigurationError, match=r"cannot find .*c\.parquet$"):
        env.execute()


def test_a_paced_reader_keeps_to_its_rate(files: list[Path], reader: MakeReader) -> None:
    clock = Clock()
    source = FileSource(files, columns=["number"], records_per_second=1_000)
    paced = reader(source, None, clock)
    assert len(paced.poll(20)) == 20
    assert len(paced.poll(20)) == 0
    clock.now_ms += 19
    assert len(paced.poll(20)) == 0
    clock.now_ms += 1
    assert len(paced.poll(20)) > 0


@pytest.mark.parametrize("as_columns", [False, True])
def test_a_paced_reader_spreads_the_records_of_a_second(
    files: list[Path], reader: MakeReader, as_columns: bool
) -> None:
    source = FileSource(files, columns=["number"], records_per_second=50, as_columns=as_columns)
    clock = Clock()
    paced = reader(source, None, clock)
    sizes = []
    for _ in range(10):
        sizes.append(len(paced.poll(4_096)))
        clock.now_ms += 100
    assert sizes == [5] * 10


def test_a_watched_directory_gives_each_new_file_once_and_never_ends(files: list[Path]) -> None:
    directory = files[0].parent
    source = FileSource(directory, monitor_interval_ms=10)
    coordinator = Coordinator()
    enumerator = source.create_enumerator(coordinator)  # type: ignore[arg-type]
    enumerator.start()
    coordinator.look()
    for hidden in ("_SUCCESS", ".part.parquet", "_temporary/c.parquet", ".staging/d.parquet"):
        (directory / hidden).parent.mkdir(exist_ok=True)
        (directory / hidden).touch()
    enumerator.handle_split_request(0)
    (directory / "c").mkdir()
    pq.write_table(pa.table({"number": [1]}), directory / "c" / "c.parquet")
    kept = pickle.loads(pickle.dumps(enumerator.snapshot_state(1)))
    coordinator.look()
    for _ in range(3):
        enumerator.handle_split_request(0)
    assert [Path(split.path).name for split in coordinator.assigned] == [
        "a.parquet",
        "b.parquet",
        "c.parquet",
    ]

    # A restored one knows what was found, and does not forget what was found after its checkpoint.
    again = Coordinator()
    restored = source.restore_enumerator(again, kept)  # type: ignore[arg-type]
    restored.add_splits_back([coordinator.assigned[0]], 0)
    restored.start()
    again.look()
    for _ in range(4):
        restored.handle_split_request(0)
    assert [Path(split.path).name for split in again.assigned] == ["a.parquet", "b.parquet", "c.parquet"]
    assert not coordinator.is_over
    assert not again.is_over


def test_a_directory_that_cannot_be_looked_at_for_a_while_is_looked_at_again(
    files: list[Path], caplog: pytest.LogCaptureFixture
) -> None:
    directory = files[0].parent
    coordinator = Coordinator()
    source = FileSource(directory, monitor_interval_ms=10)
    enumerator = source.create_enumerator(coordinator)  # type: ignore[arg-type]
    enumerator.start()
    directory.rename(directory.with_name("away"))
    for _ in range(10):
        coordinator.look()
    assert "looking again in 10 ms" in caplog.text
    with pytest.raises(FileConnectorError, match=r"finding files in .* failed"):
        coordinator.look()
    directory.with_name("away").rename(directory)
    coordinator.look()
    enumerator.handle_split_request(0)
    assert len(coordinator.assigned) == 1


MakeEnv = Callable[..., StreamExecutionEnvironment]


def test_large_files_are_cut_and_read_by_several_subtasks_as_columns(
    files: list[Path], local_env: MakeEnv
) -> None:
    source = (
        FileSource.for_bulk_file_format(ParquetFormat(), *files)
        .process_static_file_set()
        .set_file_enumerator(FileEnumeratorProvider.default_splittable_file_enumerator())
        .build()
    )
    env = local_env(parallelism=2)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "files")
    doubled = stream.map_batches(
        lambda batch: pa.record_batch({"n": pc.add(batch["number"], batch["number"])}),
        pa.schema([("n", pa.int64())]),
    )
    assert sorted(doubled.execute_and_collect()) == [(2 * number,) for number in range(150)]


class FailsOnce(MapFunction):
    faults: ClassVar[list[str]] = []

    def map(self, value: Any) -> Any:
        if self.faults and value == self.faults[0]:
            self.faults.pop()
            raise RuntimeError("injected")
        return value


def test_a_job_that_fails_reads_every_line_once(tmp_path: Path, local_env: MakeEnv) -> None:
    lines = [f"line {number}" for number in range(500)]
    (tmp_path / "in").mkdir()
    for number in range(3):
        (tmp_path / "in" / f"{number}.txt").write_text("\n".join(lines[number::3]))
    FailsOnce.faults.append("line 444")
    source = FileSource(tmp_path / "in", file_format=StreamFormat.text_line_format(), split_bytes=500)
    stream = local_env(parallelism=2).from_source(source, WatermarkStrategy.no_watermarks(), "lines")
    assert sorted(stream.map(FailsOnce()).execute_and_collect()) == sorted(lines)
    assert FailsOnce.faults == []
