"""Every reader of bytes from outside reads them or raises an error of our own, whatever they are."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import socket
import threading
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tidegate.common import Row
from tidegate.common.errors import SerializationError, TidegateError
from tidegate.common.typeinfo import TypeInformation, Types
from tidegate.connectors.files.enumerator import Discovery
from tidegate.connectors.files.formats import FileFormat, FileSplit
from tidegate.connectors.files.location import locate
from tidegate.connectors.formats.registry import SchemaRegistry
from tidegate.connectors.kafka.answers import Answer
from tidegate.connectors.kafka.client import KafkaConnectorError, KafkaProperties
from tidegate.connectors.kafka.sasl import authenticate
from tidegate.connectors.kafka.wire import TransactionCoordinators, _coordinator_in
from tidegate.connectors.socket_source import _Records
from tidegate.datastream.connectors.file_system import (
    ArrowFormat,
    CsvFormat,
    FileConnectorError,
    FileSource,
    JsonLinesFormat,
    ParquetFormat,
    TextLineFormat,
)
from tidegate.datastream.formats.avro import (
    AvroRowDeserializationSchema,
    ConfluentRegistryAvroDeserializationSchema,
)
from tidegate.datastream.formats.json import JsonColumnsSchema, JsonRowDeserializationSchema
from tidegate.operators.base import OperatorContext

SCHEMA = pa.schema([("number", pa.int64()), ("text", pa.string())])
TABLE = pa.table({"number": range(30), "text": [f"text {number}" for number in range(30)]}, SCHEMA)
examples = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def in_memory(write: Callable[[Any], None]) -> bytes:
    stream = io.BytesIO()
    write(stream)
    return stream.getvalue()


def arrow_file(stream: Any) -> None:
    with pa.ipc.new_file(stream, SCHEMA) as writer:
        writer.write_table(TABLE, max_chunksize=7)


CSV = b"number,text\n" + b"".join(b'%d,"text %d"\n' % (n, n) for n in range(30))
JSON = b"".join(json.dumps({"number": n, "text": f"text {n}"}).encode() + b"\n" for n in range(30))
FILES: dict[str, tuple[Callable[[], FileFormat], bytes]] = {
    "txt": (TextLineFormat, "eins\nzwöi\n\n".encode()),
    "csv": (lambda: CsvFormat(SCHEMA), CSV),
    "inferred.csv": (CsvFormat, CSV),
    "lines.csv": (lambda: CsvFormat(SCHEMA, newlines_in_values=True, max_line_bytes=100), CSV),
    "jsonl": (lambda: JsonLinesFormat(SCHEMA), JSON),
    "ignoring.jsonl": (lambda: JsonLinesFormat(SCHEMA, unexpected_fields="ignore"), JSON),
    "inferred.jsonl": (JsonLinesFormat, JSON),
    "parquet": (ParquetFormat, in_memory(lambda stream: pq.write_table(TABLE, stream, row_group_size=7))),
    "arrow": (ArrowFormat, in_memory(arrow_file)),
}
CODECS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".zst": lambda data: pa.compress(data, "zstd", asbytes=True),
}


def mutated(valid: bytes) -> st.SearchStrategy[bytes]:
    """Any bytes, and valid ones of which a few were changed, left out, or doubled."""
    edits = st.lists(
        st.tuples(st.integers(0, max(0, len(valid) - 1)), st.integers(0, 3), st.binary(max_size=3)),
        min_size=1,
        max_size=4,
    )

    def edited(changes: list[tuple[int, int, bytes]]) -> bytes:
        data = valid
        for at, taken, put in changes:
            data = data[:at] + put + data[at + taken :]
        return data

    return st.binary(max_size=200) | edits.map(edited)


def tried(read: Callable[[], Any], expected: type[TidegateError]) -> Any:
    """What reading gives, or the error, if it is the expected one with a text."""
    try:
        return read()
    except expected as error:
        found = error
    assert 10 < len(str(found)) < 3_000
    return found


# ---------------------------------------------------------------- files


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("kind", [kind for kind in FILES if kind not in ("parquet", "arrow")])
@given(data=st.data())
@settings(examples, max_examples=40)
def test_text_files(
    data: st.DataObject,
    kind: str,
    codec: str,
    tmp_path: Path,
    operator_context: Callable[..., OperatorContext],
) -> None:
    make, valid = FILES[kind]
    content = data.draw(mutated(CODECS[codec](valid)) | mutated(valid).map(CODECS[codec]))
    read_file(tmp_path / f"file.{kind}{codec}", content, make(), operator_context)


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
@given(data=st.data())
@examples
def test_columnar_files(
    data: st.DataObject, kind: str, tmp_path: Path, operator_context: Callable[..., OperatorContext]
) -> None:
    make, valid = FILES[kind]
    read_file(tmp_path / f"file.{kind}", data.draw(mutated(valid)), make(), operator_context)


def read_file(
    path: Path, content: bytes, file_format: FileFormat, context: Callable[..., OperatorContext]
) -> None:
    """Find the parts of a file, read all, and see that an error names the file."""
    path.write_bytes(content)
    discovery = Discovery([locate(path)], file_format, 100, None)
    splits = tried(lambda: discovery.find(set()), FileConnectorError)
    if isinstance(splits, FileConnectorError):
        assert str(path) in str(splits)
        return
    reader: Any = FileSource(path, file_format=file_format).create_reader(splits)
    reader.open(context())
    found = tried(lambda: list(iter(lambda: reader.poll(10), None)), FileConnectorError)
    if isinstance(found, FileConnectorError):
        assert str(path) in str(found)
        assert "operator numbers (1/1)" in str(found)


@pytest.mark.parametrize("opening", ["[", '{"a":'])
@pytest.mark.parametrize("kind", ["jsonl", "ignoring.jsonl", "inferred.jsonl"])
def test_lines_of_json_that_are_nested_deeply(
    kind: str, opening: str, tmp_path: Path, operator_context: Callable[..., OperatorContext]
) -> None:
    closing = "]" if opening == "[" else "}"
    for depth in (100, 3_000, 1_000_000):
        line = f'{{"number": 1, "text": "a", "deep": {opening * depth}1{closing * depth}}}\n'
        for content in (line, line[: len(line) // 2] + "\n", "{}\n" + line):
            read_file(tmp_path / f"file.{kind}", content.encode(), FILES[kind][0](), operator_context)


def test_lines_of_json_with_a_new_field_each_are_refused_before_they_take_memory(
    tmp_path: Path, operator_context: Callable[..., OperatorContext]
) -> None:
    path = tmp_path / "wide.jsonl"
    path.write_text("".join(f'{{"field {number}": 1}}\n' for number in range(200_000)))
    reader: Any = FileSource(path, file_format=JsonLinesFormat()).create_reader(
        [FileSplit(str(path), path.stat().st_size)]
    )
    reader.open(operator_context())
    with pytest.raises(
        FileConnectorError, match=r"wide\.jsonl .*different fields, .*give JsonLinesFormat a schema"
    ):
        reader.poll(10)


# ---------------------------------------------------------------- JSON messages

FIELDS: list[TypeInformation] = [
    Types.BOOLEAN(), Types.BYTE(), Types.LONG(), Types.FLOAT(), Types.DOUBLE(), Types.BIG_INT(),
    Types.BIG_DEC(), Types.STRING(), Types.CHAR(), Types.INSTANT(), Types.SQL_DATE(),
    Types.SQL_TIMESTAMP(), Types.PRIMITIVE_ARRAY(Types.BYTE()), Types.PRIMITIVE_ARRAY(Types.INT()),
    Types.BASIC_ARRAY(Types.STRING()), Types.LIST(Types.LONG()), Types.MAP(Types.STRING(), Types.LONG()),
    Types.TUPLE([Types.LONG(), Types.STRING()]), Types.ROW_NAMED(["a"], [Types.LONG()]),
    Types.PICKLED_BYTE_ARRAY(),
]  # fmt: skip
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**400), 10**400) | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=5,
)


@pytest.mark.parametrize("field", FIELDS, ids=str)
@given(value=VALUES, broken=mutated(b'{"f": [1, {"a": "b"}], "g": 1e5}'))
@settings(examples, max_examples=60)
def test_json_messages(field: TypeInformation, value: Any, broken: bytes) -> None:
    builder = JsonRowDeserializationSchema.builder().type_info(Types.ROW_NAMED(["f"], [field]))
    strict, ignoring = builder.build(), builder.ignore_parse_errors().build()
    for message in (json.dumps({"f": value}).encode(), broken):
        found = tried(lambda: strict.deserialize(message), SerializationError)  # noqa: B023
        kept = ignoring.deserialize(message)
        assert isinstance(kept, Row) is isinstance(found, Row)


DEEP = [b"[" * 3_000 + b"]" * 3_000, b'{"f":' * 3_000 + b"1" + b"}" * 3_000, b"[" * 1_000_000]


@pytest.mark.parametrize("message", DEEP, ids=["lists", "objects", "open"])
def test_json_messages_that_are_nested_deeply_are_messages_that_cannot_be_read(message: bytes) -> None:
    builder = JsonRowDeserializationSchema.builder().type_info(Types.ROW_NAMED(["f"], [Types.LONG()]))
    with pytest.raises(SerializationError, match="nested too deeply"):
        builder.build().deserialize(message)
    assert builder.ignore_parse_errors().build().deserialize(message) is None
    tried(lambda: JsonColumnsSchema(SCHEMA).deserialize_batch([message]), SerializationError)


@given(messages=st.lists(mutated(b'{"number": 5, "text": "a\\u00e4"}'), min_size=1, max_size=3))
@examples
def test_json_messages_as_columns(messages: list[bytes]) -> None:
    tried(lambda: JsonColumnsSchema(SCHEMA).deserialize_batch(messages), SerializationError)


# ---------------------------------------------------------------- Avro


def record(*fields: Any, name: str = "R", **more: Any) -> dict[str, Any]:
    named = [{"name": f"f{number}", "type": field} for number, field in enumerate(fields)]
    return {"type": "record", "name": name, "fields": named, **more}


NODE = record("long", ["null", "a.b.Node"], name="Node", namespace="a.b")
AVRO: dict[str, tuple[Any, Any]] = {
    "plain": (
        record("int", "long", "float", "double", "boolean", "bytes", "string", "null"),
        {"f0": 1, "f1": -2, "f2": 1.5, "f3": 2.5, "f4": True, "f5": b"ab", "f6": "cd", "f7": None},
    ),
    "collections": (
        record({"type": "array", "items": "long"}, {"type": "map", "values": ["null", "string"]}),
        {"f0": [1, 2, 3], "f1": {"a": None, "b": "c"}},
    ),
    "named": (
        record(
            {"type": "enum", "name": "E", "symbols": ["A", "B"]}, {"type": "fixed", "name": "F", "size": 2}
        ),
        {"f0": "B", "f1": b"xy"},
    ),
    "logical": (
        record(
            {"type": "int", "logicalType": "date"},
            {"type": "long", "logicalType": "timestamp-micros"},
            {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2},
            {"type": "string", "logicalType": "uuid"},
        ),
        {"f0": 1, "f1": 2, "f2": Decimal("1.25"), "f3": "12345678123456781234567812345678"},
    ),
    "nulls": (record({"type": "array", "items": "null"}), {"f0": [None, None]}),
    "empty records": (record({"type": "array", "items": record(name="Z")}), {"f0": [{}, {}]}),
    "recursive": (NODE, {"f0": 1, "f1": {"f0": 2, "f1": None}}),
    "recursive map": (record({"type": "map", "values": "R"}), {"f0": {"a": {"f0": {}}}}),
}


def encoded(kind: str) -> bytes:
    schema, value = AVRO[kind]
    parsed = fastavro.parse_schema(json.loads(json.dumps(schema)))
    return in_memory(lambda stream: fastavro.schemaless_writer(stream, parsed, value))


@pytest.mark.parametrize("kind", AVRO)
@given(data=st.data())
@examples
def test_avro_messages(data: st.DataObject, kind: str) -> None:
    schema = AvroRowDeserializationSchema(json.dumps(AVRO[kind][0]))
    assert isinstance(schema.deserialize(encoded(kind)), Row)
    message = data.draw(mutated(encoded(kind)))
    tried(lambda: schema.deserialize(message), SerializationError)


@pytest.mark.parametrize("kind", ["nulls", "empty records"])
def test_avro_items_without_bytes_are_bounded(kind: str) -> None:
    schema = AvroRowDeserializationSchema(json.dumps(AVRO[kind][0]))
    assert len(schema.deserialize(b"\x80\x10\x00").f0) == 1_024
    for message in (
        b"\x80\x87\xa7\x0e\x00",
        b"\xfe" + b"\xff" * 8 + b"\x01\x00",
        b"\x80\x80\x08" * 9 + b"\x00",
    ):
        with pytest.raises(SerializationError, match="items that take no bytes; at most 65536 are read"):
            schema.deserialize(message)


def test_avro_blocks_declare_no_more_items_than_there_are_bytes() -> None:
    schema = AvroRowDeserializationSchema(json.dumps(AVRO["recursive map"][0]))
    with pytest.raises(
        SerializationError, match="declares an Avro block of 1000000 items and has 1 bytes left"
    ):
        schema.deserialize(b"\x80\x89\x7a\x00")


@pytest.mark.parametrize("levels", [300, 3_000_000])
def test_avro_records_that_are_nested_deeply_are_refused(levels: int) -> None:
    """The decoder would overflow the stack of the process."""
    schema = AvroRowDeserializationSchema(json.dumps(NODE))
    assert schema.deserialize(b"\x00\x02" * 200 + b"\x00\x00").f0 == 0
    with pytest.raises(SerializationError, match="nests Avro records more than 256 deep"):
        schema.deserialize(b"\x00\x02" * levels + b"\x00\x00")


@given(message=st.binary(max_size=12))
@examples
def test_messages_with_a_schema_id(message: bytes) -> None:
    schema = ConfluentRegistryAvroDeserializationSchema("http://127.0.0.1:1")
    schema._registry.schema = lambda schema_id: json.dumps(AVRO["collections"][0])  # type: ignore[method-assign]
    tried(lambda: schema.deserialize(message), SerializationError)


# ---------------------------------------------------------------- Kafka

FOUND = b"\0\0\0\0" + b"\0\0" + b"\0\0" + b"\0\0\0\1" + b"\0\4host" + b"\0\0\x23\x84"


@given(data=mutated(FOUND))
@examples
def test_answers_with_a_coordinator(data: bytes) -> None:
    assert _coordinator_in(Answer(FOUND, "here")) == ("host", 9_092)
    # A coordinator that is not ready is asked again, as after a broken connection.
    try:
        found = tried(lambda: _coordinator_in(Answer(data, "broker:9092")), KafkaConnectorError)
    except ConnectionError:
        return
    assert isinstance(found, KafkaConnectorError) or 0 < found[1] < 65_536


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
@given(data=st.data())
@examples
def test_answers_to_credentials(data: st.DataObject, mechanism: str) -> None:
    properties = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism}
    texts = (
        b"r=abc,s=QSXCR+Q6sek8bf92,i=4096", b"r=,s=a,i=99999999999999999999", b"r=,s=,i=-1", b"v=abc",
    )  # fmt: skip

    def call(api: int, version: int, body: bytes) -> Answer:
        text = data.draw(st.sampled_from(texts))
        good = b"\0\0\xff\xff" + len(text).to_bytes(4, "big") + text
        return Answer(data.draw(mutated(good) | st.just(good)), "broker:9092")

    tried(lambda: authenticate(call, KafkaProperties(properties)), KafkaConnectorError)


class Peer:
    """A server that gives each connection the same bytes, whatever it is asked, and closes it."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while True:
            connection, _ = self._listening.accept()
            with connection:
                if not connection.recv(65_536):
                    return
                connection.sendall(self._answer)

    def __enter__(self) -> Peer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        # A connection that asks for nothing ends it.
        socket.create_connection(("127.0.0.1", self.port)).close()
        self._thread.join()
        self._listening.close()


ANSWERS = [
    b"", b"\0", b"\0\0\0\0", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"HTTP/1.1 400 Bad Request\r\n\r\n",
    b"\0\0\0\4\0\0\0\1", b"\0\0\0\4\0\0\0\2", b"\0\0\0\x1e\0\0\0\1" + FOUND[:-2] + b"\xff\xff",
]  # fmt: skip


@pytest.mark.parametrize("answer", ANSWERS, ids=repr)
def test_a_server_that_is_no_broker_is_one_clear_error(answer: bytes) -> None:
    with Peer(answer) as peer:
        properties = {"bootstrap.servers": f"127.0.0.1:{peer.port}", "retry.timeout.ms": 1}
        coordinators = TransactionCoordinators(KafkaProperties(properties), "operator sink (1/1)")
        for ask in (lambda: coordinators.abort("t"), lambda: coordinators.commit("t", 1, 1)):
            with pytest.raises(KafkaConnectorError, match=r"operator sink \(1/1\)"):
                ask()
        coordinators.close()


REPLIES = [
    b"", b"{", b"[]", b"7", b'{"schema": 7}', b"\xff", b"[" * 100_000, b'{"id": "x"}', b"x" * 300_000,
]  # fmt: skip


@pytest.mark.parametrize("reply", REPLIES, ids=lambda reply: repr(reply[:20]))
def test_a_registry_that_answers_nonsense_is_one_clear_error(reply: bytes) -> None:
    head = b"HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n" % len(reply)
    with Peer(head + reply) as peer:
        registry = SchemaRegistry(f"http://127.0.0.1:{peer.port}")
        for ask in (lambda: registry.schema(1), lambda: registry.register("s", "{}")):
            error = tried(ask, SerializationError)
            assert isinstance(error, SerializationError)
            assert f"http://127.0.0.1:{peer.port}" in str(error)


# ---------------------------------------------------------------- the socket


@given(
    pieces=st.lists(st.text("ab;|", max_size=5).map(str.encode), max_size=20),
    delimiter=st.sampled_from([b";", b"ab", b"|;|"]),
)
@examples
def test_records_of_a_socket_are_those_between_delimiters(pieces: list[bytes], delimiter: bytes) -> None:
    records = _Records(delimiter, 1_000)
    found = [record for piece in pieces if piece for record in records.add(piece)] + records.rest()
    *complete, rest = b"".join(pieces).split(delimiter)
    assert found == [*complete, *([rest] if rest else [])]


def test_a_record_of_a_socket_is_bounded_and_takes_linear_time() -> None:
    records = _Records(b"\n", 64 << 20)
    for _ in range(1_024):
        assert records.add(b"x" * 65_536) == []
    assert [len(record) for record in records.add(b"\nnext")] == [64 << 20]
    bounded = _Records(b"\n", 10)
    assert bounded.add(b"0123456789") == []
    assert bounded.add(b"\n") == [b"0123456789"]
    with pytest.raises(ValueError, match="the record at byte 13 has more than 10 bytes"):
        bounded.add(b"a\n0123456789a")
