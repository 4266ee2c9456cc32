"""CSV, Parquet, ORC and Avro by PyFlink's names: a source reads the records that a sink wrote."""

from __future__ import annotations

import csv
import datetime
import json
import pickle
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyarrow import orc
from pyarrow.fs import LocalFileSystem
from tidegate.common import Row, Types, WatermarkStrategy
from tidegate.common.errors import ConfigurationError, SerializationError
from tidegate.connectors.files.formats import FileSplit, Reading
from tidegate.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from tidegate.datastream.connectors.file_system import BucketAssigner, FileSink, FileSource, StreamingFileSink
from tidegate.datastream.formats.avro import AvroBulkWriters, AvroSchema, GenericRecordAvroTypeInfo
from tidegate.datastream.formats.csv import (
    CsvBulkWriters,
    CsvReaderFormat,
    CsvRowDeserializationSchema,
    CsvRowSerializationSchema,
    CsvSchema,
)
from tidegate.datastream.formats.orc import OrcBulkWriters
from tidegate.datastream.formats.parquet import (
    AvroParquetReaders,
    AvroParquetWriters,
    ParquetBulkWriters,
    ParquetColumnarRowInputFormat,
)
from tidegate.datastream.state import ValueStateDescriptor

MakeEnv = Callable[..., StreamExecutionEnvironment]
DAY = datetime.date(2026, 5, 4)
ROW_TYPE = Types.ROW_NAMED(
    ["id", "tags", "counts", "day"],
    [Types.INT(), Types.LIST(Types.STRING()), Types.MAP(Types.STRING(), Types.LONG()), Types.SQL_DATE()],
)
ROWS = [Row(id=1, tags=["a"], counts={"x": 5}, day=DAY), Row(id=2, tags=[], counts={}, day=None)]
AVRO = AvroSchema.parse_string(
    json.dumps(
        {
            "type": "record",
            "name": "Order",
            "fields": [
                {"name": "item", "type": "string"},
                {"name": "counts", "type": {"type": "map", "values": "long"}},
            ],
        }
    )
)
ORDERS = [{"item": "tea", "counts": {"x": 1}}, {"item": "rice", "counts": {}}]


def write(env: StreamExecutionEnvironment, records: list[Any], builder: Any, type_info: Any = None) -> None:
    """Run a job that writes records into the base directory of a sink."""
    sink = builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build()
    env.from_collection(records, type_info).sink_to(sink)
    env.execute()


def collected(env: StreamExecutionEnvironment, source: FileSource) -> list[Any]:
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "files")
    with stream.execute_and_collect() as results:
        return list(results)


def test_rows_in_parquet_files(tmp_path: Path, local_env: MakeEnv) -> None:
    out = tmp_path / "out"
    write(
        local_env(), ROWS, FileSink.for_bulk_format(out, ParquetBulkWriters.for_row_type(ROW_TYPE)), ROW_TYPE
    )
    assert pq.read_table(out).column("id").to_pylist() == [1, 2]
    narrow = Types.ROW_NAMED(["day", "id"], [Types.SQL_DATE(), Types.LONG()])
    source = FileSource.for_bulk_file_format(ParquetColumnarRowInputFormat(narrow), out).build()
    assert collected(local_env(), source) == [Row(day=DAY, id=1), Row(day=None, id=2)]


def test_rows_in_orc_files(tmp_path: Path, local_env: MakeEnv) -> None:
    out = tmp_path / "out"
    write(local_env(), ROWS, FileSink.for_bulk_format(out, OrcBulkWriters.for_row_type(ROW_TYPE)), ROW_TYPE)
    (path,) = out.glob("part-*.orc")
    assert orc.read_table(path).column("tags").to_pylist() == [["a"], []]


def test_avro_records_in_parquet_files(tmp_path: Path, local_env: MakeEnv) -> None:
    out = tmp_path / "out"
    write(local_env(), ORDERS, FileSink.for_bulk_format(out, AvroParquetWriters.for_generic_record(AVRO)))
    reader = AvroParquetReaders.for_generic_record(AVRO)
    assert collected(local_env(), FileSource.for_record_stream_format(reader, out).build()) == ORDERS


def test_avro_records_in_avro_files(tmp_path: Path, local_env: MakeEnv) -> None:
    (tmp_path / "schema.avsc").write_text(str(AVRO))
    schema = AvroSchema.parse_file(str(tmp_path / "schema.avsc"))
    builder = StreamingFileSink.for_bulk_format(tmp_path / "out", AvroBulkWriters.for_generic_record(schema))
    write(local_env(), ORDERS, builder, GenericRecordAvroTypeInfo(schema))
    assert len(list((tmp_path / "out").glob("part-*.avro"))) == 1


class Newest(KeyedProcessFunction):
    """Emits the record before, of the key."""

    def open(self, runtime_context: RuntimeContext) -> None:
        descriptor = ValueStateDescriptor("newest", GenericRecordAvroTypeInfo(AVRO))
        self.newest = runtime_context.get_state(descriptor)

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
        if self.newest.value() is not None:
            yield self.newest.value()
        self.newest.update(value)


def test_avro_records_in_state(local_env: MakeEnv) -> None:
    env = local_env()
    stream = env.from_collection(ORDERS).key_by(lambda record: 1)
    with stream.process(Newest(), GenericRecordAvroTypeInfo(AVRO)).execute_and_collect() as results:
        assert list(results) == ORDERS[:1]


def test_a_record_that_does_not_fit_its_avro_schema_is_refused() -> None:
    codec = GenericRecordAvroTypeInfo(AVRO).codec
    assert codec is not None
    with pytest.raises(SerializationError, match="does not fit its Avro schema"):
        codec.encode({"item": 5})


def csv_schema() -> Any:
    builder = CsvSchema.builder().add_number_column("id", Types.INT()).add_string_column("name")
    return builder.add_array_column("parts", "#", Types.LONG()).add_boolean_column("ok")


PEOPLE = [
    Row(id=1, name='a|"b"', parts=[1, 2], ok=True),
    Row(id=2, name="", parts=[], ok=None),
    Row(id=3, name=None, parts=None, ok=False),
]


@pytest.mark.parametrize("has_header", [False, True])
def test_rows_in_csv_files(has_header: bool, tmp_path: Path, local_env: MakeEnv) -> None:
    schema = csv_schema().set_column_separator("|").set_use_header(has_header).set_strict_headers().build()
    out = tmp_path / "out"
    write(
        local_env(), PEOPLE, FileSink.for_bulk_format(out, CsvBulkWriters.for_schema(schema)), schema.row_type
    )
    (path,) = out.glob("part-*.csv")
    with path.open(newline="") as stream:
        lines = list(csv.reader(stream, delimiter="|"))
    assert lines[0 if not has_header else 1] == ["1", 'a|"b"', "1#2", "true"]
    source = FileSource.for_record_stream_format(CsvReaderFormat.for_schema(schema), out).build()
    assert collected(local_env(), source) == PEOPLE


def test_a_strict_header_with_other_columns_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("name,id,parts,ok\na,1,,true\n")
    split, reading = FileSplit(str(path), path.stat().st_size), Reading(LocalFileSystem(), None, 10)
    builder = csv_schema().set_use_header()
    ((batch, _),) = (
        piece for piece in CsvReaderFormat.for_schema(builder.build()).read(reading, split) if piece
    )
    assert batch.to_pylist() == [{"id": 1, "name": "a", "parts": None, "ok": True}]
    with pytest.raises(ValueError, match="strict schema"):
        list(CsvReaderFormat.for_schema(builder.set_strict_headers().build()).read(reading, split))


@pytest.mark.parametrize(
    "change",
    [
        lambda builder: builder.set_allow_comments(),
        lambda builder: builder.set_escape_char("\\"),
        lambda builder: builder.set_quote_char("'"),
        lambda builder: builder.set_line_separator("\r\n"),
        lambda builder: builder.disable_quote_char(),
        lambda builder: builder.set_skip_first_data_row(),
    ],
)
def test_csv_settings_that_do_not_exist_are_refused(change: Callable[[Any], Any]) -> None:
    with pytest.raises(ConfigurationError, match="CsvSchema does not support"):
        change(CsvSchema.builder())


def test_what_row_formats_cannot_do_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="file_system"):
        ParquetBulkWriters.for_row_type(ROW_TYPE, hadoop_config=object())
    with pytest.raises(ConfigurationError, match=r"Types\.ROW_NAMED"):
        OrcBulkWriters.for_row_type("ROW<a INT>")
    with pytest.raises(ConfigurationError, match="nothing for null"):
        CsvBulkWriters.for_schema(csv_schema().set_null_value("-").build())
    with pytest.raises(ConfigurationError, match="needs columns"):
        CsvSchema.builder().build()


MESSAGE_TYPE = Types.ROW_NAMED(
    ["id", "name", "price", "day", "tags", "ok"],
    [
        Types.LONG(),
        Types.STRING(),
        Types.BIG_DEC(),
        Types.SQL_DATE(),
        Types.LIST(Types.INT()),
        Types.BOOLEAN(),
    ],
)
MESSAGE = Row(id=1, name='a;"b"', price=Decimal("1.50"), day=DAY, tags=[1, 2], ok=True)


def test_csv_messages_are_read_as_they_were_written() -> None:
    writer = CsvRowSerializationSchema.Builder(MESSAGE_TYPE).set_field_delimiter(";")
    writer = pickle.loads(pickle.dumps(writer.set_array_element_delimiter("/").set_null_literal("-").build()))
    reader = CsvRowDeserializationSchema.Builder(MESSAGE_TYPE).set_field_delimiter(";")
    reader = pickle.loads(pickle.dumps(reader.set_array_element_delimiter("/").set_null_literal("-").build()))
    assert writer.serialize(MESSAGE) == b'1;"a;""b""";1.50;2026-05-04;1/2;true\n'
    empty = Row(id=None, name=None, price=None, day=None, tags=None, ok=None)
    assert [reader.deserialize(writer.serialize(row)) for row in (MESSAGE, empty)] == [MESSAGE, empty]
    assert reader.get_produced_type() == MESSAGE_TYPE


def test_csv_messages_that_cannot_be_read() -> None:
    narrow = Types.ROW_NAMED(["id", "ok"], [Types.INT(), Types.BOOLEAN()])
    builder = CsvRowDeserializationSchema.Builder(narrow)
    for message in (b"1", b"x,true", b"1,maybe", b"9999999999,true", b"1,true\n2,true", b"\xff,true"):
        with pytest.raises(SerializationError, match="CSV line"):
            builder.build().deserialize(message)
    builder.set_ignore_parse_errors(True).set_allow_comments(True)
    assert [builder.build().deserialize(each) for each in (b"x,true", b"# 1,true", b"1,true")] == [
        None, None, Row(id=1, ok=True),
    ]  # fmt: skip


def test_csv_messages_without_quotes_need_an_escape_character() -> None:
    pair = Types.ROW([Types.STRING(), Types.STRING()])
    builder = CsvRowSerializationSchema.Builder(pair).disable_quote_character().set_line_delimiter("")
    with pytest.raises(SerializationError, match="cannot be written as CSV"):
        builder.build().serialize(("a,b", "c"))
    assert builder.set_escape_character("\\").build().serialize(("a,b", "c")) == b"a\\,b,c"
