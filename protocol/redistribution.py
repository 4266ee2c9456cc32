"""What state each subtask gets when a job is restored, also with another parallelism.

Keyed state moves by key-group ranges. Operator list state is split evenly, or given whole to
everyone (union), or copied (broadcast). Source: Flink's `StateAssignmentOperation` and
`RoundRobinOperatorStateRepartitioner`.
"""

from __future__ import annotations

from collections.abc import Sequence

from .handles import KeyedStateHandle, OperatorListHandle, OperatorSnapshot
from .key_groups import key_group_range_of_subtask

EVEN_SPLIT = "even-split"
UNION = "union"
BROADCAST = "broadcast"


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
    result = []
    for index in range(parallelism):
        key_groups = key_group_range_of_subtask(index, max_parallelism, parallelism)
        parts = [snapshot.keyed.restricted_to(key_groups) for snapshot in old]
        result.append(KeyedStateHandle.concatenated(parts))
    return result


def _redistribute_lists(
    old: Sequence[OperatorSnapshot], parallelism: int
) -> list[tuple[OperatorListHandle, ...]]:
    modes: dict[str, str] = {}
    for snapshot in old:
        for handle in snapshot.lists:
            modes[handle.state_name] = handle.mode
    spread: list[list[OperatorListHandle]] = [[] for _ in range(parallelism)]
    for name, mode in sorted(modes.items()):
        per_subtask = [_items_of(snapshot, name) for snapshot in old]
        for index, items in enumerate(redistribute_items(per_subtask, mode, parallelism)):
            spread[index].append(OperatorListHandle(name, mode, items))
    return [tuple(handles) for handles in spread]


def redistribute_items(
    per_subtask: Sequence[tuple[bytes, ...]], mode: str, parallelism: int
) -> list[tuple[bytes, ...]]:
    """Items of one list state per new subtask. Unchanged parallelism leaves even-split items alone."""
    if mode == UNION:
        everything = tuple(item for items in per_subtask for item in items)
        return [everything] * parallelism
    if mode == BROADCAST:
        return [per_subtask[index % len(per_subtask)] for index in range(parallelism)]
    if len(per_subtask) == parallelism:
        return list(per_subtask)
    everything = tuple(item for items in per_subtask for item in items)
    bounds = [len(everything) * index // parallelism for index in range(parallelism + 1)]
    return [everything[bounds[index] : bounds[index + 1]] for index in range(parallelism)]


def _items_of(snapshot: OperatorSnapshot, state_name: str) -> tuple[bytes, ...]:
    for handle in snapshot.lists:
        if handle.state_name == state_name:
            return handle.items
    return ()
