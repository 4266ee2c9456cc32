"""A long line takes time in proportion to its length, within a bound, and does not hold up a checkpoint."""

from __future__ import annotations

import gzip
import json
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs
import pytest
from tidegate.common.errors import ConfigurationError
from tidegate.connectors.files import lines
from tidegate.connectors.files.formats import FileFormat, FileSplit, Reading
from tidegate.connectors.files.source import StreamFormat
from tidegate.datastream.connectors.file_system import (
    CsvFormat,
    FileConnectorError,
    FileSource,
    JsonLinesFormat,
    TextLineFormat,
)
from tidegate.operators.base import OperatorContext

LOCAL = pyarrow.fs.LocalFileSystem()
SCHEMA = pa.schema([("text", pa.string())])
MIB = 1 << 20
STEPS_IN_LINE = 3
LENGTH = STEPS_IN_LINE * lines.STEP_BYTES + 5

Pieces = list[list[Any] | None]


def whole(path: Path) -> FileSplit:
    return FileSplit(str(path), path.stat().st_size)


def pieces(file_format: FileFormat, split: FileSplit, batch_rows: int = 100) -> Iterator[Any]:
    """What reading gives: the records of each batch with the position after it, or None."""
    for piece in file_format.read(Reading(LOCAL, None, batch_rows), split):
        yield None if piece is None else (file_format.to_records(piece[0]), piece[1])


def records(file_format: FileFormat, split: FileSplit, batch_rows: int = 100) -> list[Any]:
    found = pieces(file_format, split, batch_rows)
    return [record for piece in found if piece is not None for record in piece[0]]


@pytest.mark.timeout(60)
def test_a_line_of_64_mib_is_read_in_steps(tmp_path: Path) -> None:
    path = tmp_path / "long.txt"
    path.write_bytes(b"first\n" + b"x" * (64 * MIB) + b"\nlast\n")
    found = list(pieces(TextLineFormat(), whole(path)))
    assert [len(record) for piece in found if piece for record in piece[0]] == [5, 64 * MIB, 4]
    assert found.count(None) >= 64 * MIB // lines.STEP_BYTES - 1


FORMATS: dict[str, tuple[Callable[..., FileFormat], str, str]] = {
    "txt": (TextLineFormat, "", ""),
    "csv": (lambda **options: CsvFormat(SCHEMA, **options), "text\n", ""),
    "quoted.csv": (lambda **options: CsvFormat(SCHEMA, newlines_in_values=True, **options), "text\n", '"'),
    "inferred.csv": (CsvFormat, "text\n", '"'),
    "jsonl": (lambda **options: JsonLinesFormat(SCHEMA, **options), "", "json"),
    "inferred.jsonl": (JsonLinesFormat, "", "json"),
}


def written(path: Path, kind: str, texts: list[str]) -> None:
    _, head, quote = FORMATS[kind]
    if quote == "json":
        texts = [json.dumps({"text": text}, separators=(",", ":")) for text in texts]
        quote = ""
    data = head + "".join(f"{quote}{text}{quote}\n" for text in texts)
    path.write_bytes(gzip.compress(data.encode(), 1) if path.suffix == ".gz" else data.encode())


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("kind", FORMATS)
def test_a_snapshot_in_the_middle_of_a_line_restores_to_the_same_records(
    tmp_path: Path, kind: str, suffix: str, operator_context: Callable[..., OperatorContext]
) -> None:
    texts = ["a", "b" * LENGTH, "c"]
    path = tmp_path / f"file.{kind}{suffix}"
    written(path, kind, texts)
    source = FileSource(path, file_format=FORMATS[kind][0]())

    def reader(splits: list[Any]) -> Any:
        made = source.create_reader([])
        made.open(operator_context())
        made.add_splits(splits)
        return made

    def rest(made: Any) -> list[str]:
        found: list[str] = []
        while (batch := made.poll(10)) is not None:
            found += [record if kind == "txt" else record[0] for record in batch.values]
        return found

    made = reader([whole(path)])
    seen: list[str] = []
    for poll in range(50):
        # Every so often, not always: each restore reads the long line from its start.
        if poll < 4:
            assert seen + rest(reader(pickle.loads(pickle.dumps(made.snapshot_state())))) == texts
        if (batch := made.poll(10)) is None:
            break
        seen += [record if kind == "txt" else record[0] for record in batch.values]
    assert seen == texts
    assert poll > STEPS_IN_LINE


def test_a_split_that_begins_within_a_long_line_looks_for_its_end_in_steps(tmp_path: Path) -> None:
    path = tmp_path / "long.txt"
    path.write_bytes(b"a\n" + b"x" * (2 * LENGTH) + b"\nb\nc\n")
    split = FileSplit(str(path), path.stat().st_size, 1_000, path.stat().st_size)
    found = list(pieces(TextLineFormat(max_line_bytes=10), split))
    assert [piece[0] for piece in found if piece] == [["b", "c"]]
    assert found.count(None) >= 2 * STEPS_IN_LINE - 1


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("before", [0, 1, 2, 700])
def test_the_longest_line_is_exactly_as_long_as_it_may_be(
    tmp_path: Path, kind: str, suffix: str, before: int
) -> None:
    make, head, _ = FORMATS[kind]
    fits, is_longer = tmp_path / f"fits.{kind}{suffix}", tmp_path / f"longer.{kind}{suffix}"
    extra = {"": 0, '"': 2, "json": len('{"text":""}')}[FORMATS[kind][2]]
    short = "y" * 7
    written(fits, kind, [*[short] * before, "x" * 300, short])
    written(is_longer, kind, [*[short] * before, "x" * 301, short])
    file_format = make(max_line_bytes=300 + extra)
    assert len(records(file_format, whole(fits))) == before + 2
    at = len(head) + before * (len(short) + extra + 1)
    with pytest.raises(ValueError, match=f"line at byte {at} has more than {300 + extra} bytes"):
        records(file_format, whole(is_longer))


def test_an_error_for_a_line_names_operator_file_offset_and_setting(
    tmp_path: Path, operator_context: Callable[..., OperatorContext]
) -> None:
    path = tmp_path / "long.txt"
    path.write_bytes(b"a\n" + b"x" * 101 + b"\n")
    reader = FileSource(path, file_format=StreamFormat.text_line_format(max_line_bytes=100)).create_reader([])
    reader.open(operator_context())
    reader.add_splits([whole(path)])
    with pytest.raises(FileConnectorError) as raised:
        list(iter(lambda: reader.poll(10), None))
    for words in ("operator numbers (1/1)", str(path), "the line at byte 2 ", "raise max_line_bytes"):
        assert words in str(raised.value)


def test_a_quote_that_is_not_closed_is_an_error_before_the_file_is_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "open.csv"
    path.write_bytes(b'text\na\n"b\n' + b"c\n" * 10_000)
    with pytest.raises(ValueError, match=r"line at byte 7 .*a quote that is not closed"):
        records(CsvFormat(SCHEMA, newlines_in_values=True, max_line_bytes=1_000), whole(path))


def test_a_compressed_line_that_expands_without_end_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "bomb.txt.gz"
    path.write_bytes(gzip.compress(bytes(1 << 20)) * 4_000)
    assert path.stat().st_size < 6 * MIB
    with pytest.raises(ValueError, match="line at byte 0 has more than 67108864 bytes"):
        records(TextLineFormat(), whole(path))


def test_a_compressed_file_that_ends_before_its_position_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "short.txt.gz"
    path.write_bytes(gzip.compress(b"a\nb\n"))
    split = FileSplit(str(path), path.stat().st_size, start=100)
    with pytest.raises(ValueError, match="it ends at byte 4 and was read to byte 99 before"):
        records(TextLineFormat(), split)


@pytest.mark.parametrize("kind", ["txt", "csv", "jsonl"])
def test_positions_hold_when_the_longest_line_changes(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"file.{kind}"
    texts = [f"text {number}" for number in range(500)]
    written(path, kind, texts)
    make = FORMATS[kind][0]
    seen: list[Any] = []
    for piece in pieces(make(), whole(path), batch_rows=37):
        seen += piece[0]
        assert seen + records(make(max_line_bytes=100), piece[1], batch_rows=11) == records(
            make(), whole(path)
        )


@pytest.mark.parametrize("longest", [0, -1, (1 << 30) + 1])
def test_a_bound_that_cannot_be_is_refused(longest: int) -> None:
    for make in (TextLineFormat, JsonLinesFormat, CsvFormat):
        with pytest.raises(ConfigurationError, match="max_line_bytes"):
            make(max_line_bytes=longest)
