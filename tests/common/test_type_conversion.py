"""Values are brought to their declared type as PyFlink's coders do; what cannot be is an error."""

from __future__ import annotations

import enum
import re
import struct
from array import array
from dataclasses import dataclass
from datetime import date, datetime, time, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tidegate.common import Instant, Row, RowKind, TypeInformation, Types
from tidegate.common.type_system.type_conversion import WrongValueError, converter_of


@dataclass
class Flight:
    tail: str


class Colour(enum.Enum):
    RED = 1


PAIR = Types.ROW([Types.STRING(), Types.INT()])
NAMED = Types.ROW_NAMED(["name", "age"], [Types.STRING(), Types.INT()])
MATCHING: list[tuple[TypeInformation, list[Any]]] = [
    (Types.STRING(), ["", "a"]),
    (Types.CHAR(), ["a", "ß"]),
    (Types.BOOLEAN(), [True, False]),
    (Types.BYTE(), [-128, 127]),
    (Types.SHORT(), [-32768, 32767]),
    (Types.INT(), [-(2**31), 2**31 - 1]),
    (Types.LONG(), [-(2**63), 2**63 - 1]),
    (Types.BIG_INT(), [2**200]),
    (Types.FLOAT(), [0.5, float("inf")]),
    (Types.DOUBLE(), [0.1]),
    (Types.BIG_DEC(), [Decimal("1.10")]),
    (Types.INSTANT(), [Instant(1, 2)]),
    (Types.SQL_DATE(), [date(2024, 1, 2)]),
    (Types.SQL_TIME(), [time(1, 2)]),
    (Types.SQL_TIMESTAMP(), [datetime(2024, 1, 2)]),
    (Types.SQL_TIMESTAMP_LTZ(), [datetime(2024, 1, 2, tzinfo=timezone.utc)]),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), [b"ab"]),
    (Types.PRIMITIVE_ARRAY(Types.INT()), [[1, 2], []]),
    (Types.BASIC_ARRAY(Types.STRING()), [["a", None]]),
    (Types.OBJECT_ARRAY(PAIR), [[]]),
    (Types.LIST(Types.LIST(Types.INT())), [[[1], [], [2, 3]], [None]]),
    (Types.MAP(Types.STRING(), Types.INT()), [{"a": 1, "b": None}, {}]),
    (Types.TUPLE([Types.STRING(), Types.INT()]), [("a", 1), (None, None)]),
    (Types.DATACLASS(Flight), [Flight("N1")]),
    (Types.of(Colour), [Colour.RED]),
]


@pytest.mark.parametrize(("declared", "values"), MATCHING, ids=lambda each: str(each)[:40])
def test_values_of_the_declared_type_are_handed_back_untouched(
    declared: TypeInformation, values: list[Any]
) -> None:
    convert = converter_of(declared)
    assert convert is not None
    assert convert(values) is values


@pytest.mark.parametrize(
    "declared", [Types.PICKLED_BYTE_ARRAY(), Types.of(object)], ids=["pickled", "of(object)"]
)
def test_a_type_that_takes_anything_has_nothing_to_convert(declared: TypeInformation) -> None:
    assert converter_of(declared) is None


def same(left: Any, right: Any) -> bool:
    """Equal, and of one type all the way down."""
    return left == right and repr(left) == repr(right)


CONVERTED: list[tuple[TypeInformation, Any, Any]] = [
    (Types.INT(), True, 1),
    (Types.INT(), np.int64(5), 5),
    (Types.DOUBLE(), 1, 1.0),
    (Types.DOUBLE(), np.float32(0.5), 0.5),
    (Types.FLOAT(), 0.1, struct.unpack("f", struct.pack("f", 0.1))[0]),
    (Types.STRING(), np.str_("a"), "a"),
    (Types.BOOLEAN(), np.bool_(True), True),
    (Types.BIG_DEC(), 3, Decimal(3)),
    (Types.SQL_DATE(), datetime(2024, 1, 2, 3), date(2024, 1, 2)),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), bytearray(b"ab"), b"ab"),
    (Types.PRIMITIVE_ARRAY(Types.DOUBLE()), array("d", [0.5]), [0.5]),
    (Types.LIST(Types.DOUBLE()), (1, 2.5), [1.0, 2.5]),
    (Types.LIST(Types.LONG()), np.array([1, 2]), [1, 2]),
    (Types.MAP(Types.STRING(), Types.DOUBLE()), {"a": 1}, {"a": 1.0}),
    (Types.TUPLE([Types.STRING(), Types.DOUBLE()]), ["a", 1], ("a", 1.0)),
    (Types.TUPLE([Types.STRING(), Types.INT()]), Row("a", 1), ("a", 1)),
    (PAIR, ("a", 1), Row("f0", "f1")("a", 1)),
    (PAIR, Row("a", 1), Row("f0", "f1")("a", 1)),
    (PAIR, Row(x="a", y=1), Row("f0", "f1")("a", 1)),
    (NAMED, ["Alice", 11], Row(name="Alice", age=11)),
    (NAMED, Row(age=11, name="Alice"), Row(name="Alice", age=11)),
    (NAMED, {"age": 11}, Row(name=None, age=11)),
    (Types.ROW([PAIR]), (("a", 1),), Row("f0")(Row("f0", "f1")("a", 1))),
    (Types.LIST(PAIR), [("a", 1), None], [Row("f0", "f1")("a", 1), None]),
]


@pytest.mark.parametrize(
    ("declared", "given", "arrives"),
    CONVERTED,
    ids=str,
)
def test_what_stands_for_a_value_of_the_type_becomes_one(
    declared: TypeInformation, given: Any, arrives: Any
) -> None:
    convert = converter_of(declared)
    assert convert is not None
    (converted,) = convert([given])
    assert same(converted, arrives)
    assert same(list(convert([converted])), [converted])


@pytest.mark.parametrize(
    ("declared", "given", "reason"),
    [
        (Types.STRING(), 1, "1 of type int where STRING is declared"),
        (Types.STRING(), None, "None where STRING is declared"),
        (Types.INT(), "1", "'1' of type str where INT is declared"),
        (Types.INT(), 1.0, "1.0 of type float where INT is declared"),
        (Types.BYTE(), 128, "128 does not fit BYTE, which holds -128 to 127"),
        (Types.LONG(), -(2**63) - 1, "does not fit LONG"),
        (Types.CHAR(), "ab", "'ab' of type str where CHAR is declared"),
        (Types.BOOLEAN(), 1, "where BOOLEAN is declared"),
        (Types.SQL_TIMESTAMP(), date(2024, 1, 2), "where SQL_TIMESTAMP is declared"),
        (Types.PRIMITIVE_ARRAY(Types.INT()), [1, None], "None where INT is declared in a list"),
        (Types.LIST(Types.INT()), [[1]], "where INT is declared in a list"),
        (Types.MAP(Types.STRING(), Types.INT()), {1: 1}, "STRING is declared as the key of a map"),
        (Types.MAP(Types.STRING(), Types.INT()), {"a": "b"}, "INT is declared as a value of a map"),
        (PAIR, ("a", "b"), "'b' of type str where INT is declared in field 1"),
        (PAIR, ("a",), r"\('a',\) of type tuple where ROW\(f0: STRING, f1: INT\) is declared"),
        (NAMED, ("a", "b"), "where INT is declared in field 'age'"),
        (NAMED, Row(name="a", size=1), "where ROW"),
        (NAMED, {"size": 1}, "where ROW"),
        (Types.TUPLE([PAIR]), (("a", "b"),), "INT is declared in field 1 in field 0"),
        (Types.DATACLASS(Flight), ("N1",), "where DATACLASS"),
    ],
    ids=str,
)
def test_a_value_of_another_type_is_an_error_that_says_where(
    declared: TypeInformation, given: Any, reason: str
) -> None:
    convert = converter_of(declared)
    assert convert is not None
    with pytest.raises(WrongValueError) as caught:
        convert([given])
    assert re.search(reason, caught.value.reason)


@pytest.mark.parametrize("odd", [True, np.int64(7), 2**63, None, 0.5, "a"], ids=repr)
@pytest.mark.parametrize("position", [0, 3, 8])
def test_one_value_among_many_that_differs_is_seen(odd: Any, position: int) -> None:
    triple = Types.TUPLE([Types.LONG(), Types.TUPLE([Types.LONG()]), Types.LIST(Types.LONG())])
    convert = converter_of(triple)
    assert convert is not None
    for record in [(odd, (1,), [1]), (1, (odd,), [1]), (1, (1,), [odd])]:
        records: list[Any] = [(number, (number,), [number]) for number in range(9)]
        records[position] = record
        if odd is None or isinstance(odd, (bool, np.int64)):
            arrived = convert(records)
            assert same(arrived[position], convert([record])[0])
            assert all(same(arrived[each], records[each]) for each in range(9) if each != position)
        else:
            with pytest.raises(WrongValueError, match="LONG"):
                convert(records)


@pytest.mark.parametrize("odd", [(1,), (1, 2, 3), [1, 2], Row(1, 2), (), None], ids=repr)
def test_a_tuple_of_another_length_or_kind_among_many_is_seen(odd: Any) -> None:
    convert = converter_of(Types.TUPLE([Types.LONG(), Types.LONG()]))
    assert convert is not None
    records = [(1, 2), (3, 4), odd, (5, 6)]
    if odd is not None and len(odd) == 2:
        assert convert(records) == [(1, 2), (3, 4), (1, 2), (5, 6)]
    else:
        with pytest.raises(WrongValueError):
            convert(records)


def test_integers_of_a_collection_keep_their_low_bits_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    convert = converter_of(Types.ROW([Types.SHORT(), Types.INT()]), wraps_integers=True)
    assert convert is not None
    (row,) = convert([(43878, 9147483648)])
    assert list(row) == [-21658, 557549056]
    assert "43878 does not fit SHORT" in caplog.text


def test_a_row_keeps_its_kind() -> None:
    convert = converter_of(NAMED)
    assert convert is not None
    (row,) = convert([Row.of_kind(RowKind.DELETE, "Alice", 11)])
    assert row == Row.of_kind(RowKind.DELETE, name="Alice", age=11)


SCALARS: list[tuple[TypeInformation, st.SearchStrategy[Any]]] = [
    (Types.STRING(), st.text(max_size=3)),
    (Types.INT(), st.integers(-(2**31), 2**31 - 1) | st.booleans()),
    (Types.LONG(), st.integers(-(2**63), 2**63 - 1) | st.integers(-9, 9).map(np.int64) | st.booleans()),
    (Types.DOUBLE(), st.floats(allow_nan=False) | st.integers(-9, 9)),
    (Types.FLOAT(), st.floats(width=64, allow_nan=False)),
]


@st.composite
def typed_batches(draw: st.DrawFn) -> tuple[TypeInformation, list[Any]]:
    declared, values = draw(nested(2))
    return declared, draw(st.lists(values, max_size=6))


def nested(depth: int) -> st.SearchStrategy[tuple[TypeInformation, st.SearchStrategy[Any]]]:
    scalars = st.sampled_from(SCALARS)
    if depth == 0:
        return scalars
    inner = nested(depth - 1)
    lists = inner.map(lambda each: (Types.LIST(each[0]), st.lists(each[1] | st.none(), max_size=3)))
    maps = inner.map(
        lambda each: (
            Types.MAP(Types.STRING(), each[0]),
            st.dictionaries(st.text(max_size=1), each[1] | st.none(), max_size=3),
        )
    )
    rows = st.lists(inner, min_size=1, max_size=3).map(
        lambda fields: (
            Types.ROW([declared for declared, _ in fields]),
            st.tuples(*(values | st.none() for _, values in fields)),
        )
    )
    tuples = st.lists(inner, min_size=1, max_size=3).map(
        lambda fields: (
            Types.TUPLE([declared for declared, _ in fields]),
            st.tuples(*(values | st.none() for _, values in fields)),
        )
    )
    return scalars | lists | maps | rows | tuples


@given(typed_batches())
def test_a_batch_is_converted_as_its_records_are_one_by_one(
    batch: tuple[TypeInformation, list[Any]],
) -> None:
    declared, values = batch
    convert = converter_of(declared)
    assert convert is not None
    together = list(convert(values))
    assert same(together, [next(iter(convert([value]))) for value in values])
    # What was converted once is of the declared type.
    assert convert(together) is together
