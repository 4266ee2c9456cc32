from __future__ import annotations

from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tidegate.common.errors import KeyTypeError
from tidegate.common.types import Row, RowKind
from tidegate.state.serializers.key_codec import (
    checked_key,
    decode_key,
    encode_key,
    encode_keys,
    encode_map_key,
    without_lists,
)

INTEGERS = st.integers() | st.integers(-(1 << 64), 1 << 64) | st.integers(-(1 << 200), 1 << 200)
TEXT = st.text(st.characters(exclude_categories=()))
SCALARS = (
    INTEGERS
    | st.booleans()
    | TEXT
    | st.binary()
    | st.dates()
    | st.datetimes()
    # In an hour that a clock shows twice, Python finds a datetime unequal to itself in any other zone.
    | st.datetimes(timezones=st.timezones(), allow_imaginary=False).filter(
        lambda t: t == t.astimezone(timezone.utc)
    )
    | st.times()
    | st.uuids()
)
FLOATS = st.floats(allow_nan=False)
DECIMALS = st.decimals(allow_nan=False)
MAP_KEYS = st.one_of(FLOATS, DECIMALS, st.tuples(FLOATS, TEXT, st.tuples(DECIMALS, INTEGERS)))
KEYS = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=4).map(tuple), max_leaves=6)


@given(KEYS)
def test_a_key_comes_back(key: Any) -> None:
    assert decode_key(encode_key(key)) == key


@given(KEYS, KEYS)
def test_different_keys_differ_and_none_is_the_beginning_of_another(first: Any, second: Any) -> None:
    one, two = encode_key(first), encode_key(second)
    assert (one == two) == (first == second)
    if one != two:
        assert not one.startswith(two)


@given(MAP_KEYS, MAP_KEYS)
def test_map_keys_may_be_floats_and_decimals(first: Any, second: Any) -> None:
    one, two = encode_map_key(first), encode_map_key(second)
    assert decode_key(one) == first
    assert type(decode_key(one)) is type(first)
    if type(first) is type(second):
        assert (one == two) == (first == second)
    if one != two:
        assert not one.startswith(two)
    if type(first) is type(second) is float:
        assert (one < two) == (first < second)


@given(st.tuples(FLOATS, TEXT), st.tuples(FLOATS, TEXT))
def test_tuples_of_floats_sort_like_themselves(first: Any, second: Any) -> None:
    assert (encode_map_key(first) < encode_map_key(second)) == (first < second)


@pytest.mark.parametrize("key", [1.5, Decimal(1), (1, 2.5), float("inf")])
def test_a_record_has_no_float_as_its_key(key: Any) -> None:
    with pytest.raises(KeyTypeError, match=r"no deterministic encoding.*key of a map entry"):
        encode_key(key)


@pytest.mark.parametrize("key", [float("nan"), Decimal("nan"), Decimal("snan"), (float("nan"),)])
def test_nan_is_no_key(key: Any) -> None:
    with pytest.raises(KeyTypeError, match="NaN"):
        encode_map_key(key)


ORDERED = [INTEGERS, TEXT, st.binary(), st.dates(), st.datetimes(), st.times(), st.uuids(), st.booleans()]


@pytest.mark.parametrize("kind", [*ORDERED, st.tuples(INTEGERS, TEXT), st.tuples(st.dates(), st.binary())])
def test_encodings_sort_like_keys_of_one_type(kind: Any) -> None:
    @given(kind, kind)
    def sorts(first: Any, second: Any) -> None:
        assert (encode_key(first) < encode_key(second)) == (first < second)

    sorts()


@given(st.lists(INTEGERS | st.booleans() | TEXT))
def test_many_keys_encode_like_one(keys: list[Any]) -> None:
    assert encode_keys(keys) == [encode_key(key) for key in keys]


def test_keys_that_are_equal_in_python_encode_equally() -> None:
    paris = timezone(timedelta(hours=2))
    assert encode_map_key(Decimal("1.50")) == encode_map_key(Decimal("1.5"))
    assert encode_map_key(-0.0) == encode_map_key(0.0)
    assert encode_key(True) == encode_key(1) == encode_key(np.int32(1))
    assert encode_key(datetime(2024, 1, 1, 12, tzinfo=paris)) == encode_key(
        datetime(2024, 1, 1, 10, tzinfo=timezone.utc)
    )


def test_the_encoding_never_changes() -> None:
    # Stored snapshots and the key group of every key depend on it.
    expected = {
        5: "158000000000000005",
        -1: "157fffffffffffffff",
        1 << 64: "1600000009010000000000000000",
        "a\0b": "026100ff6200",
        b"x": "017800",
        (1, "a"): "0515800000000000000102610000",
        UUID(int=5): "26" + "0" * 31 + "5",
        date(2024, 1, 2): "2000" + (date(2024, 1, 2).toordinal()).to_bytes(3, "big").hex(),
    }
    assert {key: encode_key(key).hex() for key in expected} == expected


def test_rows_are_keys_with_their_field_names() -> None:
    named = Row("a", "b")(1, "x")
    for row in (Row(1, "x"), named):
        assert decode_key(encode_key(row)) == row
    assert encode_key(named) != encode_key(Row(1, "x"))
    changed = Row(1)
    changed.set_row_kind(RowKind.DELETE)
    with pytest.raises(KeyTypeError, match="DELETE"):
        encode_key(changed)


@pytest.mark.parametrize("key", [None, [1], {"a": 1}, {1}, object(), (1, None), (1, [2])])
def test_a_key_without_a_deterministic_encoding_is_refused(key: Any) -> None:
    for encode in (encode_key, encode_map_key):
        with pytest.raises(KeyTypeError, match="use int, str, bytes"):
            encode(key)


def test_a_time_with_a_zone_is_refused() -> None:
    with pytest.raises(KeyTypeError, match="use a datetime"):
        encode_key(time(1, tzinfo=timezone.utc))


@pytest.mark.parametrize(
    ("key", "expected"), [([1, [2]], (1, (2,))), ((1, [2]), (1, (2,))), ("text", "text"), ((1, 2), (1, 2))]
)
def test_lists_in_keys_become_tuples(key: Any, expected: Any) -> None:
    assert without_lists([0, key]) == [0, expected]
    assert checked_key(key) == expected
