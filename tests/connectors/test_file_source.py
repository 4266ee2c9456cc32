"""The file source replays from a row number, in the order of the file."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tidegate.common import Configuration, WatermarkStrategy
from tidegate.common.errors import ConfigurationError
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.datastream.connectors.file_system import FileConnectorError, FileSource
from tidegate.operators.base import OperatorContext
from tidegate.operators.processing_time import ProcessingTimeService
from tidegate.protocol.ids import Attempt
from tidegate.state.operator_state import OperatorStateBackend, OperatorStateBackendParameters


class Clock:
    now_ms = 0

    def __call__(self) -> int:
        return self.now_ms


def context(clock: Clock) -> OperatorContext:
    return OperatorContext(
        operator_uid="files",
        operator_name="flights",
        subtask_index=0,
        parallelism=1,
        max_parallelism=128,
        attempt=Attempt(1),
        attempt_number=0,
        is_checkpointing=True,
        is_restored=False,
        now_ms=clock,
        processing_time=ProcessingTimeService(clock),
        mailbox=lambda action: None,
        create_keyed_backend=lambda key_type: pytest.fail("a source has no keyed state"),
        operator_state=OperatorStateBackend(OperatorStateBackendParameters("uid", "flights", 0)),
        local_dir="",
        results=None,  # type: ignore[arg-type]
    )


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Two files of 100 and 50 rows, in row groups of 30."""
    paths = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    for path, numbers in zip(paths, (range(100), range(100, 150))):
        table = pa.table({"number": list(numbers), "text": [f"t{number}" for number in numbers]})
        pq.write_table(table, path, row_group_size=30)
    return paths


def reader(source: FileSource, splits: list[Any], clock: Clock | None = None) -> Any:
    made = source.create_reader(splits)
    made.open(context(clock or Clock()))
    return made


def rest(source_reader: Any) -> list[Any]:
    records: list[Any] = []
    while (batch := source_reader.poll(20)) is not None:
        assert len(batch) <= 20
        records.extend(batch.values)
    return records


def test_rows_come_as_tuples_in_the_order_of_each_file(files: list[Path]) -> None:
    source = FileSource(files)
    assert rest(reader(source, source.create_splits(1))) == [(n, f"t{n}") for n in range(150)]


def test_columns_come_in_the_order_asked_for(files: list[Path]) -> None:
    source = FileSource(files[1:], columns=["text", "number"])
    assert rest(reader(source, source.create_splits(1)))[0] == ("t100", 100)


@pytest.mark.parametrize("polls", range(12))
def test_a_restored_reader_goes_on_exactly_where_the_snapshot_was_taken(
    files: list[Path], polls: int
) -> None:
    source = FileSource(files, columns=["number"])
    first = reader(source, source.create_splits(1))
    seen = []
    for _ in range(polls):
        batch = first.poll(20)
        seen += [] if batch is None else batch.values
    splits = pickle.loads(pickle.dumps(first.snapshot_state()))
    rest(first)  # a snapshot does not move with the reader
    assert seen + rest(reader(source, splits)) == [(n,) for n in range(150)]


def test_a_file_that_changed_under_a_checkpoint_is_refused(files: list[Path]) -> None:
    source = FileSource(files)
    splits = source.create_splits(1)
    pq.write_table(pa.table({"number": [1]}), files[0])
    with pytest.raises(FileConnectorError, match=r"flights \(1/1\): .*a\.parquet has .* bytes, it had"):
        reader(source, splits).poll(20)


def test_a_missing_file_is_named_before_the_job_starts(files: list[Path], tmp_path: Path) -> None:
    configuration = Configuration()
    configuration.set_string("execution.target", "local")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    source = FileSource([*files, tmp_path / "c.parquet"])
    env.from_source(source, WatermarkStrategy.no_watermarks(), "files").add_sink(print)
    with pytest.raises(ConfigurationError, match=r"cannot find .*c\.parquet$"):
        env.execute()


def test_a_paced_reader_keeps_to_its_rate(files: list[Path]) -> None:
    clock = Clock()
    source = FileSource(files, columns=["number"], records_per_second=1_000)
    paced = reader(source, source.create_splits(1), clock)
    assert len(paced.poll(20)) == 20
    assert len(paced.poll(20)) == 0
    clock.now_ms += 19
    assert len(paced.poll(20)) == 0
    clock.now_ms += 1
    assert len(paced.poll(20)) == 20
