"""JSON and Avro messages, and the wire format of a schema registry."""

from __future__ import annotations

import datetime
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from tidegate.common import Row, Types, WatermarkStrategy
from tidegate.common.errors import ConfigurationError, SerializationError
from tidegate.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource
from tidegate.datastream.formats.avro import (
    AvroRowDeserializationSchema,
    AvroRowSerializationSchema,
    ConfluentRegistryAvroDeserializationSchema,
    ConfluentRegistryAvroSerializationSchema,
)
from tidegate.datastream.formats.json import (
    JsonColumnsSchema,
    JsonRowDeserializationSchema,
    JsonRowSerializationSchema,
)

from ..datastream.jobs import environment
from .broker import Broker

TYPE = Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()])
FIRST = json.dumps({
    "type": "record", "name": "User",
    "fields": [{"name": "id", "type": "long"}, {"name": "name", "type": "string"}],
})  # fmt: skip
SECOND = json.dumps({
    "type": "record", "name": "User",
    "fields": [
        {"name": "id", "type": "long"}, {"name": "name", "type": "string"},
        {"name": "age", "type": "int", "default": -1},
    ],
})  # fmt: skip


def rows(*options: str) -> JsonRowDeserializationSchema:
    builder = JsonRowDeserializationSchema.builder().type_info(TYPE)
    for option in options:
        getattr(builder, option)()
    return builder.build()


def test_json_objects_become_rows_and_new_fields_are_left_out() -> None:
    messages = [b'{"id": 1, "name": "a"}', b'{"name": "b", "id": 2, "more": [1]}', b'{"id": 3}']
    expected = [Row(id=1, name="a"), Row(id=2, name="b"), Row(id=3, name=None)]
    assert rows().deserialize_batch(messages) == expected


@pytest.mark.parametrize("message", [b"{", b"[1]", b"1", b"\xff", b'{"id": "x"}', b""])
def test_messages_that_are_no_json_objects_of_the_type_are_refused(message: bytes) -> None:
    with pytest.raises(SerializationError, match="a message"):
        rows().deserialize(message)
    assert rows("ignore_parse_errors").deserialize(message) is None


def test_a_missing_field_is_an_error_if_so_wished() -> None:
    with pytest.raises(SerializationError, match=r"lacks the fields \['name'\]"):
        rows("fail_on_missing_field").deserialize(b'{"id": 3}')


def test_rows_become_json_objects() -> None:
    names = ["id", "day", "data", "inner"]
    types = [Types.LONG(), Types.SQL_DATE(), Types.PRIMITIVE_ARRAY(Types.BYTE()), TYPE]
    schema = JsonRowSerializationSchema.builder().with_type_info(Types.ROW_NAMED(names, types)).build()
    value = Row(1, datetime.date(2026, 1, 2), b"ab", Row(id=1, name="n"))
    assert json.loads(schema.serialize(value)) == {
        "id": 1, "day": "2026-01-02", "data": "YWI=", "inner": {"id": 1, "name": "n"},
    }  # fmt: skip
    with pytest.raises(SerializationError, match="has 1 fields, the type 4"):
        schema.serialize((1,))
    with pytest.raises(ConfigurationError, match="needs a row type"):
        JsonRowSerializationSchema.builder().build()


def test_json_objects_become_arrow_columns() -> None:
    schema = pa.schema({"id": pa.int64(), "name": pa.string()})
    columns = JsonColumnsSchema(schema)
    batch = columns.deserialize_batch([b'{"id": 1,\n"name": "a"}', b'{"name": "b", "x": {}}'])
    assert batch == pa.record_batch([[1, None], ["a", "b"]], schema=schema)
    for bad in (b"", b"{", b'{"id": "x"}', b"{} {}"):
        with pytest.raises(SerializationError):
            columns.deserialize_batch([b'{"id": 1}', bad])


def test_bad_messages_among_columns_are_skipped(broker: Broker) -> None:
    topic = broker.topic()
    broker.produce(topic, [b'{"id": 1}', b"bad", None, b'{"id": 2}'])
    source = KafkaSource.builder().set_bootstrap_servers(broker.servers).set_topics(topic)
    source.set_bounded(KafkaOffsetsInitializer.latest()).set_skip_undecodable()
    source.set_value_only_deserializer(JsonColumnsSchema(pa.schema({"id": pa.int64()})))
    stream = environment().from_source(source.build(), WatermarkStrategy.no_watermarks(), "kafka")
    with stream.execute_and_collect() as results:
        assert list(results) == [(1,), (2,)]


@pytest.mark.parametrize("value", [Row(id=1, name="a"), {"id": 1, "name": "a"}, (1, "a")])
def test_avro_records_are_written_and_read(value: Any) -> None:
    message = AvroRowSerializationSchema(FIRST).serialize(value)
    schema = AvroRowDeserializationSchema(FIRST)
    assert schema.deserialize(message) == Row(id=1, name="a")
    for bad in (message[:-1], message + b"x", b""):
        with pytest.raises(SerializationError):
            schema.deserialize(bad)


def test_what_does_not_fit_an_avro_schema_is_refused() -> None:
    with pytest.raises(SerializationError, match="does not fit its Avro schema"):
        AvroRowSerializationSchema(FIRST).serialize({"id": "x", "name": "a"})
    with pytest.raises(ConfigurationError, match="no Avro schema"):
        AvroRowDeserializationSchema("{}")


# ---------------------------------------------------------------- the registry


class Registry(BaseHTTPRequestHandler):
    """Two requests of a schema registry; the first request of all fails, as if it were starting."""

    schemas: ClassVar[list[str]] = []
    requests: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        number = int(self.path.rpartition("/")[2])
        known = number < len(Registry.schemas)
        self.answer(200 if known else 404, {"schema": Registry.schemas[number] if known else ""})

    def do_POST(self) -> None:
        schema = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["schema"]
        if schema not in Registry.schemas:
            Registry.schemas.append(schema)
        self.answer(200, {"id": Registry.schemas.index(schema)})

    def answer(self, code: int, body: Any) -> None:
        Registry.requests.append(self.path)
        data = json.dumps(body).encode()
        self.send_response(503 if len(Registry.requests) == 1 else code)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *arguments: Any) -> None:
        """Nothing."""


@pytest.fixture
def registry() -> Iterator[str]:
    Registry.schemas, Registry.requests = [], []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_records_of_several_schemas_are_read_as_one(registry: str) -> None:
    old = ConfluentRegistryAvroSerializationSchema("users-value", FIRST, registry)
    new = ConfluentRegistryAvroSerializationSchema("users-value", SECOND, registry)
    messages = [old.serialize((1, "a")), new.serialize((2, "b", 30)), old.serialize((3, "c"))]
    assert messages[0][:5] == bytes(5)
    assert messages[1][:5] == b"\0\0\0\0\1"
    as_written = ConfluentRegistryAvroDeserializationSchema(registry)
    assert as_written.deserialize_batch(messages) == [
        Row(id=1, name="a"), Row(id=2, name="b", age=30), Row(id=3, name="c"),
    ]  # fmt: skip
    as_new = ConfluentRegistryAvroDeserializationSchema(registry, SECOND)
    assert [row["age"] for row in as_new.deserialize_batch(messages)] == [-1, 30, -1]
    # The first request was tried again; each schema was asked for once by each reader.
    assert (
        sorted(Registry.requests)
        == ["/schemas/ids/0"] * 2 + ["/schemas/ids/1"] * 2 + ["/subjects/users-value/versions"] * 3
    )


def test_a_message_without_header_or_with_an_unknown_schema_is_refused(registry: str) -> None:
    schema = ConfluentRegistryAvroDeserializationSchema(registry)
    with pytest.raises(SerializationError, match="no header"):
        schema.deserialize(b"\1\0\0\0\1x")
    with pytest.raises(SerializationError, match="with 404"):
        schema.deserialize(b"\0\0\0\0\7x")
