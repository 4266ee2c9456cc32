"""Where the file sink puts records: buckets, rolled files, formats, object stores."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloudpickle
import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
import pytest
from tidegate.common import Encoder, WatermarkStrategy
from tidegate.common.errors import ConfigurationError, UserCodeError
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.datastream.connectors.file_system import (
    ArrowFormat,
    BucketAssigner,
    CsvFormat,
    FileConnectorError,
    FileFormat,
    FileSink,
    JsonLinesFormat,
    OutputFileConfig,
    ParquetFormat,
    RollingPolicy,
)
from tidegate.datastream.connectors.number_seq import NumberSequenceSource
from tidegate.operators.base import OperatorContext
from tidegate.protocol.elements import Batch
from tidegate.protocol.ids import CheckpointId

MakeContext = Callable[..., OperatorContext]
NUMBERS = pa.schema([("number", pa.int64())])
HOUR_MS = 3_600_000


class Opened:
    """A sink by hand."""

    def __init__(self, sink: FileSink, context: OperatorContext) -> None:
        sink = pickle.loads(cloudpickle.dumps(sink))  # as each subtask gets its own
        self.writer: Any = sink.create_writer()
        self.committer: Any = sink.create_committer()
        self.committer.open(context)
        self.writer.open(context)

    def write(self, values: Any, timestamps: Any = None) -> None:
        self.writer.write_elements(Batch(values, timestamps))

    def commit(self) -> None:
        self.committer.commit(self.writer.prepare_commit())


def content(directory: Path) -> dict[str, list[int]]:
    """The numbers in the files below a directory, by bucket."""
    found: dict[str, list[int]] = {}
    for path in sorted(directory.rglob("*.parquet")):
        if ".staging" not in path.parts:
            bucket = str(path.parent.relative_to(directory))
            found.setdefault(bucket, []).extend(pq.read_table(path)["number"].to_pylist())
    return {bucket: sorted(numbers) for bucket, numbers in found.items()}


def tuples(*numbers: int) -> list[tuple[int]]:
    return [(number,) for number in numbers]


@pytest.mark.parametrize("as_columns", [False, True])
def test_buckets_by_event_time_do_not_depend_on_when_records_are_written(
    tmp_path: Path, operator_context: MakeContext, as_columns: bool
) -> None:
    assigner = BucketAssigner.event_time_bucket_assigner("'day='yyyy-MM-dd/HH".replace("'", ""))
    opened = Opened(FileSink(tmp_path, NUMBERS, bucket_assigner=assigner), operator_context())
    values: Any = tuples(1, 2, 3, 4)
    if as_columns:
        values = pa.record_batch({"number": pa.array([1, 2, 3, 4])})
    opened.write(values, [0, HOUR_MS, HOUR_MS - 1, -1])
    opened.write(tuples(5), [25 * HOUR_MS])
    opened.commit()
    assert content(tmp_path) == {
        "day=1969-12-31/23": [4],
        "day=1970-01-01/00": [1, 3],
        "day=1970-01-01/01": [2],
        "day=1970-01-02/01": [5],
    }


def test_buckets_by_the_time_of_day_and_zone(tmp_path: Path, operator_context: MakeContext) -> None:
    now = [1_000]
    assigner = BucketAssigner.date_time_bucket_assigner("yyyy-MM-dd--HH", "Asia/Kolkata")
    sink = FileSink(tmp_path, NUMBERS, bucket_assigner=assigner)
    opened = Opened(sink, operator_context(now_ms=lambda: now[0]))
    opened.write(tuples(1))
    now[0] += HOUR_MS // 2
    opened.write(tuples(2))
    opened.commit()
    assert content(tmp_path) == {"1970-01-01--05": [1], "1970-01-01--06": [2]}


class Parity(BucketAssigner):
    def get_bucket_id(self, element: Any, context: BucketAssigner.Context) -> str:
        return f"{'odd' if element[0] % 2 else 'even'}/{context.timestamp}"


def test_buckets_by_a_function_or_a_class_of_the_user(tmp_path: Path, operator_context: MakeContext) -> None:
    by_function = BucketAssigner.of(lambda element: f"tens={element[0] // 10}")
    for name, assigner in (("function", by_function), ("class", Parity())):
        opened = Opened(FileSink(tmp_path / name, NUMBERS, bucket_assigner=assigner), operator_context())
        opened.write(tuples(1, 2, 13), [7, 7, 7])
        opened.commit()
    assert content(tmp_path / "function") == {"tens=0": [1, 2], "tens=1": [13]}
    assert content(tmp_path / "class") == {"odd/7": [1, 13], "even/7": [2]}


@pytest.mark.parametrize("bucket", ["../out", "/abs", "a//b", ".hidden", "a/_b", 7])
def test_a_bucket_that_readers_would_miss_is_refused(
    tmp_path: Path, operator_context: MakeContext, bucket: Any
) -> None:
    opened = Opened(
        FileSink(tmp_path, NUMBERS, bucket_assigner=BucketAssigner.of(lambda _: bucket)), operator_context()
    )
    with pytest.raises(UserCodeError, match=r"numbers \(1/1\): .* cannot be a bucket"):
        opened.write(tuples(1))


def test_event_time_buckets_need_event_times(tmp_path: Path, operator_context: MakeContext) -> None:
    assigner = BucketAssigner.event_time_bucket_assigner()
    opened = Opened(FileSink(tmp_path, NUMBERS, bucket_assigner=assigner), operator_context())
    with pytest.raises(UserCodeError, match=r"numbers \(1/1\): .*assign_timestamps_and_watermarks"):
        opened.write(tuples(1))


def test_many_buckets_keep_few_files_open(tmp_path: Path, operator_context: MakeContext) -> None:
    assigner = BucketAssigner.of(lambda element: f"n={element[0]}")
    opened = Opened(FileSink(tmp_path, NUMBERS, bucket_assigner=assigner), operator_context())
    opened.write(tuples(*range(100)))
    ended = list((tmp_path / ".staging").iterdir())
    assert len(ended) == 100 - 64  # those of the others wait for their first row group
    opened.commit()
    assert content(tmp_path) == {f"n={number}": [number] for number in range(100)}


def test_files_end_when_they_are_old_or_get_nothing(tmp_path: Path, operator_context: MakeContext) -> None:
    now = [0]
    context = operator_context(now_ms=lambda: now[0])
    policy = RollingPolicy.default_rolling_policy(rollover_interval=1_000, inactivity_interval=300)
    opened = Opened(FileSink(tmp_path, NUMBERS, rolling_policy=policy), context)

    def write_and_wait(number: int, ms: int) -> int:
        opened.write(tuples(number))
        for _ in range(ms // 50):
            now[0] += 50
            context.processing_time.run_due()
        return len(list((tmp_path / ".staging").iterdir()))

    assert write_and_wait(1, 250) == 0  # rows wait in memory
    assert write_and_wait(2, 500) == 1  # nothing came for 300 ms
    ended = [write_and_wait(number, 200) for number in range(3, 9)]
    assert ended[-1] == 2  # the second was open for a second, although records came
    opened.commit()
    assert content(tmp_path) == {".": list(range(1, 9))}


@pytest.mark.parametrize(
    ("file_format", "read"),
    [
        (ArrowFormat(), lambda path: pa.ipc.open_file(path).read_all()["number"].to_pylist()),
        (CsvFormat(), lambda path: [int(line) for line in path.read_text().splitlines()[1:]]),
        (JsonLinesFormat(), lambda path: [json.loads(line)["number"] for line in path.open()]),
    ],
)
def test_every_format_is_written(
    tmp_path: Path, operator_context: MakeContext, file_format: FileFormat, read: Any
) -> None:
    names = OutputFileConfig.builder().with_part_prefix("rows").with_part_suffix(".data").build()
    sink = FileSink(tmp_path, NUMBERS, file_format=file_format, output_file_config=names, row_group_bytes=1)
    opened = Opened(sink, operator_context())
    opened.write(tuples(1, 2))
    opened.write(tuples(3))
    opened.commit()
    (path,) = tmp_path.glob("rows-0-1-0-*.data")
    assert read(path) == [1, 2, 3]


def test_lines_are_written_as_pyflink_does(
    tmp_path: Path, local_env: Callable[..., StreamExecutionEnvironment]
) -> None:
    sink = (
        FileSink.for_row_format(tmp_path / "out", Encoder.simple_string_encoder())
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
        .with_output_file_config(OutputFileConfig("lines", ".log"))
        .build()
    )
    env = local_env(parallelism=2)
    numbers = env.from_source(NumberSequenceSource(1, 50), WatermarkStrategy.no_watermarks(), "numbers")
    numbers.map(lambda number: f"line {number} ü").sink_to(sink).uid("lines")
    env.execute()
    found = [
        line for path in (tmp_path / "out").glob("lines-*.log") for line in path.read_text().splitlines()
    ]
    assert sorted(found) == sorted(f"line {number} ü" for number in range(1, 51))


def test_what_cannot_work_is_refused_at_once(tmp_path: Path) -> None:
    for wrong in (
        lambda: FileSink(tmp_path),
        lambda: FileSink(tmp_path, NUMBERS, row_group_bytes=0),
        lambda: RollingPolicy(part_size=0),
        lambda: OutputFileConfig(".hidden"),
        lambda: OutputFileConfig("part", "0.parquet"),
        lambda: BucketAssigner.event_time_bucket_assigner(timezone_id="Mars/Olympus"),
    ):
        with pytest.raises(ConfigurationError):
            wrong()


# ---------------------------------------------------------------- an object store


def numbers_in(store: Any, path: str) -> list[int]:
    file_system, directory = pyarrow.fs.FileSystem.from_uri(store.uri(path))
    names = [name for name in store.names(path) if not name.startswith(".staging")]
    found = [pq.read_table(f"{directory}/{name}", filesystem=file_system) for name in names]
    return sorted(number for table in found for number in table["number"].to_pylist())


def test_objects_appear_with_their_checkpoint_and_left_overs_go(
    object_store: Any, operator_context: MakeContext
) -> None:
    sink = FileSink(object_store.uri("out"), NUMBERS, bucket_assigner=BucketAssigner.of(lambda _: "b=1"))
    opened = Opened(sink, operator_context())
    opened.write(tuples(1, 2))
    committables = opened.writer.prepare_commit()
    assert numbers_in(object_store, "out") == []
    assert [name.split("/")[0] for name in object_store.names("out")] == [".staging"]

    again = Opened(sink, operator_context(2))
    for _ in range(2):  # the second time nothing is left to do
        again.committer.commit(committables)
        assert numbers_in(object_store, "out") == [1, 2]
    assert [name.split("/")[0] for name in object_store.names("out")] == ["b=1"]

    opened.write(tuples(3))
    opened.writer.prepare_commit()  # by the attempt that is over
    again.committer.notify_checkpoint_complete(CheckpointId(1))
    assert numbers_in(object_store, "out") == [1, 2]
    assert len(object_store.names("out")) == 1


def test_a_store_that_fails_for_a_while_is_asked_again(
    object_store: Any, operator_context: MakeContext
) -> None:
    opened = Opened(FileSink(object_store.uri("out"), NUMBERS), operator_context())
    opened.write(tuples(1, 2))
    object_store.faults += [
        ["PUT", "/.staging/", 1, 503],
        ["HEAD", "part-", 1, 503],
        ["PUT", "/out/part-", 1, 503],
    ]
    opened.commit()
    assert [fault[2] for fault in object_store.faults] == [0, 0, 0]
    assert numbers_in(object_store, "out") == [1, 2]


def test_a_store_that_goes_on_failing_is_one_clear_error_and_loses_nothing(
    object_store: Any, operator_context: MakeContext
) -> None:
    sink = FileSink(object_store.uri("out"), NUMBERS)
    sink.commit_attempts = 1
    opened = Opened(sink, operator_context())
    opened.write(tuples(1, 2))
    committables = opened.writer.prepare_commit()
    object_store.faults.append(["PUT", "/out/part-", 9, 403])
    with pytest.raises(FileConnectorError, match=r"numbers \(1/1\): committing .*out/part-0-1-0") as raised:
        opened.committer.commit(committables)
    assert "secret" not in str(raised.value)
    object_store.faults.clear()
    opened.committer.commit(committables)
    assert numbers_in(object_store, "out") == [1, 2]


def test_files_of_an_object_store_are_read_and_written_by_a_job(
    object_store: Any, local_env: Callable[..., StreamExecutionEnvironment]
) -> None:
    from tidegate.datastream.connectors.file_system import FileSource

    file_system, directory = pyarrow.fs.FileSystem.from_uri(object_store.uri("in"))
    for part in range(3):
        table = pa.table({"number": list(range(100 * part, 100 * part + 100))})
        pq.write_table(table, f"{directory}/{part}.parquet", filesystem=file_system, row_group_size=30)
    env = local_env(parallelism=2)
    source = FileSource(object_store.uri("in"), as_columns=True, split_bytes=300)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    stream.sink_to(FileSink(object_store.uri("out"), NUMBERS, file_format=ParquetFormat("zstd"))).uid("files")
    env.execute()
    assert numbers_in(object_store, "out") == list(range(300))
