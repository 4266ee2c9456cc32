"""Every declared type, through the bytes of LMDB and through an Arrow column written to Parquet."""

from __future__ import annotations

import dataclasses
import enum
import io
from collections import OrderedDict
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tidegate.common import Instant, Row, TypeCodec, Types
from tidegate.common.errors import StateError
from tidegate.common.type_system.type_parser import type_from_text
from tidegate.common.typeinfo import TypeInformation, type_text
from tidegate.state.serializers.codecs import value_codec


class Color(enum.Enum):
    RED = 1
    GREEN = "g"


@dataclasses.dataclass
class Address:
    street: str
    number: int | None = None


@dataclasses.dataclass(frozen=True)
class Point:
    x: float
    y: float


@dataclasses.dataclass(slots=True)
class Person:
    name: str
    born: date
    address: Address | None
    aliases: list[str]
    scores: dict[str, Decimal]
    home: tuple[Point, int]
    color: Color
    id: UUID
    anything: object


@dataclasses.dataclass
class Older(Address):
    more: int = 0


class Item(pydantic.BaseModel):
    name: str
    price: Decimal
    tags: list[str] = []
    note: str | None = None


class Open(pydantic.BaseModel, extra="allow"):
    name: str


class Celsius:
    def __init__(self, degrees: float) -> None:
        self.degrees = degrees

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Celsius) and self.degrees == other.degrees

    def __hash__(self) -> int:
        return hash(self.degrees)

    def __repr__(self) -> str:
        return f"Celsius({self.degrees})"


class CelsiusCodec(TypeCodec[Celsius]):
    name = "celsius"
    python_type = Celsius

    def encode(self, value: Celsius) -> bytes:
        return repr(value.degrees).encode()

    def decode(self, data: bytes) -> Celsius:
        return Celsius(float(data))


FLOATS = st.floats(allow_nan=False)
TEXT = st.text(max_size=5)
LONGS = st.integers(-(1 << 63), (1 << 63) - 1)
INSTANTS = st.builds(Instant, st.integers(-(1 << 40), 1 << 40), st.integers(0, 999_999_999))
DECIMALS = st.decimals(allow_nan=False) | st.just(Decimal("-0.000")) | st.just(Decimal(10) ** 400)
POINTS = st.builds(Point, FLOATS, FLOATS)
ADDRESSES = st.builds(Address, TEXT, st.none() | LONGS)
PEOPLE = st.builds(
    Person,
    *(TEXT, st.dates(), st.none() | ADDRESSES, st.lists(TEXT, max_size=2)),
    *(st.dictionaries(TEXT, DECIMALS, max_size=2), st.tuples(POINTS, LONGS), st.sampled_from(Color)),
    *(st.uuids(), st.one_of(st.integers(), st.frozensets(st.integers(), max_size=1))),
)
SCALARS: list[tuple[TypeInformation, st.SearchStrategy[Any]]] = [
    (Types.STRING(), TEXT),
    (Types.CHAR(), st.characters()),
    (Types.BOOLEAN(), st.booleans()),
    (Types.BYTE(), st.integers(-128, 127)),
    (Types.SHORT(), st.integers(-(1 << 15), (1 << 15) - 1)),
    (Types.INT(), st.integers(-(1 << 31), (1 << 31) - 1)),
    (Types.LONG(), st.integers()),
    (Types.FLOAT(), FLOATS),
    (Types.DOUBLE(), FLOATS),
    (Types.BIG_INT(), st.integers() | st.just(10**4000)),
    (Types.BIG_DEC(), DECIMALS),
    (Types.INSTANT(), INSTANTS),
    (Types.SQL_DATE(), st.dates()),
    (Types.SQL_TIME(), st.times()),
    (Types.SQL_TIMESTAMP(), st.datetimes()),
    (
        Types.SQL_TIMESTAMP_LTZ(),
        st.datetimes().map(lambda moment: moment.replace(tzinfo=timezone.utc, fold=0)),
    ),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), st.binary(max_size=5)),
    (Types.PICKLED_BYTE_ARRAY(), st.one_of(st.integers(), st.complex_numbers(allow_nan=False), TEXT)),
    (Types.CUSTOM(CelsiusCodec()), st.builds(Celsius, FLOATS)),
    (Types.of(UUID), st.uuids()),
    (Types.of(timedelta), st.timedeltas()),
    (Types.of(Color), st.sampled_from(Color)),
    (Types.DATACLASS(Point), POINTS),
    (Types.DATACLASS(Person), PEOPLE),
    (
        Types.PYDANTIC(Item),
        st.builds(Item, name=TEXT, price=st.decimals(allow_nan=False, allow_infinity=False)),
    ),
]
HASHABLE = {"STRING", "LONG", "SQL_DATE", "BIG_DEC", "BOOLEAN", "DOUBLE", "INSTANT"}


@st.composite
def typed(draw: st.DrawFn, depth: int = 2) -> tuple[TypeInformation, st.SearchStrategy[Any]]:
    """A type, and a strategy of its values."""
    if depth == 0 or draw(st.booleans()):
        return draw(st.sampled_from(SCALARS))
    kind = draw(st.sampled_from(["list", "array", "primitives", "map", "tuple", "row", "named row"]))
    element, values = draw(typed(depth - 1))
    nullable = st.none() | values
    if kind == "list":
        return Types.LIST(element), st.lists(nullable, max_size=3)
    if kind == "array":
        return Types.OBJECT_ARRAY(element), st.lists(nullable, max_size=3)
    if kind == "primitives":
        return Types.PRIMITIVE_ARRAY(Types.INT()), st.lists(st.integers(-5, 5), max_size=3)
    if kind == "map":
        key, keys = draw(st.sampled_from([case for case in SCALARS if type_text(case[0]) in HASHABLE]))
        return Types.MAP(key, element), st.dictionaries(keys, nullable, max_size=3)
    other, other_values = draw(typed(depth - 1))
    pairs = st.tuples(nullable, st.none() | other_values)
    if kind == "tuple":
        return Types.TUPLE([element, other]), pairs
    if kind == "row":
        return Types.ROW([element, other]), pairs.map(lambda pair: Row(*pair))
    return Types.ROW_NAMED(["b", "a"], [element, other]), pairs.map(lambda pair: Row("b", "a")(*pair))


def through_parquet(column: pa.Array) -> pa.Array:
    sink = io.BytesIO()
    pq.write_table(pa.table({"value": column}), sink)
    return pq.read_table(sink)["value"].combine_chunks()


def assert_comes_back(type_info: TypeInformation, values: list[Any]) -> None:
    codec = value_codec(type_info)
    encoded = codec.encode_many(values)
    assert encoded == codec.encode_many(values)
    column, opaque = codec.to_arrow(values)
    assert column.type == codec.arrow_type
    column = through_parquet(column)
    for back in (
        [codec.decode(data) for data in encoded],
        codec.from_arrow(column, opaque),
        codec.from_arrow(pa.concat_arrays([column.slice(0, 0), column]), opaque),
        [codec.decode(data) for data in codec.stored_bytes(column, opaque)],
    ):
        assert back == values
        assert [type(value) for value in back] == [type(value) for value in values]
        assert repr(back) == repr(values)


@given(typed(), st.data())
def test_every_type_comes_back_from_bytes_and_from_columns(
    case: tuple[TypeInformation, st.SearchStrategy[Any]], data: st.DataObject
) -> None:
    type_info, strategy = case
    assert_comes_back(type_info, data.draw(st.lists(st.none() | strategy, max_size=6)))


@pytest.mark.parametrize(
    ("type_info", "strategy"), SCALARS, ids=[type_text(case[0])[:30] for case in SCALARS]
)
def test_every_scalar_and_class_comes_back(
    type_info: TypeInformation, strategy: st.SearchStrategy[Any]
) -> None:
    @settings(max_examples=40)
    @given(st.lists(strategy, min_size=1, max_size=4))
    def check(values: list[Any]) -> None:
        assert_comes_back(type_info, values)

    check()


@given(typed(), st.data())
def test_a_reader_without_the_classes_reads_the_same_columns(
    case: tuple[TypeInformation, st.SearchStrategy[Any]], data: st.DataObject
) -> None:
    type_info, strategy = case
    values = data.draw(st.lists(strategy, max_size=4))
    codec, reader = value_codec(type_info), value_codec(type_from_text(type_text(type_info)))
    assert reader.arrow_type == codec.arrow_type
    column, opaque = codec.to_arrow(values)
    assert len(reader.from_arrow(column, opaque)) == len(values)


def test_a_class_is_a_struct_with_its_field_names_and_reads_as_a_row_elsewhere() -> None:
    codec = value_codec(Types.DATACLASS(Address))
    assert codec.arrow_type == pa.struct([("street", pa.large_string()), ("number", pa.int64())])
    column, _ = codec.to_arrow([Address("High St", 5)])
    reader = value_codec(type_from_text(codec.type_text))
    assert reader.from_arrow(column, {}) == [Row("street", "number")("High St", 5)]


def test_columns_are_typed() -> None:
    columns = {
        Types.BIG_INT(): pa.large_string(),
        Types.BIG_DEC(): pa.large_string(),
        Types.INSTANT(): pa.timestamp("ns", "UTC"),
        Types.SQL_TIMESTAMP_LTZ(): pa.timestamp("us", "UTC"),
        Types.of(Color): pa.large_string(),
        Types.of(UUID): pa.large_binary(),
        Types.PRIMITIVE_ARRAY(Types.INT()): pa.large_list(pa.int32()),
        Types.TUPLE([Types.STRING(), Types.PICKLED_BYTE_ARRAY()]): pa.struct(
            [("f0", pa.large_string()), ("f1", pa.large_binary())]
        ),
    }
    for type_info, column in columns.items():
        assert value_codec(type_info).arrow_type == column


def test_what_a_column_cannot_hold_is_encoded_by_itself() -> None:
    extended = Address("x", 1)
    extended.extra = 5  # type: ignore[attr-defined]
    cases: list[tuple[TypeInformation, Any]] = [
        (Types.DATACLASS(Address), extended),
        (Types.PYDANTIC(Open), Open(name="x", more=5)),  # type: ignore[call-arg]
        (Types.LIST(Types.INT()), [1 << 40]),
        (Types.LIST(Types.STRING()), ("a", "b")),
        (Types.LIST(Types.STRING()), ["\ud800"]),
        (Types.INSTANT(), Instant(1 << 50, 0)),
        (Types.SQL_TIMESTAMP(), datetime(2024, 1, 1, tzinfo=timezone.utc)),
        (Types.SQL_TIMESTAMP(), datetime(2024, 10, 27, 2, fold=1)),
        (Types.ROW_NAMED(["b", "a"], [Types.INT(), Types.INT()]), Row(a=2, b=1)),
        (Types.ROW_NAMED(["a"], [Types.INT()]), Row(1)),
        (Types.ROW([Types.INT()]), Row(a=1)),
    ]
    for type_info, value in cases:
        codec = value_codec(type_info)
        column, opaque = codec.to_arrow([value])
        assert list(opaque) == [0], value
        (back,) = codec.from_arrow(column, opaque)
        assert type(back) is type(value)
        assert repr(back) == repr(value)
        assert codec.decode(codec.encode_many([value])[0]) == back


def test_an_integer_too_long_for_text_is_encoded() -> None:
    codec = value_codec(Types.LIST(Types.BIG_INT()))
    values = [[10**5000], [1]]
    column, opaque = codec.to_arrow(values)
    assert list(opaque) == [0]
    assert codec.from_arrow(column, opaque) == values
    assert [codec.decode(data) for data in codec.encode_many(values)] == values


def test_one_value_that_does_not_fit_leaves_the_others_in_the_column() -> None:
    codec = value_codec(Types.STRING())
    values = [*("abcdefgh" * 20), "\ud800", "tail"]
    column, opaque = codec.to_arrow(values)
    assert list(opaque) == [160]
    assert column.null_count == 1
    assert codec.from_arrow(column, opaque) == values


def test_none_is_a_null_and_needs_no_encoding() -> None:
    for type_info in (Types.LONG(), Types.STRING(), Types.DATACLASS(Address)):
        column, opaque = value_codec(type_info).to_arrow([None])
        assert (column.null_count, opaque) == (1, {})


WRONG: list[tuple[TypeInformation, Any, str]] = [
    (Types.LONG(), True, "True of type bool"),
    (Types.LONG(), 1.5, "1.5 of type float"),
    (Types.TUPLE([Types.LONG(), Types.LONG()]), (1, False), "False of type bool in field f1"),
    (Types.TUPLE([Types.BOOLEAN()]), (1,), "1 of type int in field f0"),
    (Types.DOUBLE(), True, "of type bool"),
    (Types.DOUBLE(), Decimal(1), "of type Decimal"),
    (Types.BIG_DEC(), 1.5, "of type float"),
    (Types.LIST(Types.LONG()), [1, "x"], "'x' of type str as element 1"),
    (Types.PRIMITIVE_ARRAY(Types.INT()), [1, None], "None as element 1"),
    (Types.MAP(Types.STRING(), Types.LONG()), {"a": "b"}, "'b' of type str under the key 'a'"),
    (Types.MAP(Types.STRING(), Types.LONG()), {1: 1}, "1 of type int as a key"),
    (Types.ROW_NAMED(["a"], [Types.LONG()]), Row(b=1), "of type Row"),
    (Types.DATACLASS(Address), Point(1, 2), "of type Point"),
    (Types.DATACLASS(Address), Older("x", 1, 2), "of type Older"),
    (Types.MAP(Types.STRING(), Types.LONG()), OrderedDict(a=1), "of type OrderedDict"),
    (Types.DATACLASS(Address), Address("x", "y"), "'y' of type str in field number"),  # type: ignore[arg-type]
    (Types.PYDANTIC(Item), {"name": "x"}, "of type dict"),
    (Types.of(Color), "RED", "of type str"),
    (Types.CUSTOM(CelsiusCodec()), 5.0, "of type float"),
]


@pytest.mark.parametrize(("type_info", "value", "what"), WRONG)
def test_a_wrong_type_is_refused_however_deep_it_stands(
    type_info: TypeInformation, value: Any, what: str
) -> None:
    codec = value_codec(type_info)
    for store in (codec.to_arrow, codec.encode_many):
        with pytest.raises(StateError, match="does not fit the declared type") as raised:
            store([value])
        assert what in str(raised.value)


def test_a_codec_that_fails_is_named() -> None:
    class Broken(CelsiusCodec):
        python_type = None

        def encode(self, value: Any) -> Any:
            return value.degrees if value else "text"

    codec = value_codec(Types.CUSTOM(Broken()))
    with pytest.raises(StateError, match=r"codec 'celsius' cannot encode 5 of type int: .*degrees"):
        codec.encode_many([5])
    with pytest.raises(StateError, match="gave str, not bytes"):
        codec.encode_many([0])


def test_a_moment_in_any_zone_comes_back_in_utc() -> None:
    moment = datetime(2024, 6, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    codec = value_codec(Types.SQL_TIMESTAMP_LTZ())
    (back,) = codec.from_arrow(*codec.to_arrow([moment]))
    assert back == moment
    assert back.tzinfo is timezone.utc


def test_numpy_numbers_are_accepted() -> None:
    codec = value_codec(Types.TUPLE([Types.LONG(), Types.DOUBLE()]))
    assert codec.from_arrow(*codec.to_arrow([(np.int64(5), 1.0)])) == [(5, 1.0)]
    for type_info, value in ((Types.DOUBLE(), np.float64(1.5)), (Types.LIST(Types.LONG()), [np.int32(1)])):
        codec = value_codec(type_info)
        assert codec.from_arrow(*codec.to_arrow([value])) == [value]


@pytest.mark.parametrize(
    ("python_type", "immutable"),
    [(Point, True), (Address, False), (Item, False), (UUID, True), (Color, True)],
)
def test_frozen_classes_of_immutable_fields_are_immutable(python_type: Any, immutable: bool) -> None:
    assert value_codec(Types.of(python_type)).immutable is immutable


def test_rows_with_and_without_names_have_codecs_of_their_own() -> None:
    for type_info, row in (
        (Types.ROW([Types.INT()]), Row(1)),
        (Types.ROW_NAMED(["a"], [Types.INT()]), Row(a=1)),
    ):
        codec = value_codec(type_info)
        column, opaque = codec.to_arrow([row])
        assert opaque == {}
        assert codec.from_arrow(column, opaque) == [row]


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("not yet loaded")


def test_a_value_of_a_wrong_type_without_a_repr_is_a_state_error() -> None:
    with pytest.raises(
        StateError, match=r"<Unprintable whose repr\(\) raises RuntimeError> of type Unprintable"
    ):
        value_codec(Types.LIST(Types.LONG())).encode_many([[Unprintable()]])
