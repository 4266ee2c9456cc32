"""Removes expired state from the segments of a copy that a user keeps, such as a savepoint.

Flink's rules: a value and an entry of a map are removed as a whole, a list loses its expired elements, and is
removed when none is left.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..serializers.value_codecs import ValueCodec
from ..snapshots.segments import COLUMNS, SegmentInfo, opaque_values
from .expiration import Expiration
from .expiry import are_live, milliseconds

_BoolArray = npt.NDArray[np.bool_]


def without_expired(expiration: Expiration, table: pa.Table, info: SegmentInfo, is_whole: bool) -> pa.Table:
    """The rows of a segment without what is expired; the same table when nothing is.

    Args:
        expiration: What is expired.
        table: Rows of the segment, as a change table.
        info: The state that they belong to.
        is_whole: Whether no older segment holds the same entries. If one does, a removed entry becomes a
            tombstone, so that the older value does not return.
    """
    now_ms = expiration.time_of(info.schema)
    if now_ms is None or table.num_rows == 0:
        return table
    expiries = table["expiry"].combine_chunks()
    if pa.types.is_list(expiries.type):
        codec = expiration.codecs.get(info.state_name)
        table, is_expired = _without_elements(table, expiries, now_ms, codec)
    else:
        is_expired = ~are_live(milliseconds(expiries), now_ms)
    if not is_expired.any():
        return table
    live = table.filter(pa.array(~is_expired))
    return live if is_whole else _with_tombstones(table, live, is_expired)


def _with_tombstones(table: pa.Table, live: pa.Table, is_expired: _BoolArray) -> pa.Table:
    removed = table.filter(pa.array(is_expired))
    rows = removed.num_rows
    for name in ("value", "value_encoded", "expiry"):
        removed = _with_column(removed, name, pa.nulls(rows, removed[name].type))
    removed = _with_column(removed, "deleted", pa.repeat(True, rows))
    order = np.concatenate([np.flatnonzero(~is_expired), np.flatnonzero(is_expired)])
    return pa.concat_tables([live, removed]).take(pa.array(np.argsort(order)))


def _without_elements(
    table: pa.Table, expiries: pa.ListArray, now_ms: int, codec: ValueCodec | None
) -> tuple[pa.Table, _BoolArray]:
    """Lists without their expired elements, and which of them have lost all."""
    lengths, rows = _shape(expiries)
    keep = are_live(milliseconds(expiries.flatten()), now_ms)
    if keep.all():
        return table, np.zeros(len(expiries), bool)
    left = np.bincount(rows[keep], minlength=len(expiries))
    values = table["value"].combine_chunks()
    is_by_element = pa.types.is_large_list(values.type)
    in_column = values.is_valid().to_numpy(zero_copy_only=False) & is_by_element
    is_partly_live = (left > 0) & (left < lengths)
    if is_by_element:
        table = _with_column(table, "value", _filtered(values, keep[in_column[rows]]))
    whole = np.flatnonzero(is_partly_live & ~in_column)
    if len(whole) and codec is not None:
        table = _with_parts(table, codec, {int(row): keep[rows == row] for row in whole})
    elif len(whole):
        # Expiries must remain as many as the elements.
        keep |= np.isin(rows, whole)
    table = _with_column(table, "expiry", _filtered(expiries, keep))
    return table, (lengths > 0) & (left == 0)


def _with_parts(table: pa.Table, codec: ValueCodec, kept: Mapping[int, _BoolArray]) -> pa.Table:
    """The table with some lists, which are encoded as a whole, reduced to some of their elements."""
    at = list(kept)
    some = table.take(pa.array(at))
    lists = codec.from_arrow(
        some["value"].combine_chunks(), opaque_values(some["value_encoded"].combine_chunks())
    )
    shorter: list[Any] = [
        [element for element, keep in zip(elements, kept[row], strict=True) if keep]
        for row, elements in zip(at, lists, strict=True)
    ]
    column, opaque = codec.to_arrow(shorter)
    encoded = pa.array([opaque.get(index) for index in range(len(at))], pa.large_binary())
    order = np.arange(table.num_rows)
    order[at] = table.num_rows + np.arange(len(at))
    for name, new in (("value", column), ("value_encoded", encoded)):
        before = table[name]
        joined = pa.chunked_array([*before.chunks, new.cast(before.type)])
        table = _with_column(table, name, joined.take(pa.array(order)))
    return table


def _filtered(lists: pa.Array, keep: _BoolArray) -> pa.Array:
    """Lists with some of their elements.

    Args:
        keep: For each element of all lists.
    """
    _, rows = _shape(lists)
    offsets = np.zeros(len(lists) + 1, np.int64 if pa.types.is_large_list(lists.type) else np.int32)
    np.cumsum(np.bincount(rows[keep], minlength=len(lists)), out=offsets[1:])
    elements = lists.flatten().filter(pa.array(keep))
    return type(lists).from_arrays(pa.array(offsets), elements, type=lists.type, mask=lists.is_null())


def _shape(lists: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The length of each list, and the row of each element."""
    import pyarrow.compute as pc

    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy()
    return lengths, np.repeat(np.arange(len(lists)), lengths)


def _with_column(table: pa.Table, name: str, column: Any) -> pa.Table:
    return table.set_column(COLUMNS.index(name), name, column)
