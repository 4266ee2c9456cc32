"""An error that a record causes names the file and the offset that the record was read from."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tidegate.common import Types, WatermarkStrategy
from tidegate.common.errors import JobExecutionError, UserCodeError
from tidegate.connectors.files.formats import FileFormat
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.datastream.connectors.file_system import (
    ArrowFormat,
    CsvFormat,
    FileConnectorError,
    FileSource,
    JsonLinesFormat,
    ParquetFormat,
    TextLineFormat,
)
from tidegate.operators.base import OperatorContext

MakeEnv = Callable[..., StreamExecutionEnvironment]
SCHEMA = pa.schema([("number", pa.int64())])
COUNT, BAD = 3_000, 2_345


def parsed(value: Any) -> int:
    number = int(value if isinstance(value, str) else value[0])
    if number == BAD:
        raise ValueError("not this one")
    return number


def failure(env: StreamExecutionEnvironment, source: FileSource, function: Any = parsed) -> str:
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "files").uid("files")
    stream.map(function).name("parse").add_sink(lambda _: None)
    with pytest.raises(JobExecutionError) as failed:
        env.execute()
    return str(failed.value).partition("\n\n")[0]


def lines(kind: str) -> list[str]:
    if kind == "jsonl":
        return [json.dumps({"number": number}) for number in range(COUNT)]
    return [*(["number"] if kind == "csv" else []), *map(str, range(COUNT))]


TEXT: dict[str, FileFormat] = {
    "txt": TextLineFormat(), "csv": CsvFormat(SCHEMA), "jsonl": JsonLinesFormat(SCHEMA)
}  # fmt: skip


@pytest.mark.parametrize("kind", TEXT)
def test_an_error_on_a_line_names_its_file_and_byte(local_env: MakeEnv, tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"numbers.{kind}"
    data = "".join(f"{line}\n" if kind == "txt" else f"{line}\n\n" for line in lines(kind))
    path.write_text(data)
    bad = next(line for line in lines(kind) if str(BAD) in line)
    source = FileSource(path, file_format=TEXT[kind], split_bytes=len(data) // 3)
    text = failure(local_env(**{"restart-strategy.type": "none"}), source)
    for words in ("map() raised ValueError: not this one", f"{path}, the line at byte {data.index(bad)}"):
        assert words in text


def test_an_error_on_a_row_of_a_columnar_file_names_its_file_and_row(
    local_env: MakeEnv, tmp_path: Path
) -> None:
    table = pa.table({"number": range(COUNT)}, SCHEMA)
    parquet, arrow = tmp_path / "a.parquet", tmp_path / "a.arrow"
    pq.write_table(table, parquet, row_group_size=1_000)
    with pa.ipc.new_file(arrow, SCHEMA) as writer:
        writer.write_table(table)
    for path, file_format, unit in (
        (parquet, ParquetFormat(), "row group"),
        (arrow, ArrowFormat(), "record"),
    ):
        source = FileSource(path, file_format=file_format)
        text = failure(local_env(**{"restart-strategy.type": "none"}), source)
        assert f"{path}, row {BAD} from {unit}" in text


def test_columns_are_named_as_a_whole(local_env: MakeEnv, tmp_path: Path) -> None:
    path = tmp_path / "numbers.txt"
    path.write_text("".join(f"{line}\n" for line in lines("txt")))
    source = FileSource(path, file_format=TextLineFormat(), as_columns=True)
    text = failure(local_env(**{"restart-strategy.type": "none"}), source)
    assert f"{path}, the lines from byte 0 on" in text


def test_an_output_of_another_type_is_named_with_its_place(local_env: MakeEnv, tmp_path: Path) -> None:
    path = tmp_path / "numbers.txt"
    path.write_text("1\n2\n")
    env = local_env(**{"restart-strategy.type": "none"})
    source = FileSource(path, file_format=TextLineFormat())
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "files")
    stream.map(lambda line: line, output_type=Types.LONG()).name("parse").add_sink(lambda _: None)
    with pytest.raises(JobExecutionError, match=rf"LONG.*{path}, the lines from byte 0 on"):
        env.execute()


class Shouting(TextLineFormat):
    """A format of the user's whose own code fails."""

    def to_records(self, batch: pa.RecordBatch) -> list[Any]:
        return [line / 2 for line in super().to_records(batch)]


def test_an_error_in_a_format_of_the_users_names_file_and_offset(
    tmp_path: Path, operator_context: Callable[..., OperatorContext]
) -> None:
    path = tmp_path / "numbers.txt"
    path.write_text("1\n2\n")
    source = FileSource(path, file_format=Shouting())
    (split,) = source._format.split(None, str(path), 4, 100)
    reader = source.create_reader([split])
    reader.open(operator_context())
    with pytest.raises(FileConnectorError, match=rf"numbers \(1/1\): {path} .*TypeError.*from byte 0 on"):
        reader.poll(10)


def test_an_error_travels_without_its_record() -> None:
    error = UserCodeError("text")
    error.record = iter([1])
    copied = pickle.loads(pickle.dumps(error))
    assert (type(copied), copied.args, copied.record) == (UserCodeError, ("text",), None)
