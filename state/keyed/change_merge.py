"""Sorts and merges change tables (see `segments`). In NumPy and Arrow, so nearly all without the GIL."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..serializers.key_codec import encode_keys
from ..snapshots.segments import ENCODED_KEY, KEY_COLUMNS, expiry_layout, key_values
from ..ttl.expiry import are_live

_SLICE_ROWS = 262_144


class _Ranked(NamedTuple):
    """Rows in order: their numbers, and their keys and key groups."""

    rows: npt.NDArray[np.integer]
    keys: npt.NDArray[np.int64]
    groups: npt.NDArray[np.uint16]


def merge_tables(tables: list[pa.Table], keep_tombstones: bool, now_ms: int | None = None) -> pa.Table:
    """One change table with the latest row of every entry, sorted; later tables win.

    Runs in Arrow's C++ off the GIL, except where tables of different key columns meet.

    Args:
        tables: each sorted like LMDB keys; one that is not takes longer.
        keep_tombstones: whether there are older tables, so that what is removed must stay marked.
        now_ms: drop what is expired by then; only without older tables, which may hold the same entries.
    """
    parts = [_merged(some, keep_tombstones, now_ms) for some in _slices(with_one_key_type(tables))]
    return pa.concat_tables(parts)


def _merged(tables: list[pa.Table], keep_tombstones: bool, now_ms: int | None) -> pa.Table:
    import pyarrow.compute as pc

    table = pa.concat_tables(tables)
    if len(tables) > 1:
        table = latest_rows(table.combine_chunks(), are_runs=True)
    if not keep_tombstones:
        if pc.any(table["deleted"]).as_py():
            table = table.filter(pc.invert(table["deleted"]))
        if now_ms is not None:
            table = _unexpired(table, now_ms)
    return table


def _slices(tables: list[pa.Table]) -> Iterator[list[pa.Table]]:
    """The tables by ranges of key groups, in their order, with about `_SLICE_ROWS` rows in each range.

    All rows of an entry lie in one. So a merge needs memory for a slice and its result, and a slice is small
    enough for the processor's cache, and for the allocator to use its memory again for the next.
    """
    slices = sum(map(len, tables)) // _SLICE_ROWS
    groups = [table["key_group"].to_numpy() for table in tables] if slices > 1 and len(tables) > 1 else []
    if not groups or not all(map(_is_sorted, groups)):
        yield tables
        return
    held = [of_table for of_table in groups if len(of_table)]
    numbers = np.arange(min(int(g[0]) for g in held), max(int(g[-1]) for g in held) + 2)
    starts = [np.searchsorted(of_table, numbers) for of_table in groups]
    before = np.sum(starts, axis=0)
    ends = np.unique(np.searchsorted(before, np.linspace(0, before[-1], slices + 1)))
    for start, end in pairwise(ends.tolist()):
        yield [
            table.slice(of_table[start], of_table[end] - of_table[start])
            for table, of_table in zip(tables, starts, strict=True)
        ]


def _is_sorted(numbers: npt.NDArray[np.integer]) -> bool:
    return bool((numbers[1:] >= numbers[:-1]).all())


def latest_rows(table: pa.Table, are_runs: bool = False) -> pa.Table:
    """The last row of every entry, sorted like LMDB keys.

    Args:
        table: with one chunk in each column.
        are_runs: whether the rows are long sorted runs, one behind the other; else they may be in any order.
    """
    by = _key_columns(table)
    if _is_sorted_by_numbers(table, by):
        # One sort does both: equal ones stay in their order, so of equal keys the last row is the latest.
        return _taken(table, _ranked(table, True, are_runs))
    rows = table.select(by).append_column("row", pa.array(np.arange(len(table))))
    latest = rows.group_by(by).aggregate([("row", "max")])["row_max"]
    return sorted_table(table.take(latest))


def sorted_table(table: pa.Table, are_runs: bool = False) -> pa.Table:
    """The table in the order of LMDB keys, in one chunk.

    Args:
        are_runs: as in `latest_rows`.
    """
    import pyarrow.compute as pc

    table = table.combine_chunks()
    by = _key_columns(table)
    if _is_sorted_by_numbers(table, by):
        return _taken(table, _ranked(table, False, are_runs))
    keys = [(name, "ascending") for name in ("key_group", *by)]
    return table.take(pc.sort_indices(table, sort_keys=keys))


def with_one_key_type(tables: list[pa.Table]) -> list[pa.Table]:
    """Tables whose key columns agree: where they do not, keys become their encoding."""
    for name in KEY_COLUMNS:
        if len({table[name].type for table in tables}) > 1:
            tables = [_with_encoded(table, name) for table in tables]
    return tables


def _key_columns(table: pa.Table) -> list[str]:
    return [name for name in KEY_COLUMNS if not pa.types.is_null(table[name].type)]


def _is_sorted_by_numbers(table: pa.Table, by: list[str]) -> bool:
    return by == ["key"] and pa.types.is_int64(table["key"].type)


def _taken(table: pa.Table, ranked: _Ranked) -> pa.Table:
    """The rows with some numbers, in that order."""
    import pyarrow.compute as pc

    rows = pa.array(ranked.rows)

    def taken(name: str) -> pa.Array | pa.ChunkedArray:
        column = table[name]
        if name == "key":
            return pa.array(ranked.keys)
        if name == "key_group":
            return pa.array(ranked.groups)
        if column.null_count == len(column):
            return pa.nulls(len(rows), column.type)
        if name == "deleted" and not pc.any(column).as_py():
            return pa.repeat(False, len(rows))
        return pc.take(column, rows, boundscheck=False)

    return pa.table({name: taken(name) for name in table.column_names})


def _ranked(table: pa.Table, is_latest: bool, are_runs: bool) -> _Ranked:
    """The rows in the order of key groups and integer keys; equal ones stay in their order.

    Args:
        is_latest: whether to have the last of equal ones only.
        are_runs: as in `latest_rows`.
    """
    keys, groups = table["key"].to_numpy(), table["key_group"].to_numpy()
    if len(keys) == 0:
        return _Ranked(np.zeros(0, np.int64), keys, groups)
    least = int(keys.min())
    row_bits = (len(keys) - 1).bit_length()
    key_bits = (int(keys.max()) - least).bit_length()
    if row_bits + key_bits + int(groups.max()).bit_length() > 64:
        rows = np.lexsort((keys, groups))
        if is_latest:
            ranked = keys[rows]
            rows = rows[_is_last(ranked)]
        return _Ranked(rows, keys[rows], groups[rows])
    # Numbers alone are sorted faster than rows by two columns, with vector instructions up to ten times. Keys
    # and key groups are read from them again, which is quicker than fetching them from where they were.
    packed = groups.astype(np.uint64)
    packed <<= np.uint64(key_bits)
    packed |= keys.view(np.uint64) - np.int64(least).view(np.uint64)
    packed <<= np.uint64(row_bits)
    packed |= np.arange(len(keys), dtype=np.uint64)
    # The stable sort is a timsort: it finds the runs and merges them (docs/adr/051).
    packed.sort(kind="stable" if are_runs else None)
    entries = packed >> np.uint64(row_bits)
    if is_latest:
        is_last = _is_last(entries)
        packed, entries = packed[is_last], entries[is_last]
    packed &= np.uint64((1 << row_bits) - 1)
    ranked_groups = (entries >> np.uint64(key_bits)).astype(np.uint16)
    entries &= np.uint64((1 << key_bits) - 1)
    entries += np.int64(least).view(np.uint64)
    return _Ranked(packed, entries.view(np.int64), ranked_groups)


def _is_last(ranked: npt.NDArray[np.integer]) -> npt.NDArray[np.bool_]:
    """Which of some numbers, of which equal ones stand together, have no equal one behind them."""
    is_last = np.ones(len(ranked), bool)
    np.not_equal(ranked[1:], ranked[:-1], out=is_last[:-1])
    return is_last


def _unexpired(table: pa.Table, now_ms: int) -> pa.Table:
    layout = expiry_layout(table)
    if layout is None:
        return table
    keep = are_live(layout.latest(table["expiry"].combine_chunks()), now_ms)
    return table if keep.all() else table.filter(pa.array(keep))


def _with_encoded(table: pa.Table, name: str) -> pa.Table:
    column = table[name]
    if column.type == ENCODED_KEY:
        return table
    encoded = pa.array(encode_keys(key_values(column.combine_chunks())), type=ENCODED_KEY)
    return table.set_column(table.schema.get_field_index(name), name, encoded)
