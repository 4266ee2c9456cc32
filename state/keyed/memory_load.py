"""Puts restored entries into the memory of a table."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pyarrow as pa

from ..snapshots.segments import column_slice, decoded_values, key_values
from .change_merge import sorted_table
from .tables import StateTable

_LOAD_ROWS = 65_536


def load_into_memory(table: StateTable, stored: pa.Table) -> None:
    """Have a table hold the entries of a change table without tombstones."""
    if stored.num_rows > _LOAD_ROWS and pa.types.is_int64(stored["key"].type) and not table.is_namespaced:
        stored = _in_order_of_keys(stored)
    with _collector_at_rest():
        for start in range(0, stored.num_rows, _LOAD_ROWS):
            length = min(_LOAD_ROWS, stored.num_rows - start)
            keys = key_values(column_slice(stored["key"], start, length))
            if table.is_namespaced:
                keys = list(
                    zip(keys, key_values(column_slice(stored["namespace"], start, length)), strict=True)
                )
            table.load(
                keys,
                key_values(column_slice(stored["map_key"], start, length)) if table.is_map else None,
                decoded_values(table.codec, stored, start, length),
            )


def _in_order_of_keys(stored: pa.Table) -> pa.Table:
    """The entries in the order of their integer keys.

    Python's hash of an integer is the integer itself, so a dict's places are then filled one after the other,
    and not one in each of the processor's cache lines. Filling it is most of a restore.
    """
    one_group = pa.array(np.zeros(stored.num_rows, np.uint16))
    of_one_group = stored.set_column(stored.column_names.index("key_group"), "key_group", one_group)
    # The entries of each key group are in this order already.
    return sorted_table(of_one_group, are_runs=True)


@contextmanager
def _collector_at_rest() -> Iterator[None]:
    """No garbage collection meanwhile: it would look at entry after entry, all of which are to stay."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
