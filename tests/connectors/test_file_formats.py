"""Every format gives every row once, wherever files are cut and wherever a reader is restored."""

from __future__ import annotations

import bz2
import datetime
import gzip
import json
import pickle
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
import pytest
from tidegate.common.errors import ConfigurationError
from tidegate.connectors.files.formats import FileSplit, Reading
from tidegate.datastream.connectors.file_system import (
    ArrowFormat,
    CsvFormat,
    FileConnectorError,
    FileFormat,
    FileSource,
    JsonLinesFormat,
    ParquetFormat,
    TextLineFormat,
)
from tidegate.operators.base import OperatorContext

LOCAL = pyarrow.fs.LocalFileSystem()
SCHEMA = pa.schema([("number", pa.int64()), ("text", pa.string())])
ROWS = [(number, f"text {number}" if number % 5 else "") for number in range(300)]
LINES = [f"line {number}" * (number % 4) for number in range(300)]


def written(directory: Path, kind: str) -> tuple[FileFormat, Path, list[Any]]:
    """A format, a file of it, and the records in it."""
    path = directory / f"file.{kind}"
    numbers, texts = zip(*ROWS)
    table = pa.table({"number": numbers, "text": texts}, SCHEMA)
    csv = "number,text\r\n" + "".join(f'{number},"{text}"\r\n' for number, text in ROWS)
    objects = "".join(json.dumps({"text": text, "number": number}) + "\n" for number, text in ROWS)
    if kind == "parquet":
        pq.write_table(table, path, row_group_size=40)
        return ParquetFormat(), path, ROWS
    if kind == "arrow":
        with pa.ipc.new_file(path, SCHEMA) as writer:
            writer.write_table(table, max_chunksize=30)
        return ArrowFormat(), path, ROWS
    if kind == "csv":
        path.write_bytes(csv.encode())
        return CsvFormat(SCHEMA), path, ROWS
    if kind == "lines.csv":
        rows = [(number, f'{text}\n"{text}"\r\n') for number, text in ROWS]
        quoted = [(number, text.replace('"', '""')) for number, text in rows]
        path.write_bytes(("number,text\n" + "".join(f'{n},"{text}"\n' for n, text in quoted)).encode())
        return CsvFormat(SCHEMA, newlines_in_values=True), path, rows
    if kind == "csv.gz":
        path.write_bytes(gzip.compress(csv.encode()))
        return CsvFormat(), path, ROWS
    if kind == "plain.csv":
        path.write_text(csv.partition("\n")[2].replace(",", ";").rstrip("\r\n"))
        return CsvFormat(SCHEMA, header=False, delimiter=";"), path, ROWS
    if kind == "jsonl":
        path.write_text(objects)
        return JsonLinesFormat(SCHEMA), path, ROWS
    if kind == "jsonl.bz2":
        path.write_bytes(bz2.compress(objects.encode()))
        return JsonLinesFormat(), path, [(text, number) for number, text in ROWS]
    path.write_text("\n".join(LINES))
    return TextLineFormat(), path, LINES


KINDS = ["parquet", "arrow", "csv", "csv.gz", "lines.csv", "plain.csv", "jsonl", "jsonl.bz2", "txt"]


def records(file_format: FileFormat, split: FileSplit, batch_rows: int = 7) -> list[Any]:
    found: list[Any] = []
    for batch, _ in file_format.read(Reading(LOCAL, None, batch_rows), split):
        assert batch.num_rows <= batch_rows
        found += file_format.to_records(batch)
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("split_bytes", [1 << 20, 1_000, 333, 64])
def test_the_parts_of_a_file_have_every_row_once_and_in_order(
    tmp_path: Path, kind: str, split_bytes: int
) -> None:
    file_format, path, expected = written(tmp_path, kind)
    splits = file_format.split(LOCAL, str(path), path.stat().st_size, split_bytes)
    assert [record for split in splits for record in records(file_format, split)] == expected
    if split_bytes == 333 and not kind.endswith(("gz", "bz2", "lines.csv")):
        assert len(splits) > 3


@pytest.mark.parametrize("kind", KINDS)
def test_a_reader_goes_on_from_every_position(tmp_path: Path, kind: str) -> None:
    file_format, path, expected = written(tmp_path, kind)
    (split,) = file_format.split(LOCAL, str(path), path.stat().st_size, 1 << 20)
    seen: list[Any] = []
    for batch, position in file_format.read(Reading(LOCAL, None, 23), split):
        seen += file_format.to_records(batch)
        assert seen + records(file_format, pickle.loads(pickle.dumps(position)), 23) == expected


@pytest.mark.parametrize("kind", ["parquet", "arrow", "csv", "jsonl"])
def test_columns_come_in_the_order_asked_for(tmp_path: Path, kind: str) -> None:
    file_format, path, _ = written(tmp_path, kind)
    (split,) = file_format.split(LOCAL, str(path), path.stat().st_size, 1 << 20)
    batch, _ = next(file_format.read(Reading(LOCAL, ["text", "number"], 10), split))
    assert batch.schema.names == ["text", "number"]


MANY = pa.schema(
    [
        ("i", pa.int32()),
        ("f", pa.float64()),
        ("t", pa.string()),
        ("d", pa.date32()),
        ("at", pa.timestamp("ms")),
        ("money", pa.decimal128(10, 2)),
        ("b", pa.bool_()),
    ]
)
WHEN = datetime.datetime(2026, 2, 28, 1, 2, 3)
VALUES = [
    (1, 0.1, 'a "b"; ü', WHEN.date(), WHEN, Decimal("1.10"), True),
    (None,) * 7,
]


@pytest.mark.parametrize("file_format", [ParquetFormat(), ArrowFormat(), CsvFormat(MANY)], ids=repr)
def test_what_a_format_wrote_it_reads(tmp_path: Path, file_format: FileFormat) -> None:
    path = tmp_path / "file"
    batch = file_format.to_batch(VALUES, MANY, "here")
    with path.open("wb") as stream:
        writer = file_format.writer(stream, MANY)
        for _ in range(2):
            writer.write(pa.Table.from_batches([batch]))
        writer.close()
    assert records(file_format, FileSplit(str(path), path.stat().st_size)) == VALUES * 2


def test_json_lines_are_written_as_other_programs_read_them(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with path.open("wb") as stream:
        batch = JsonLinesFormat().to_batch(VALUES, MANY, "here")
        JsonLinesFormat().writer(stream, MANY).write(pa.Table.from_batches([batch]))
    first, second = map(json.loads, path.read_text("utf-8").splitlines())
    assert list(first.values()) == [1, 0.1, 'a "b"; ü', "2026-02-28", "2026-02-28T01:02:03", "1.10", True]
    assert second == dict.fromkeys(MANY.names)


@pytest.fixture
def read(operator_context: Callable[..., OperatorContext]) -> Callable[..., list[Any]]:
    """Reads files with a source's reader."""

    def run(source: FileSource, *paths: Path) -> list[Any]:
        reader = source.create_reader([])
        reader.open(operator_context())
        reader.add_splits([FileSplit(str(path), path.stat().st_size) for path in paths])
        found: list[Any] = []
        while (batch := reader.poll(100)) is not None:
            found += list(batch.values)
        return found

    return run


N = pa.schema([("n", pa.int64())])


@pytest.mark.parametrize(
    ("name", "content", "file_format", "problem"),
    [
        ("a.parquet", "no parquet", ParquetFormat(), "as parquet: .*Parquet magic bytes"),
        ("a.csv", "n\n1\nx\n", CsvFormat(N), "as csv: the lines from byte 2 on .*'x'"),
        ("a.csv", "n\n1\n", CsvFormat(pa.schema([("m", pa.int64())])), "as csv: .*m"),
        ("a.jsonl", '{"n": 1}\n{"n": \n', JsonLinesFormat(), "as jsonl: .*JSON parse error"),
        ("a.jsonl", '{"n": 1, "m": 2}\n', JsonLinesFormat(N), "as jsonl: .*unexpected field"),
        ("a.txt", "\xff", TextLineFormat("ascii"), "as txt: .*ascii"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_read_is_named_with_the_reason(
    tmp_path: Path,
    read: Callable[..., list[Any]],
    name: str,
    content: str,
    file_format: FileFormat,
    problem: str,
) -> None:
    path = tmp_path / name
    path.write_text(content, "utf-8")
    with pytest.raises(FileConnectorError, match=rf"numbers \(1/1\): .*{name} cannot be read {problem}"):
        read(FileSource(path, file_format=file_format), path)


def test_values_of_several_lines_are_read_whole_also_where_blocks_end(tmp_path: Path) -> None:
    # More than a block, and almost every line end is within a value.
    text = 'one "line",\r\nand another\n' * 2_000
    rows = [(number, text[number:]) for number in range(120)]
    path = tmp_path / "file.csv"
    with path.open("wb") as stream:
        writer = CsvFormat().writer(stream, SCHEMA)
        writer.write(pa.Table.from_batches([CsvFormat().to_batch(rows, SCHEMA, "here")]))
        writer.close()
    assert path.stat().st_size > 5 << 20
    split = FileSplit(str(path), path.stat().st_size)
    assert records(CsvFormat(SCHEMA, newlines_in_values=True), split) == rows


def test_a_quoted_value_that_is_cut_at_a_line_end_is_an_error_and_never_wrong_rows(tmp_path: Path) -> None:
    path = tmp_path / "file.csv"
    odd = [f'5" pipe {number}' for number in range(31)]
    file_format = CsvFormat(pa.schema([("text", pa.string())]))

    def read_parts(lines: list[str]) -> list[Any]:
        path.write_text("\n".join(["text", *lines, ""]), "utf-8")
        splits = file_format.split(LOCAL, str(path), path.stat().st_size, 200)
        return [row for split in splits for row in records(file_format, split)]

    assert read_parts(odd) == [(text,) for text in odd]
    with pytest.raises(ValueError, match=r"say CsvFormat\(newlines_in_values=True\)"):
        read_parts([*odd, '"' + "x" * 150, "y" * 150 + '"'])


def test_files_of_different_columns_are_told_apart(tmp_path: Path, read: Callable[..., list[Any]]) -> None:
    one, other = tmp_path / "1.parquet", tmp_path / "2.parquet"
    pq.write_table(pa.table({"n": [1], "m": [1]}), one)
    pq.write_table(pa.table({"n": [2]}), other)
    with pytest.raises(
        FileConnectorError, match=r"2\.parquet has the columns \(n: int64\), but .*1\.parquet"
    ):
        read(FileSource(tmp_path), one, other)
    assert read(FileSource(tmp_path, ["n"]), one, other) == [(1,), (2,)]


def test_unexpected_fields_may_be_ignored_and_missing_ones_are_null(
    tmp_path: Path, read: Callable[..., list[Any]]
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"n": 1, "x": {"y": 2}}\n{"text": "a"}\n')
    schema = pa.schema([("n", pa.int64()), ("text", pa.string())])
    source = FileSource(path, file_format=JsonLinesFormat(schema, unexpected_fields="ignore"))
    assert read(source, path) == [(1, None), (None, "a")]


def test_formats_that_cannot_work_are_refused() -> None:
    for wrong in (
        lambda: CsvFormat(header=False),
        lambda: CsvFormat(delimiter="::"),
        lambda: JsonLinesFormat(unexpected_fields="guess"),
        lambda: TextLineFormat("UTF-16"),
        lambda: TextLineFormat("no-such-charset"),
        lambda: ParquetFormat("no-such-codec"),
    ):
        with pytest.raises(ConfigurationError):
            wrong()
