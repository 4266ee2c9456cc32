from __future__ import annotations

import math
import threading
from datetime import date, datetime, time, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from tidegate.common.errors import StateError
from tidegate.common.typeinfo import TypeInformation, Types
from tidegate.common.types import Row
from tidegate.state.serializers.codecs import value_codec

NAMED = Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()])
CASES: list[tuple[TypeInformation | None, list[Any]]] = [
    (Types.LONG(), [0, -1, 1 << 62, None, 1 << 70, -(1 << 63)]),
    (Types.LONG(), [1, 2, 3]),
    (Types.INT(), [1 << 40, 5]),
    (Types.SHORT(), [7, -7, 1 << 15]),
    (Types.BYTE(), [127, 128, -128]),
    (Types.DOUBLE(), [1.5, math.inf, 3, None, 1 << 60]),
    (Types.FLOAT(), [0.1, 1e300]),
    (Types.BOOLEAN(), [True, False, None]),
    (Types.STRING(), ["a", "", None, "\ud800", "ü"]),
    (Types.BIG_INT(), [1 << 100, 0]),
    (Types.BIG_DEC(), [Decimal("1.10"), Decimal(0)]),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), [b"", b"\0x"]),
    (Types.SQL_DATE(), [date(2024, 2, 29), date.min, None]),
    (Types.SQL_TIME(), [time(1, 2, 3, 4)]),
    (Types.SQL_TIMESTAMP(), [datetime(2024, 1, 1, 1), datetime(2024, 1, 1, tzinfo=timezone.utc)]),
    (Types.TUPLE([Types.LONG(), Types.DOUBLE()]), [(1, 2.0), (1, 2), None, (None, 1.0), (1 << 70, 0.0)]),
    (Types.TUPLE([Types.LONG(), Types.LONG()]), [(1, 2), (3, 4)]),
    (Types.TUPLE([Types.BOOLEAN(), Types.BYTE()]), [(True, 1), (False, -1)]),
    (Types.TUPLE([Types.STRING(), Types.TUPLE([Types.INT()])]), [("a", (1,)), (None, None), None]),
    (Types.LIST(Types.STRING()), [["a", None], ("x",), []]),
    (Types.LIST(Types.LIST(Types.LONG())), [[[1], []], [None]]),
    (Types.MAP(Types.STRING(), Types.TUPLE([Types.INT(), Types.STRING()])), [{"a": (1, "x"), "b": None}, {}]),
    (NAMED, [Row("a", "b")(1, "x"), Row(1, "y"), None]),
    (Types.ROW([Types.LONG()]), [Row(1), Row(None)]),
    (None, [1, [2], {3}, None, "x"]),
    (Types.LIST(Types.BIG_DEC()), [[Decimal(1)]]),
]


@pytest.mark.parametrize(("type_info", "values"), CASES, ids=lambda case: str(case)[:40])
def test_values_come_back_from_bytes_and_from_columns(
    type_info: TypeInformation | None, values: list[Any]
) -> None:
    codec = value_codec(type_info)
    column, opaque = codec.to_arrow(values)
    assert column.type == codec.arrow_type
    for back in (
        [codec.decode(data) for data in codec.encode_many(values)],
        codec.from_arrow(column, opaque),
        [codec.decode(data) for data in codec.stored_bytes(column, opaque)],
    ):
        assert back == values
        assert list(map(type, back)) == list(map(type, values))


def test_known_types_have_typed_columns() -> None:
    assert value_codec(Types.INT()).arrow_type == pa.int32()
    pair = value_codec(Types.TUPLE([Types.LONG(), Types.DOUBLE()])).arrow_type
    assert pair == pa.struct([("f0", pa.int64()), ("f1", pa.float64())])
    assert value_codec(NAMED).arrow_type == pa.struct([("a", pa.int32()), ("b", pa.large_string())])
    assert value_codec(None).is_pickled


@pytest.mark.parametrize(
    ("type_info", "immutable"),
    [
        (Types.LONG(), True),
        (Types.STRING(), True),
        (Types.TUPLE([Types.LONG(), Types.STRING()]), True),
        (Types.TUPLE([Types.LIST(Types.LONG())]), False),
        (Types.LIST(Types.LONG()), False),
        (NAMED, False),
        (None, False),
    ],
)
def test_a_codec_knows_whether_its_values_can_change(type_info: Any, immutable: bool) -> None:
    assert value_codec(type_info).immutable is immutable


@pytest.mark.parametrize(
    ("type_info", "value"),
    [
        (Types.LONG(), "text"),
        (Types.STRING(), 5),
        (Types.TUPLE([Types.LONG(), Types.LONG()]), (1, 2, 3)),
        (Types.TUPLE([Types.LONG(), Types.LONG()]), (1, "x")),
        (Types.TUPLE([Types.LONG(), Types.LONG()]), 1),
        (Types.LIST(Types.LONG()), {"a": 1}),
        (NAMED, "x"),
        (Types.SQL_DATE(), "2024-01-01"),
    ],
)
def test_a_value_of_a_wrong_type_is_refused(type_info: TypeInformation, value: Any) -> None:
    codec = value_codec(type_info)
    for store in (codec.to_arrow, codec.encode_many):
        with pytest.raises(StateError, match="does not fit the declared type"):
            store([value])


def test_a_value_that_cannot_be_pickled_is_a_clear_error() -> None:
    with pytest.raises(StateError, match=r"lock.*cannot be pickled.*open\(\)"):
        value_codec(None).encode_many([threading.Lock()])


def test_what_only_cloudpickle_can_do_is_done() -> None:
    codec = value_codec(None)
    (function,) = [codec.decode(data) for data in codec.encode_many([lambda x: x + 1])]
    assert function(1) == 2


def test_no_values_at_all_are_a_column_without_rows() -> None:
    for declared in (Types.LONG(), Types.TUPLE([Types.LONG(), Types.DOUBLE()]), Types.STRING()):
        codec = value_codec(declared)
        column, opaque = codec.to_arrow([])
        assert (len(column), opaque) == (0, {})
        assert codec.from_arrow(column, opaque) == codec.encode_many([]) == []


@pytest.mark.parametrize("others", [1, 7], ids=["among many ones", "among other numbers"])
@pytest.mark.parametrize("kind", [Types.LONG(), Types.TUPLE([Types.LONG(), Types.LONG()])], ids=str)
def test_one_bool_among_many_integers_is_found(kind: TypeInformation, others: int) -> None:
    is_tuple = kind != Types.LONG()
    values: list[Any] = [others] * 100 + [True]
    with pytest.raises(StateError, match="True"):
        value_codec(kind).to_arrow([(value, 2) for value in values] if is_tuple else values)
