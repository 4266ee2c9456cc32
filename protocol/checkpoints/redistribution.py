"""What state each subtask gets when a job is restored, also with another parallelism.

Keyed state moves by key-group ranges. Operator list state is split evenly, or given whole to
everyone (union), or copied (broadcast). Source: Flink's `StateAssignmentOperation` and
`RoundRobinOperatorStateRepartitioner`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TypeAlias

from ..key_groups import KeyGroupRange, key_group_range_of_subtask
from .handles import KeyedStateHandle, ListPart, OperatorListHandle, OperatorSnapshot, SegmentHandle

EVEN_SPLIT = "even-split"
UNION = "union"
BROADCAST = "broadcast"

Parts: TypeAlias = Sequence[ListPart]


def redistribute(
    old: Sequence[OperatorSnapshot], parallelism: int, max_parallelism: int
) -> list[OperatorSnapshot]:
    """Snapshots for `parallelism` subtasks out of the snapshots of the old ones, in subtask order."""
    keyed = _redistribute_keyed(old, parallelism, max_parallelism)
    lists = _redistribute_lists(old, parallelism)
    return [OperatorSnapshot(keyed[index], lists[index]) for index in range(parallelism)]


def _redistribute_keyed(
    old: Sequence[OperatorSnapshot], parallelism: int, max_parallelism: int
) -> list[KeyedStateHandle]:
    # All pairs of old and new subtasks would be looked at segment by segment otherwise.
    spans = [_span(snapshot.keyed) for snapshot in old]
    descriptors = KeyedStateHandle.concatenated(snapshot.keyed for snapshot in old).descriptors
    result = []
    for index in range(parallelism):
        key_groups = key_group_range_of_subtask(index, max_parallelism, parallelism)
        segments = itertools.chain.from_iterable(
            snapshot.keyed.restricted_to(key_groups).segments
            for snapshot, span in zip(old, spans)
            if span.start <= key_groups.end and key_groups.start <= span.end
        )
        result.append(KeyedStateHandle(_joined_segments(segments), descriptors))
    return result


def _joined_segments(segments: Iterable[SegmentHandle]) -> tuple[SegmentHandle, ...]:
    """The segments, with neighbouring key groups of one file made one: rescaling adds no segments.

    The later part moves to the place of the earlier one. So it stays where it is if an older file has
    entries of its key groups in between.
    """
    joined: list[SegmentHandle] = []
    places: dict[tuple[str, str], int] = {}
    for segment in segments:
        key = (segment.state_name, segment.file.path)
        place = places.get(key)
        if place is not None and _follows(segment, joined[place]):
            between = (each for each in joined[place + 1 :] if each.state_name == segment.state_name)
            if not any(each.key_groups.intersect(segment.key_groups).size for each in between):
                whole = KeyGroupRange(joined[place].key_groups.start, segment.key_groups.end)
                joined[place] = replace(joined[place], key_groups=whole)
                continue
        places[key] = len(joined)
        joined.append(segment)
    return tuple(joined)


def _follows(segment: SegmentHandle, before: SegmentHandle) -> bool:
    """Whether a segment is the part of the same file whose key groups come next."""
    return before.key_groups.end + 1 == segment.key_groups.start and before == replace(
        segment, key_groups=before.key_groups
    )


def _span(keyed: KeyedStateHandle) -> KeyGroupRange:
    """The key groups from the first to the last that some segment has."""
    starts = (segment.key_groups.start for segment in keyed.segments)
    ends = (segment.key_groups.end for segment in keyed.segments)
    return KeyGroupRange(min(starts, default=0), max(ends, default=-1))


def _redistribute_lists(
    old: Sequence[OperatorSnapshot], parallelism: int
) -> list[tuple[OperatorListHandle, ...]]:
    latest = {handle.state_name: handle for snapshot in old for handle in snapshot.lists}
    spread: list[list[OperatorListHandle]] = [[] for _ in range(parallelism)]
    for name, handle in sorted(latest.items()):
        per_subtask = [_parts_of(snapshot, name) for snapshot in old]
        for index, parts in enumerate(redistribute_parts(per_subtask, handle.mode, parallelism)):
            spread[index].append(replace(handle, parts=parts))
    return [tuple(handles) for handles in spread]


def redistribute_parts(
    per_subtask: Sequence[Parts], mode: str, parallelism: int
) -> list[tuple[ListPart, ...]]:
    """The items of one list state per new subtask, as ranges of rows.

    * even-split: unchanged parallelism leaves the items where they are; else they are dealt out in
      their order, in shares that differ by one item at most.
    * union: everybody gets everything, in subtask order.
    * broadcast: everybody gets the copy of the first subtask that stored one; all copies are equal.
    """
    if mode == BROADCAST:
        copy = next((tuple(parts) for parts in per_subtask if parts), ())
        return [copy] * parallelism
    if mode == EVEN_SPLIT and len(per_subtask) == parallelism:
        return [tuple(parts) for parts in per_subtask]
    everything = _joined(part for parts in per_subtask for part in parts)
    if mode == UNION:
        return [everything] * parallelism
    count = sum(part.item_count for part in everything)
    bounds = [count * index // parallelism for index in range(parallelism + 1)]
    return [_cut(everything, start, end) for start, end in pairwise(bounds)]


def _joined(parts: Iterable[ListPart]) -> tuple[ListPart, ...]:
    """The parts, with neighbours in one file made one: rescaling again and again adds no parts."""
    joined: list[ListPart] = []
    for part in parts:
        if joined and joined[-1].file == part.file and joined[-1].end == part.start:
            joined[-1] = replace(joined[-1], end=part.end)
        else:
            joined.append(part)
    return tuple(joined)


def _cut(parts: Sequence[ListPart], start: int, end: int) -> tuple[ListPart, ...]:
    """The items `start` to `end` of a list."""
    result = []
    before = 0
    for part in parts:
        low, high = max(start - before, 0), min(end - before, part.item_count)
        if low < high:
            result.append(replace(part, start=part.start + low, end=part.start + high))
        before += part.item_count
    return tuple(result)


def _parts_of(snapshot: OperatorSnapshot, state_name: str) -> Parts:
    return next((handle.parts for handle in snapshot.lists if handle.state_name == state_name), ())
