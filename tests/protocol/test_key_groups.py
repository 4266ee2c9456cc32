"""Keys, key groups and their owners: formulas that stored state depends on for ever."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tidegate.common.errors import ConfigurationError
from tidegate.protocol.key_groups import (
    UPPER_BOUND_MAX_PARALLELISM,
    KeyGroupRange,
    check_parallelism,
    default_max_parallelism,
    hash_bytes,
    hash_int,
    key_group_of_hash,
    key_group_range_of_subtask,
    subtask_of_key_group,
)


@st.composite
def parallelism_and_max(draw: st.DrawFn) -> tuple[int, int]:
    max_parallelism = draw(st.integers(min_value=1, max_value=UPPER_BOUND_MAX_PARALLELISM))
    return draw(st.integers(min_value=1, max_value=max_parallelism)), max_parallelism


def test_every_key_group_lies_in_the_range_of_its_owner_and_in_no_other_for_all_small_sizes() -> None:
    for max_parallelism in range(1, 41):
        for parallelism in range(1, max_parallelism + 1):
            ranges = [
                key_group_range_of_subtask(index, max_parallelism, parallelism)
                for index in range(parallelism)
            ]
            for key_group in range(max_parallelism):
                owner = subtask_of_key_group(key_group, max_parallelism, parallelism)
                holders = [index for index in range(parallelism) if ranges[index].contains(key_group)]
                assert holders == [owner]


@settings(max_examples=20)
@given(sizes=parallelism_and_max())
def test_the_ranges_of_all_subtasks_join_without_gap_or_overlap(sizes: tuple[int, int]) -> None:
    parallelism, max_parallelism = sizes
    expected_start = 0
    for index in range(parallelism):
        owned = key_group_range_of_subtask(index, max_parallelism, parallelism)
        assert owned.start == expected_start
        expected_start = owned.end + 1
    assert expected_start == max_parallelism


@given(sizes=parallelism_and_max(), data=st.data())
def test_the_range_is_the_inverse_of_the_assignment(sizes: tuple[int, int], data: st.DataObject) -> None:
    parallelism, max_parallelism = sizes
    index = data.draw(st.integers(min_value=0, max_value=parallelism - 1))
    owned = key_group_range_of_subtask(index, max_parallelism, parallelism)
    assert owned.size >= 1, "a subtask without key groups would idle"
    assert subtask_of_key_group(owned.start, max_parallelism, parallelism) == index
    assert subtask_of_key_group(owned.end, max_parallelism, parallelism) == index
    before, after = owned.start - 1, owned.end + 1
    assert before < 0 or subtask_of_key_group(before, max_parallelism, parallelism) == index - 1
    assert after == max_parallelism or subtask_of_key_group(after, max_parallelism, parallelism) == index + 1


@given(sizes=parallelism_and_max(), key_hash=st.integers(min_value=0, max_value=2**64 - 1))
def test_key_groups_lie_below_max_parallelism(sizes: tuple[int, int], key_hash: int) -> None:
    parallelism, max_parallelism = sizes
    key_group = key_group_of_hash(key_hash, max_parallelism)
    assert 0 <= key_group < max_parallelism
    assert 0 <= subtask_of_key_group(key_group, max_parallelism, parallelism) < parallelism


# Stored state is found by these values. A change here loses the state of every existing checkpoint.
FROZEN_INTEGERS = {
    0: 0x0000000000000000,
    1: 0x5692161D100B05E5,
    -1: 0xB4D055FCF2CBBD7B,
    42: 0xA759EA27D4727622,
    2**31: 0xEC105BF588587C9F,
    -(2**31): 0xA58397EE4016AC9C,
    2**63 - 1: 0x5A682AFE7965DEBD,
    -(2**63): 0x25C26EA579CEA98A,
    2**63: 0xC4B8F8BFFBC8452D,
    2**64: 0x1ADBC17DE1A1C269,
    10**30: 0x776A10675245F9B9,
    -(10**30): 0x8EC9E5FAA76D1E2E,
}
FROZEN_BYTES = {
    b"": 0x0000000000000000,
    b"a": 0xFE1AAAFFA044081F,
    b"A": 0x2D44E7F66E8736E0,
    b"ab": 0x6E408A3A3BCF4A1D,
    b"\x00": 0xF4CB27A08F79CC82,
    b"\x00\x00": 0x7B75C2DC36477DA4,
    b"N14228": 0x61BF011F3F542843,
    b"UA" * 1_000: 0x18120BF68C611FC8,
}


@pytest.mark.parametrize(("key", "expected"), FROZEN_INTEGERS.items())
def test_the_hash_of_integers_never_changes(key: int, expected: int) -> None:
    assert hash_int(key) == expected


@pytest.mark.parametrize(("key", "expected"), FROZEN_BYTES.items())
def test_the_hash_of_bytes_never_changes(key: bytes, expected: int) -> None:
    assert hash_bytes(key) == expected


def test_consecutive_integers_spread_over_all_key_groups() -> None:
    counts = [0] * 128
    for key in range(12_800):
        counts[key_group_of_hash(hash_int(key), 128)] += 1
    assert min(counts) > 50
    assert max(counts) < 160


@pytest.mark.parametrize(
    ("parallelism", "expected"),
    [(1, 128), (85, 128), (86, 256), (128, 256), (200, 512), (20_000, 32_768), (32_768, 32_768)],
)
def test_default_max_parallelism_is_flinks(parallelism: int, expected: int) -> None:
    assert default_max_parallelism(parallelism) == expected


def test_ranges_intersect() -> None:
    assert KeyGroupRange(0, 9).intersect(KeyGroupRange(5, 20)) == KeyGroupRange(5, 9)
    assert KeyGroupRange(0, 4).intersect(KeyGroupRange(5, 9)).size == 0
    assert not KeyGroupRange(3, 2).contains(3)


@pytest.mark.parametrize(("parallelism", "max_parallelism"), [(0, 1), (3, 2), (1, 0), (1, 32_769), (-1, 128)])
def test_impossible_parallelism_names_the_operator(parallelism: int, max_parallelism: int) -> None:
    with pytest.raises(ConfigurationError, match=r"'totals'.*set_max_parallelism\(\)"):
        check_parallelism("totals", parallelism, max_parallelism)
