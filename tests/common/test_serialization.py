"""Schemas turn values into bytes and back."""

from __future__ import annotations

import pytest
from tidegate.common import ByteArraySchema, Encoder, Row, SimpleStringSchema, Types
from tidegate.common.errors import SerializationError
from tidegate.common.serialization import RowFieldExtractorSchema


def test_text_travels_in_its_charset() -> None:
    latin = SimpleStringSchema("latin-1")
    assert latin.serialize("ä") == b"\xe4"
    assert latin.deserialize(b"\xe4") == "ä"
    assert SimpleStringSchema().serialize("ä") == "ä".encode()
    assert latin.get_produced_type() == Types.STRING()
    with pytest.raises(SerializationError, match=r"takes text, not 1"):
        latin.serialize(1)
    with pytest.raises(SerializationError, match="is no UTF-8 text"):
        SimpleStringSchema().deserialize(b"\xff")


def test_bytes_travel_as_they_are() -> None:
    schema = ByteArraySchema()
    assert schema.serialize(bytearray(b"a")) == schema.deserialize(b"a") == b"a"
    assert schema.get_produced_type() == Types.PRIMITIVE_ARRAY(Types.BYTE())
    with pytest.raises(SerializationError, match="takes bytes"):
        schema.serialize("a")


def test_one_field_of_a_row_is_taken_for_a_key() -> None:
    schema = RowFieldExtractorSchema(1)
    assert schema.serialize(Row("a", b"key")) == b"key"
    assert schema == RowFieldExtractorSchema(1) != RowFieldExtractorSchema(0)
    with pytest.raises(SerializationError, match=r"field 1 of .* must be bytes"):
        schema.serialize(("a", "b"))
    with pytest.raises(SerializationError, match="has no field 1"):
        schema.serialize(("a",))
    with pytest.raises(ValueError, match="Field index must be non-negative"):
        RowFieldExtractorSchema(-1)


def test_an_encoder_writes_lines() -> None:
    assert Encoder.simple_string_encoder().encode(("a", 1)) == b"('a', 1)\n"
