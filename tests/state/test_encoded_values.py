"""The encoding of values that their column cannot hold, and what is read of old pickles."""

from __future__ import annotations

import dataclasses
import enum
import os
import pickle
from array import array
from contextlib import suppress
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tidegate.common import Instant, Row, RowKind, Types
from tidegate.common.errors import CorruptCheckpointError, StateError
from tidegate.common.type_system.type_parser import type_from_text
from tidegate.common.typeinfo import TypeInformation, type_text
from tidegate.state.serializers.codecs import value_codec
from tidegate.state.serializers.encoded_values import PickledValue, decode_value, encode_value
from tidegate.state.serializers.old_pickles import encoded_column


class Level(enum.IntEnum):
    HIGH = 2


@dataclasses.dataclass
class Order:
    amount: int
    note: str = "none"


class Model(pydantic.BaseModel, extra="allow"):
    amount: int


ZONES = st.none() | st.timedeltas(timedelta(hours=-23), timedelta(hours=23)).map(timezone)
LEAVES = st.one_of(
    *(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(), st.binary()),
    *(st.dates(), st.times(timezones=st.just(timezone.utc)), st.datetimes(timezones=ZONES)),
    *(st.decimals(allow_nan=False), st.builds(Instant, st.integers(), st.integers())),
    *(st.binary().map(bytearray), st.builds(PickledValue, st.binary())),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        *(st.lists(inner), st.lists(inner).map(tuple), st.dictionaries(st.text() | st.integers(), inner)),
        *(st.lists(inner).map(lambda values: Row(*values)), inner.map(lambda value: Row(a=value, b=1))),
    ),
    max_leaves=8,
)


@pytest.mark.slow
@given(VALUES)
def test_every_value_comes_back_as_it_was(value: Any) -> None:
    back = decode_value(encode_value(value))
    assert back == value
    assert type(back) is type(value)
    assert repr(back) == repr(value)


def test_arrays_and_scalars_of_other_types_come_back() -> None:
    numbers = np.arange(6, dtype=">i4").reshape(2, 3)
    back = decode_value(encode_value(numbers))
    assert (back.dtype, back.tolist()) == (numbers.dtype, numbers.tolist())
    texts = np.array(["a", None], object)
    assert decode_value(encode_value(texts)).tolist() == ["a", None]
    assert decode_value(encode_value(array("d", [0.5]))) == array("d", [0.5])
    assert decode_value(encode_value([np.int64(3), np.float32(0.5), np.bool_(True), Level.HIGH])) == [
        3,
        0.5,
        True,
        2,
    ]
    assert decode_value(encode_value(Row.of_kind(RowKind.DELETE, a=1))).get_row_kind() is RowKind.DELETE


def test_what_has_no_encoding_is_refused() -> None:
    with pytest.raises(StateError, match=r"of type set has no encoding"):
        encode_value([{1}])


@given(VALUES, st.data())
def test_damage_is_found_or_gives_another_value_but_nothing_else(value: Any, data: st.DataObject) -> None:
    encoded = bytearray(encode_value(value))
    at = data.draw(st.integers(0, len(encoded) - 1))
    encoded[at] ^= data.draw(st.integers(1, 255))
    for damaged in (bytes(encoded), bytes(encoded[:at])):
        with suppress(CorruptCheckpointError):
            decode_value(damaged)


def test_deep_nesting_and_lengths_that_lie_are_refused() -> None:
    for data in (b"\x01" + b"[\x01" * 100_000 + b"N", b"\x01[" + b"\xff" * 8 + b"\x7f", b"\x01i\xff\xff\x03"):
        with pytest.raises(CorruptCheckpointError):
            decode_value(data)
    with pytest.raises(CorruptCheckpointError, match=r"is a pickle.*never unpickled"):
        decode_value(pickle.dumps(2**70, 5))


WRONG: list[tuple[TypeInformation, Any]] = [
    (Types.LONG(), "text"),
    (Types.STRING(), 5),
    (Types.TUPLE([Types.LONG()]), (1, 2)),
    (Types.LIST(Types.LONG()), ["x"]),
    (Types.MAP(Types.STRING(), Types.LONG()), {1: 1}),
    (Types.ROW([Types.LONG()]), 5),
    (Types.DATACLASS(Order), Row(1)),
    (Types.DATACLASS(Order), Row(amount="x")),
    (Types.LIST(Types.PICKLED_BYTE_ARRAY()), [1]),
]


@pytest.mark.parametrize(("type_info", "value"), WRONG, ids=str)
def test_an_encoded_value_of_another_type_is_refused(type_info: TypeInformation, value: Any) -> None:
    codec = value_codec(type_info)
    column = pa.nulls(1, codec.arrow_type)
    with pytest.raises(CorruptCheckpointError):
        codec.from_arrow(column, {0: encode_value(value)})


@pytest.mark.parametrize("value", [Order(2**70), Order(1), Model(amount=2**70, more="x")])
def test_an_instance_reads_as_a_row_where_its_class_is_unknown(value: Any) -> None:
    if isinstance(value, Order) and value.amount == 1:
        value.extra = 5  # type: ignore[attr-defined]
    type_info = Types.of(type(value))
    codec, reader = value_codec(type_info), value_codec(type_from_text(type_text(type_info)))
    column, encoded = codec.to_arrow([value])
    (back,) = codec.from_arrow(column, encoded)
    assert back == value
    assert vars(back) == vars(value)
    (row,) = reader.from_arrow(column, encoded)
    assert {**vars(value), **(getattr(value, "model_extra", None) or {})} == row.as_dict()


def test_an_instance_of_a_subclass_is_refused() -> None:
    @dataclasses.dataclass
    class Special(Order):
        more: int = 0

    with pytest.raises(StateError, match="Special does not fit the declared type"):
        value_codec(Types.DATACLASS(Order)).to_arrow([Special(1)])


# ---------------------------------------------------------------- what format 1 pickled


def read(type_info: TypeInformation, data: bytes) -> Any:
    """What an old pickle of a declared type becomes."""
    stored = pa.chunked_array([pa.array([data], pa.large_binary())])
    (encoded,) = encoded_column(stored, type_from_text(type_text(type_info)), "file").to_pylist()
    codec = value_codec(type_info)
    (value,) = codec.from_arrow(pa.nulls(1, codec.arrow_type), {0: encoded})
    return value


MOMENT = datetime(2024, 1, 2, 3, 4, 5, 6, timezone(timedelta(hours=2)))
HONEST: list[tuple[TypeInformation, Any]] = [
    (Types.LONG(), 2**70),
    (Types.LONG(), -(2**7000)),
    (Types.DOUBLE(), 3),
    (Types.STRING(), "\ud800"),
    (Types.LIST(Types.INT()), [1 << 40]),
    (Types.LIST(Types.STRING()), ("a", None)),
    (Types.LIST(Types.LONG()), array("q", [1])),
    (Types.MAP(Types.STRING(), Types.LONG()), {"a": 2**70, "b": None}),
    (Types.TUPLE([Types.LONG(), Types.BIG_DEC()]), (2**70, Decimal("1.50"))),
    (Types.TUPLE([Types.LONG(), Types.PICKLED_BYTE_ARRAY()]), (2**70, ["any", 1])),
    (Types.INSTANT(), Instant(1 << 50, 0)),
    (Types.SQL_TIMESTAMP(), MOMENT),
    (Types.SQL_TIME(), time(1, 2, tzinfo=timezone.utc)),
    (Types.SQL_DATE(), MOMENT),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), bytearray(b"x")),
    (Types.TUPLE([Types.LONG(), Types.SQL_DATE()]), (2**70, date(2024, 1, 1))),
    (Types.ROW_NAMED(["b", "a"], [Types.LONG(), Types.INT()]), Row(a=2, b=2**70)),
    (Types.ROW([Types.LONG()]), Row(2**70)),
    (Types.DATACLASS(Order), Order(2**70)),
    (Types.PYDANTIC(Model), Model(amount=2**70, more=5)),
]


@pytest.mark.parametrize(("type_info", "value"), HONEST, ids=lambda each: str(each)[:30])
def test_honest_pickles_of_format_1_are_read(type_info: TypeInformation, value: Any) -> None:
    back = read(type_info, pickle.dumps(value, 5))
    assert back == value
    assert type(back) is type(value)


def test_arrays_of_format_1_are_read() -> None:
    data = pickle.dumps(np.array([1.5, 2.5]), 5)
    assert read(Types.LIST(Types.DOUBLE()), data).tolist() == [1.5, 2.5]
    assert read(Types.DOUBLE(), pickle.dumps(np.float32(0.5), 5)) == 0.5


class Calls:
    def __init__(self, *call: Any) -> None:
        self.call = call

    def __reduce__(self) -> Any:
        return self.call[0], self.call[1:]


HOSTILE = [
    pickle.dumps(Calls(os.mkdir, "exploded"), 5),
    pickle.dumps(Calls(os.mkdir, "exploded"), 0),
    pickle.dumps([1, Calls(os.mkdir, "exploded")], 5),
    pickle.dumps(Order, 5),
    pickle.dumps(Calls(Decimal, "no number"), 5),
    pickle.dumps(Calls(date, 0, 0, 0), 5),
    b"cos\nmkdir\n(S'exploded'\ntR.",
    b"\x80\x05K\x01K\x02.",
    b"\x80\x05]\x94h\x00a.",
    b"\x80\x05a.",
    b"\x80\x05t.",
    b"\x80\x05K\x01",
    b"",
    b"no pickle",
]


@pytest.mark.parametrize("data", HOSTILE, ids=lambda data: repr(data)[:25])
@pytest.mark.parametrize(
    "type_info", [Types.LONG(), Types.LIST(Types.LONG()), Types.DATACLASS(Order)], ids=str
)
def test_a_pickle_of_format_1_that_is_more_than_data_is_refused(
    type_info: TypeInformation, data: bytes
) -> None:
    with pytest.raises(CorruptCheckpointError, match=r"'file' has a pickle in a state of a declared type"):
        read(type_info, data)
    assert not os.path.exists("exploded")


def test_a_pickle_that_expands_is_refused() -> None:
    shared: list[Any] = [1]
    for _ in range(40):
        shared = [shared] * 10
    with pytest.raises(CorruptCheckpointError, match="too many values"):
        read(Types.LIST(Types.LONG()), pickle.dumps(shared, 5))


@given(st.sampled_from(HONEST), st.data())
def test_a_damaged_pickle_of_format_1_is_refused_or_data(case: Any, data: st.DataObject) -> None:
    type_info, value = case
    pickled = bytearray(pickle.dumps(value, 5))
    pickled[data.draw(st.integers(0, len(pickled) - 1))] ^= data.draw(st.integers(1, 255))
    with suppress(CorruptCheckpointError):
        read(type_info, bytes(pickled))
