"""State on its way to another parallelism: nothing is lost, nothing is doubled."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from tidegate.protocol.handles import (
    FileHandle,
    KeyedStateHandle,
    OperatorListHandle,
    OperatorSnapshot,
    SegmentHandle,
)
from tidegate.protocol.key_groups import KeyGroupRange, key_group_range_of_subtask
from tidegate.protocol.redistribution import (
    BROADCAST,
    EVEN_SPLIT,
    UNION,
    redistribute,
    redistribute_items,
)

MAX_PARALLELISM = 24
PARALLELISM = st.integers(min_value=1, max_value=MAX_PARALLELISM)


def segment(name: str, key_groups: KeyGroupRange) -> SegmentHandle:
    return SegmentHandle("count", FileHandle(name, 10, "00"), key_groups, 5)


def keyed_snapshots(parallelism: int, files: int = 2) -> list[OperatorSnapshot]:
    """Each subtask has some files over its own range."""
    snapshots = []
    for index in range(parallelism):
        key_groups = key_group_range_of_subtask(index, MAX_PARALLELISM, parallelism)
        segments = tuple(segment(f"{index}-{number}", key_groups) for number in range(files))
        snapshots.append(OperatorSnapshot(KeyedStateHandle(segments, {"count": {"kind": "value"}})))
    return snapshots


def references(snapshots: list[OperatorSnapshot]) -> Counter[tuple[str, int]]:
    """How often each key group of each file is referred to."""
    return Counter(
        (part.file.path, key_group)
        for snapshot in snapshots
        for part in snapshot.keyed.segments
        for key_group in range(part.key_groups.start, part.key_groups.end + 1)
    )


@given(old=PARALLELISM, new=PARALLELISM)
def test_no_key_group_of_any_file_is_lost_or_doubled(old: int, new: int) -> None:
    before = keyed_snapshots(old)
    after = redistribute(before, new, MAX_PARALLELISM)
    assert len(after) == new
    assert references(after) == references(before)
    assert set(references(after).values()) == {1}


@given(old=PARALLELISM, new=PARALLELISM)
def test_a_subtask_gets_its_own_key_groups_only_in_the_order_they_were_written(old: int, new: int) -> None:
    for index, snapshot in enumerate(redistribute(keyed_snapshots(old), new, MAX_PARALLELISM)):
        own = key_group_range_of_subtask(index, MAX_PARALLELISM, new)
        for part in snapshot.keyed.segments:
            assert own.intersect(part.key_groups) == part.key_groups
            assert part.key_groups.size > 0
        numbers: dict[str, list[str]] = {}
        for part in snapshot.keyed.segments:
            source, _, number = part.file.path.partition("-")
            numbers.setdefault(source, []).append(number)
        assert all(order == sorted(order) for order in numbers.values())
        assert snapshot.keyed.descriptors == {"count": {"kind": "value"}}


@given(old=PARALLELISM, new=PARALLELISM)
def test_there_and_back_is_the_identity(old: int, new: int) -> None:
    before = keyed_snapshots(old, files=1)
    back = redistribute(redistribute(before, new, MAX_PARALLELISM), old, MAX_PARALLELISM)
    for index, snapshot in enumerate(back):
        assert references([snapshot]) == references([before[index]])


ITEMS = st.lists(st.lists(st.binary(max_size=3), max_size=5).map(tuple), min_size=1, max_size=6)


@given(per_subtask=ITEMS, new=st.integers(min_value=1, max_value=6))
def test_even_split_keeps_every_item_once_in_order_and_deals_evenly(
    per_subtask: list[tuple[bytes, ...]], new: int
) -> None:
    result = redistribute_items(per_subtask, EVEN_SPLIT, new)
    assert len(result) == new
    assert [item for items in result for item in items] == [item for items in per_subtask for item in items]
    if new != len(per_subtask):
        assert max(map(len, result)) - min(map(len, result)) <= 1


def test_even_split_leaves_items_where_they_are_while_the_parallelism_stays() -> None:
    uneven = [(b"a", b"b", b"c"), (), (b"d",)]
    assert redistribute_items(uneven, EVEN_SPLIT, 3) == uneven


@given(per_subtask=ITEMS, new=st.integers(min_value=1, max_value=6))
def test_union_gives_everything_to_everybody(per_subtask: list[tuple[bytes, ...]], new: int) -> None:
    everything = tuple(item for items in per_subtask for item in items)
    assert redistribute_items(per_subtask, UNION, new) == [everything] * new


def test_broadcast_copies_one_subtasks_items() -> None:
    same = [(b"rule", b"rule 2")] * 2
    assert redistribute_items(same, BROADCAST, 3) == [(b"rule", b"rule 2")] * 3
    assert redistribute_items(same, BROADCAST, 1) == [(b"rule", b"rule 2")]


def test_list_states_are_told_apart_by_name_and_a_subtask_may_have_none() -> None:
    old = [
        OperatorSnapshot(lists=(OperatorListHandle("splits", EVEN_SPLIT, (b"1", b"2")),)),
        OperatorSnapshot(lists=(OperatorListHandle("rules", UNION, (b"x",)),)),
    ]
    for snapshot in redistribute(old, 3, MAX_PARALLELISM):
        by_name = {handle.state_name: handle for handle in snapshot.lists}
        assert by_name["rules"].items == (b"x",)
        assert by_name["rules"].mode == UNION
        assert len(by_name["splits"].items) <= 1
