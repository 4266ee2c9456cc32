"""A file sink restored with another output directory than the one that its checkpoint wrote to."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
import pytest
from tidegate.connectors.files.parts import FileTransaction, StagedFile
from tidegate.datastream.connectors.file_system import BucketAssigner, FileConnectorError, FileSink
from tidegate.operators.base import OperatorContext

MakeContext = Callable[..., OperatorContext]
NUMBERS = pa.schema([("number", pa.int64())])


def by_parity(element: Any) -> str:
    return f"odd={element[0] % 2}/deep"


def prepared(sink: FileSink, context: OperatorContext, numbers: list[int]) -> Any:
    """What a checkpoint stores after `sink` has received `numbers`."""
    writer: Any = sink.create_writer()
    sink.open(context)
    writer.open(context)
    writer.write_batch([(number,) for number in numbers])
    return pickle.loads(pickle.dumps(writer.prepare_commit()))


def commit(sink: FileSink, context: OperatorContext, committables: Any) -> None:
    sink.commit_attempts = 1
    committer: Any = sink.create_committer()
    committer.open(context)
    committer.commit(committables)


def found(directory: Path) -> list[int]:
    files = sorted(directory.rglob("[!.]*.parquet"))
    return sorted(
        number
        for file in files
        if ".staging" not in file.parts
        for number in pq.ParquetFile(file).read()["number"].to_pylist()
    )


def test_a_checkpoint_of_another_directory_is_committed_where_it_was_written(
    tmp_path: Path, operator_context: MakeContext
) -> None:
    old, new = tmp_path / "old", tmp_path / "deeper" / "new"
    committables = prepared(
        FileSink(old, NUMBERS, bucket_assigner=BucketAssigner.of(by_parity)), operator_context(1), [1, 2, 3]
    )

    sink = FileSink(new, NUMBERS)
    commit(sink, operator_context(2), committables)
    commit(sink, operator_context(2), prepared(sink, operator_context(2), [4]))

    assert found(old) == [1, 2, 3]
    assert found(new) == [4]


def test_a_restart_after_such_a_commit_changes_nothing(tmp_path: Path, operator_context: MakeContext) -> None:
    committables = prepared(FileSink(tmp_path / "old", NUMBERS), operator_context(1), [1])
    for attempt in (2, 3):
        commit(FileSink(tmp_path / "new", NUMBERS), operator_context(attempt), committables)
    assert found(tmp_path / "old") == [1]


def test_output_directories_that_are_gone_are_named_with_the_new_one(
    tmp_path: Path, operator_context: MakeContext
) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    committables = prepared(FileSink(old, NUMBERS), operator_context(1), [1])
    old.rename(tmp_path / "elsewhere")

    with pytest.raises(FileConnectorError) as raised:
        commit(FileSink(new, NUMBERS), operator_context(2), committables)

    assert str(old) in str(raised.value)
    assert str(new) in str(raised.value)
    assert not old.exists()


def test_a_checkpoint_of_another_kind_of_file_system_is_a_clear_error(
    tmp_path: Path, operator_context: MakeContext
) -> None:
    committables = prepared(FileSink(tmp_path / "old", NUMBERS), operator_context(1), [1])
    store = pa.fs.S3FileSystem(
        access_key="a",
        secret_key="b",
        endpoint_override="127.0.0.1:1",
        scheme="http",
        allow_bucket_creation=True,
    )

    with pytest.raises(FileConnectorError) as raised:
        commit(FileSink("bucket/new", NUMBERS, file_system=store), operator_context(2), committables)

    assert str(tmp_path / "old") in str(raised.value)
    assert "bucket/new" in str(raised.value)


def test_a_transaction_of_unusual_paths_ends(tmp_path: Path, operator_context: MakeContext) -> None:
    """Names of another release or of a directory such as `/`, whose parents never equal the sink's."""
    staged = tmp_path / "file"
    staged.write_bytes(b"content")
    final = f"/{tmp_path}/a//b/file"

    commit(
        FileSink(tmp_path / "new", NUMBERS),
        operator_context(2),
        [FileTransaction([StagedFile(str(staged), final)])],
    )

    assert Path(final).read_bytes() == b"content"
