"""Merges of sorted change tables against plain dicts."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tidegate.common.typeinfo import Types
from tidegate.state.keyed.change_merge import merge_tables, sorted_table
from tidegate.state.keyed.changes import change_table
from tidegate.state.keyed.tables import DELETED, FlatTable, FrozenTable, TableSettings
from tidegate.state.lmdb.write_interleaving import WriteInterleaver
from tidegate.state.serializers.codecs import value_codec
from tidegate.state.snapshots.segments import key_values

# Three tables of so many rows are twice what a merge takes at once.
ROWS = 180_000
KEYS: dict[str, Callable[[int], Any]] = {"int": lambda key: key - ROWS, "text": lambda key: f"k{key}"}


@dataclass(frozen=True)
class Increments:
    """Three generations of changes, of which some meet; the later ones remove some keys."""

    changes: list[dict[Any, Any]]
    tables: list[pa.Table]

    def together(self) -> dict[Any, Any]:
        return self.changes[0] | self.changes[1] | self.changes[2]


@functools.cache
def increments(keys: str, max_parallelism: int) -> Increments:
    chosen, key_of = random.Random(max_parallelism), KEYS[keys]
    changes = [
        {
            key_of(key): DELETED if generation and key % 11 == 0 else key * 10 + generation
            for key in chosen.sample(range(2 * ROWS), ROWS)
        }
        for generation in range(3)
    ]
    codec = value_codec(Types.LONG())
    table = FlatTable(TableSettings("n", codec, None, None, True, None, False))
    return Increments(
        changes,
        [
            change_table(FrozenTable(table, dict(each), True, []), max_parallelism, WriteInterleaver())
            for each in changes
        ],
    )


def entries(table: pa.Table) -> dict[Any, Any]:
    keys = key_values(table["key"].combine_chunks())
    return dict(zip(keys, table["value"].to_pylist(), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize(("keys", "max_parallelism"), [("int", 128), ("int", 1), ("text", 128)])
def test_the_latest_row_of_each_entry_is_left_in_order(keys: str, max_parallelism: int) -> None:
    made = increments(keys, max_parallelism)
    merged = merge_tables(made.tables, keep_tombstones=False)
    expected = {key: value for key, value in made.together().items() if value is not DELETED}
    assert len(merged) == len(expected)
    assert entries(merged) == expected
    assert merged["key"].to_pylist() == sorted_table(merged)["key"].to_pylist()


@pytest.mark.slow
@pytest.mark.parametrize("keys", list(KEYS))
def test_tombstones_stay_where_they_are_asked_for(keys: str) -> None:
    made = increments(keys, 128)
    merged = merge_tables(made.tables, keep_tombstones=True)
    assert len(merged) == len(made.together())
    removed = sum(value is DELETED for value in made.together().values())
    assert sum(merged["deleted"].to_pylist()) == removed > 0


def test_a_table_that_is_not_sorted_is_merged_all_the_same() -> None:
    first, second, third = increments("int", 128).tables
    shuffled = second.take(np.random.default_rng(4).permutation(ROWS))
    expected = merge_tables([first, second, third], keep_tombstones=False)
    assert merge_tables([first, shuffled, third], keep_tombstones=False).equals(expected)


def test_empty_tables_and_ones_of_few_key_groups_may_be_among_them() -> None:
    first, second, third = increments("int", 128).tables
    of_one_group = third.filter(pc.equal(third["key_group"], 7))
    expected = entries(merge_tables([first, second], keep_tombstones=True)) | entries(of_one_group)
    merged = merge_tables([first, first.slice(0, 0), second, second, of_one_group], keep_tombstones=True)
    assert entries(merged) == expected
