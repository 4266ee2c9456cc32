"""ORC and Avro files: read in parts, resumed at every position, and written exactly once by the file sink."""

from __future__ import annotations

import datetime
import json
import pickle
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.fs
import pytest
from pyarrow import orc
from tidegate.common import WatermarkStrategy
from tidegate.common.errors import ConfigurationError
from tidegate.connectors.files.formats import FileFormat, FileSplit, Reading
from tidegate.connectors.formats.avro_columns import arrow_schema
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.datastream.connectors.file_system import AvroFormat, FileSink, FileSource, OrcFormat

MakeEnv = Callable[..., StreamExecutionEnvironment]
LOCAL = pyarrow.fs.LocalFileSystem()
ROWS = [{"number": number, "text": f"text {number}" * 9} for number in range(3_000)]
SCHEMA = pa.schema([("number", pa.int64()), ("text", pa.string())])
AVRO = json.dumps(
    {
        "type": "record",
        "name": "Line",
        "fields": [{"name": "number", "type": "long"}, {"name": "text", "type": ["null", "string"]}],
    }
)


def written(directory: Path, kind: str) -> tuple[FileFormat, Path, list[Any]]:
    """A format, a file in it that another program wrote, and its records."""
    path = directory / f"file.{kind}"
    if kind == "orc":
        with orc.ORCWriter(
            str(path), stripe_size=1_000, batch_size=100, compression="uncompressed"
        ) as writer:
            for start in range(0, 3_000, 500):
                writer.write(pa.Table.from_pylist(ROWS[start : start + 500], SCHEMA))
        return OrcFormat(), path, [tuple(row.values()) for row in ROWS]
    with path.open("wb") as stream:
        fastavro.writer(stream, json.loads(AVRO), ROWS, codec="deflate")
    return AvroFormat(), path, ROWS


def records(file_format: FileFormat, split: FileSplit, batch_rows: int = 70) -> list[Any]:
    found: list[Any] = []
    for piece in file_format.read(Reading(LOCAL, None, batch_rows), split):
        assert piece is not None
        assert piece[0].num_rows <= batch_rows
        found += file_format.to_records(piece[0])
    return found


@pytest.mark.parametrize("kind", ["orc", "avro"])
@pytest.mark.parametrize("split_bytes", [1 << 30, 20_000])
def test_the_parts_of_a_file_have_every_row_once_and_in_order(
    tmp_path: Path, kind: str, split_bytes: int
) -> None:
    file_format, path, expected = written(tmp_path, kind)
    splits = file_format.split(LOCAL, str(path), path.stat().st_size, split_bytes)
    assert [record for split in splits for record in records(file_format, split)] == expected
    assert (len(splits) > 1) == (kind == "orc" and split_bytes == 20_000)


@pytest.mark.parametrize("kind", ["orc", "avro"])
def test_a_reader_resumes_from_every_position(tmp_path: Path, kind: str) -> None:
    file_format, path, expected = written(tmp_path, kind)
    (split,) = file_format.split(LOCAL, str(path), path.stat().st_size, 1 << 30)
    seen: list[Any] = []
    for piece in file_format.read(Reading(LOCAL, None, 701), split):
        assert piece is not None
        seen += file_format.to_records(piece[0])
        assert seen + records(file_format, pickle.loads(pickle.dumps(piece[1])), 701) == expected


@pytest.mark.parametrize("kind", ["orc", "avro"])
def test_columns_have_the_requested_order(tmp_path: Path, kind: str) -> None:
    file_format, path, _ = written(tmp_path, kind)
    (split,) = file_format.split(LOCAL, str(path), path.stat().st_size, 1 << 30)
    piece = next(iter(file_format.read(Reading(LOCAL, ["text", "number"], 10), split)))
    assert piece is not None
    assert piece[0].schema.names == ["text", "number"]


WHEN = datetime.datetime(2026, 2, 28, 1, 2, 3, tzinfo=datetime.timezone.utc)
ALL_TYPES: dict[str, Any] = {
    "type": "record",
    "name": "All",
    "fields": [
        {"name": "i", "type": ["null", "int"]},
        {"name": "l", "type": {"type": "array", "items": "double"}},
        {"name": "m", "type": {"type": "map", "values": {"type": "array", "items": "string"}}},
        {"name": "e", "type": {"type": "enum", "name": "Colour", "symbols": ["RED", "BLUE"]}},
        {"name": "f", "type": {"type": "fixed", "name": "Two", "size": 2}},
        {"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {
            "name": "r",
            "type": {"type": "record", "name": "In", "fields": [{"name": "c", "type": "Colour"}]},
        },
    ],
}
VALUE = {
    "i": None, "l": [0.5], "m": {"k": ["v"]}, "e": "RED", "f": b"ab", "d": Decimal("12.50"), "at": WHEN,
    "day": WHEN.date(), "r": {"c": "BLUE"},
}  # fmt: skip


def test_every_avro_type_survives_the_sink_and_the_source(tmp_path: Path, local_env: MakeEnv) -> None:
    avro = AvroFormat(json.dumps(ALL_TYPES))
    env = local_env()
    env.from_collection([VALUE] * 3).sink_to(FileSink(tmp_path / "out", avro.columns, file_format=avro))
    env.execute()
    (path,) = tmp_path.glob("out/part-*.avro")
    with path.open("rb") as stream:
        assert list(fastavro.reader(stream)) == [VALUE] * 3
    source = FileSource.for_bulk_file_format(AvroFormat(), tmp_path / "out").build()
    assert collected(local_env(), source) == [VALUE] * 3


def test_orc_files_of_the_sink_are_read_by_the_source(tmp_path: Path, local_env: MakeEnv) -> None:
    env = local_env()
    rows = [tuple(row.values()) for row in ROWS]
    env.from_collection(rows).sink_to(FileSink(tmp_path / "out", SCHEMA, file_format=OrcFormat("zstd")))
    env.execute()
    assert collected(local_env(), FileSource(tmp_path / "out", file_format=OrcFormat())) == rows


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ({"type": "array", "items": "long"}, "of type record"),
        (
            {"type": "record", "name": "A", "fields": [{"name": "a", "type": ["int", "string"]}]},
            "several types",
        ),
        (
            {"type": "record", "name": "A", "fields": [{"name": "a", "type": ["null", "A"]}]},
            "refers to itself",
        ),
    ],
)
def test_a_schema_that_columns_cannot_represent_is_refused(broken: Any, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        arrow_schema(fastavro.parse_schema(broken))


def test_formats_that_cannot_work_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="zlib"):
        OrcFormat("gzip")
    with pytest.raises(ConfigurationError, match="deflate"):
        AvroFormat(AVRO, "gzip")
    with pytest.raises(ConfigurationError, match="needs a schema"):
        _ = AvroFormat().columns


def collected(env: StreamExecutionEnvironment, source: FileSource) -> list[Any]:
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "files")
    with stream.execute_and_collect() as results:
        return list(results)
