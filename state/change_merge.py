"""Sorts and merges change tables (see `segments`). In NumPy and Arrow, so nearly all without the GIL."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .expiry import NEVER
from .key_codec import encode_keys
from .segments import ENCODED_KEY, KEY_COLUMNS, expiry_form, key_values


class _Ranked(NamedTuple):
    """Rows in order: their numbers, and their keys and key groups."""

    rows: npt.NDArray[np.integer]
    keys: npt.NDArray[np.int64]
    groups: npt.NDArray[np.uint16]


def merge_tables(tables: list[pa.Table], keep_tombstones: bool, now_ms: int | None = None) -> pa.Table:
    """One change table with the latest row of every entry, sorted; later tables win.

    Runs in Arrow's C++ off the GIL, except where tables of different key columns meet.

    Args:
        keep_tombstones: whether there are older tables, so that what is removed must stay marked.
        now_ms: drop what is expired by then; only without older tables, which may hold the same entries.
    """
    import pyarrow.compute as pc

    table = pa.concat_tables(with_one_key_type(tables)).combine_chunks()
    if len(tables) > 1:
        table = latest_rows(table)
    if not keep_tombstones:
        if pc.any(table["deleted"]).as_py():
            table = table.filter(pc.invert(table["deleted"]))
        if now_ms is not None:
            table = _unexpired(table, now_ms)
    return table.combine_chunks()


def latest_rows(table: pa.Table) -> pa.Table:
    """The last row of every entry, sorted like LMDB keys.

    Args:
        table: with one chunk in each column.
    """
    by = _key_columns(table)
    if _is_sorted_by_numbers(table, by):
        # One sort does both: equal ones stay in their order, so of equal keys the last row is the latest.
        return _taken(table, _ranked(table, is_latest=True))
    rows = table.select(by).append_column("row", pa.array(np.arange(len(table))))
    latest = rows.group_by(by).aggregate([("row", "max")])["row_max"]
    return sorted_table(table.take(latest))


def sorted_table(table: pa.Table) -> pa.Table:
    """The table in the order of LMDB keys, in one chunk."""
    import pyarrow.compute as pc

    table = table.combine_chunks()
    by = _key_columns(table)
    if _is_sorted_by_numbers(table, by):
        return _taken(table, _ranked(table, is_latest=False))
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


def _ranked(table: pa.Table, is_latest: bool) -> _Ranked:
    """The rows in the order of key groups and integer keys; equal ones stay in their order.

    Args:
        is_latest: whether to have the last of equal ones only.
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
    # Ten times as fast as lexsort: numbers alone are sorted by vector instructions. Keys and key groups are
    # read from them again, which is quicker than fetching them from where they were.
    packed = groups.astype(np.uint64)
    packed <<= np.uint64(key_bits)
    packed |= keys.view(np.uint64) - np.int64(least).view(np.uint64)
    packed <<= np.uint64(row_bits)
    packed |= np.arange(len(keys), dtype=np.uint64)
    packed.sort()
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
    form = expiry_form(table)
    if form is None:
        return table
    last = form.latest(table["expiry"].combine_chunks())
    keep = (last > now_ms) | (last == NEVER)
    return table if keep.all() else table.filter(pa.array(keep))


def _with_encoded(table: pa.Table, name: str) -> pa.Table:
    column = table[name]
    if column.type == ENCODED_KEY:
        return table
    encoded = pa.array(encode_keys(key_values(column.combine_chunks())), type=ENCODED_KEY)
    return table.set_column(table.schema.get_field_index(name), name, encoded)
