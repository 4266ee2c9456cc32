from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tidegate.common.errors import KeyTypeError
from tidegate.operators.keyed.key_hashing import hash_key, hash_keys, key_group_of, key_groups_of
from tidegate.protocol.key_groups import hash_bytes, hash_int, key_group_of_hash
from tidegate.state.serializers.key_codec import encode_key

INTEGERS = st.integers() | st.integers(-(1 << 64), 1 << 64)
TEXT = st.text(st.characters(exclude_categories=()))


def scalar_hash(key: Any) -> int:
    return hash_int(int(key)) if isinstance(key, int) else hash_bytes(encode_key(key))


@pytest.mark.parametrize(
    "keys",
    [
        st.lists(INTEGERS),
        st.lists(st.integers(-(1 << 63), (1 << 63) - 1)),
        st.lists(st.booleans()),
        st.lists(st.integers(0, 9) | st.booleans()),
        st.lists(TEXT),
        st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"))),
        st.lists(INTEGERS | TEXT | st.binary() | st.dates() | st.tuples(INTEGERS, TEXT)),
        st.lists(st.tuples(st.integers(), st.integers())),
    ],
    ids=["any int", "int64", "bool", "int and bool", "text", "plain text", "mixed", "pairs"],
)
def test_hashes_of_many_equal_the_scalar_rule(keys: Any) -> None:
    @settings(max_examples=40)
    @given(keys, st.integers(1, 32_768))
    def equal(values: list[Any], max_parallelism: int) -> None:
        expected = [scalar_hash(value) for value in values]
        assert hash_keys(values).tolist() == expected
        assert hash_keys(values).dtype == np.uint64
        assert [hash_key(value) for value in values] == expected
        groups = [key_group_of_hash(value, max_parallelism) for value in expected]
        assert key_groups_of(values, max_parallelism).tolist() == groups
        assert [key_group_of(value, max_parallelism) for value in values] == groups

    equal()


def test_the_keys_themselves_are_left_alone() -> None:
    keys = np.arange(10)
    hash_keys(keys)  # type: ignore[arg-type]
    assert keys.tolist() == list(range(10))


@pytest.mark.parametrize("keys", [[1, 2.5], [1.0], ["a", None], [[1]], [1, "a", {}], [None]])
def test_keys_without_an_encoding_are_refused(keys: list[Any]) -> None:
    with pytest.raises(KeyTypeError, match="no deterministic encoding"):
        hash_keys(keys)
