"""State on its way to another parallelism: nothing is lost, nothing is doubled."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st
from tidegate.protocol.checkpoints.handles import (
    FileHandle,
    KeyedStateHandle,
    ListPart,
    OperatorListHandle,
    OperatorSnapshot,
    SegmentHandle,
)
from tidegate.protocol.checkpoints.redistribution import (
    BROADCAST,
    EVEN_SPLIT,
    UNION,
    redistribute,
    redistribute_parts,
)
from tidegate.protocol.key_groups import (
    UPPER_BOUND_MAX_PARALLELISM,
    KeyGroupRange,
    key_group_range_of_subtask,
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


@given(data=st.data(), max_parallelism=st.integers(min_value=1, max_value=UPPER_BOUND_MAX_PARALLELISM))
def test_key_groups_move_whole_for_any_max_parallelism(data: st.DataObject, max_parallelism: int) -> None:
    sizes = st.integers(min_value=1, max_value=min(max_parallelism, 40))
    path = data.draw(st.lists(sizes, min_size=2, max_size=4))
    snapshots = []
    for index in range(path[0]):
        own = key_group_range_of_subtask(index, max_parallelism, path[0])
        snapshots.append(OperatorSnapshot(KeyedStateHandle((segment(str(index), own),))))
    for parallelism in [*path[1:], path[0]]:
        snapshots = redistribute(snapshots, parallelism, max_parallelism)
        ranges = sorted(
            (part.key_groups.start, part.key_groups.end)
            for snapshot in snapshots
            for part in snapshot.keyed.segments
        )
        assert [start for start, _ in ranges] == [0, *(end + 1 for _, end in ranges[:-1])]
        assert ranges[-1][1] == max_parallelism - 1


def test_a_thousand_subtasks_are_redistributed_in_no_time() -> None:
    snapshots = []
    for index in range(1_000):
        own = key_group_range_of_subtask(index, 32_768, 1_000)
        segments = tuple(segment(f"{index}-{number}", own) for number in range(8))
        snapshots.append(OperatorSnapshot(KeyedStateHandle(segments)))
    started = time.perf_counter()
    after = redistribute(snapshots, 999, 32_768)
    assert time.perf_counter() - started < 5, "it takes about 0.2 s; looking at all pairs took minutes"
    assert sum(part.key_groups.size for snapshot in after for part in snapshot.keyed.segments) == 8 * 32_768


def list_file(name: str) -> FileHandle:
    return FileHandle(name, 10, "00")


def one_file_each(counts: list[int]) -> list[tuple[ListPart, ...]]:
    """A list in which each subtask wrote a file of so many items, if it had any."""
    return [
        (ListPart(list_file(str(subtask)), 0, count),) if count else ()
        for subtask, count in enumerate(counts)
    ]


def items(parts: Iterable[ListPart]) -> list[tuple[str, int]]:
    return [(part.file.path, row) for part in parts for row in range(part.start, part.end)]


def all_items(per_subtask: list[tuple[ListPart, ...]]) -> list[tuple[str, int]]:
    return [item for parts in per_subtask for item in items(parts)]


COUNTS = st.lists(st.integers(min_value=0, max_value=7), min_size=1, max_size=8)
FEW = st.integers(min_value=1, max_value=8)


@given(counts=COUNTS, new=FEW)
def test_even_split_keeps_every_item_once_in_order_and_deals_evenly(counts: list[int], new: int) -> None:
    before = one_file_each(counts)
    after = redistribute_parts(before, EVEN_SPLIT, new)
    assert len(after) == new
    assert all_items(after) == all_items(before)
    assert all(part.item_count > 0 for parts in after for part in parts)
    shares = [len(items(parts)) for parts in after]
    if new != len(counts):
        assert max(shares) - min(shares) <= 1


@given(counts=COUNTS, through=st.lists(FEW, max_size=4))
def test_even_split_there_and_back_again_keeps_the_items_their_order_and_the_parts(
    counts: list[int], through: list[int]
) -> None:
    before = now = one_file_each(counts)
    for parallelism in [*through, len(counts)]:
        now = redistribute_parts(now, EVEN_SPLIT, parallelism)
    assert all_items(now) == all_items(before)
    # A file is cut at most once per border between subtasks, however often the job was rescaled.
    assert sum(map(len, now)) <= 2 * len(counts)


def test_even_split_leaves_items_where_they_are_while_the_parallelism_stays() -> None:
    uneven = one_file_each([3, 0, 1])
    assert redistribute_parts(uneven, EVEN_SPLIT, 3) == uneven


@given(counts=COUNTS, new=FEW)
def test_union_gives_everything_to_everybody(counts: list[int], new: int) -> None:
    before = one_file_each(counts)
    after = redistribute_parts(before, UNION, new)
    assert [items(parts) for parts in after] == [all_items(before)] * new


@given(counts=COUNTS, new=FEW)
def test_union_does_not_grow_when_each_subtask_writes_its_own_share(counts: list[int], new: int) -> None:
    everything = all_items(one_file_each(counts))
    given_to_all = redistribute_parts(one_file_each(counts), UNION, new)
    # What the backend does with a union state that nobody declares: subtask 0 carries it, alone.
    carried = [given_to_all[0], *[()] * (new - 1)]
    assert [items(parts) for parts in redistribute_parts(carried, UNION, len(counts))] == [everything] * len(
        counts
    )


@given(count=st.integers(min_value=0, max_value=5), old=FEW, new=FEW, writers=st.data())
def test_broadcast_gives_one_copy_to_everybody(
    count: int, old: int, new: int, writers: st.DataObject
) -> None:
    copy = (ListPart(list_file("rules"), 0, count),) if count else ()
    wrote = writers.draw(st.lists(st.booleans(), min_size=old, max_size=old).filter(any))
    before = [copy if has else () for has in wrote]
    assert redistribute_parts(before, BROADCAST, new) == [copy] * new


def test_list_states_are_told_apart_by_name_and_a_subtask_may_have_none() -> None:
    splits = OperatorListHandle("splits", EVEN_SPLIT, {"kind": "list"}, (ListPart(list_file("s"), 0, 2),))
    rules = OperatorListHandle("rules", UNION, {"kind": "list"}, (ListPart(list_file("r"), 0, 1),))
    old = [OperatorSnapshot(lists=(splits,)), OperatorSnapshot(lists=(rules,))]
    after = redistribute(old, 3, MAX_PARALLELISM)
    for snapshot in after:
        by_name = {handle.state_name: handle for handle in snapshot.lists}
        assert by_name["rules"] == rules
        assert by_name["splits"].schema == {"kind": "list"}
        assert by_name["splits"].item_count <= 1
    assert sum(snapshot.lists[1].item_count for snapshot in after) == 2


def test_rescaling_there_and_back_adds_no_references_to_files() -> None:
    snapshots = keyed_snapshots(1)
    for _ in range(8):
        snapshots = redistribute(redistribute(snapshots, 4, MAX_PARALLELISM), 1, MAX_PARALLELISM)
    whole = key_group_range_of_subtask(0, MAX_PARALLELISM, 1)
    assert [part.key_groups for part in snapshots[0].keyed.segments] == [whole] * 2
    assert [part.file.path for part in snapshots[0].keyed.segments] == ["0-0", "0-1"]


def test_parts_of_a_file_stay_apart_where_an_older_file_would_be_overtaken() -> None:
    low, high = KeyGroupRange(0, 11), KeyGroupRange(12, 23)
    first = OperatorSnapshot(KeyedStateHandle((segment("new", low),), {}))
    second = OperatorSnapshot(KeyedStateHandle((segment("old", high), segment("new", high)), {}))
    (merged,) = redistribute([first, second], 1, MAX_PARALLELISM)
    assert [part.file.path for part in merged.keyed.segments] == ["new", "old", "new"]
