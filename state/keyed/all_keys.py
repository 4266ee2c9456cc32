"""Every key that a state holds something for, wherever it lies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ...common.errors import StateError
from .tables import StateTable

if TYPE_CHECKING:
    from ..lmdb.store import LmdbTable

_CHUNK_ENTRIES = 1_024


def all_keys(table: StateTable) -> Iterator[Any]:
    """The keys of a table, each once; some may have nothing any more. The state may change meanwhile.

    Raises:
        StateError: A key is so long that LMDB only has its hash.
    """
    if table.store is None or table.behind is None:
        yield from list(table.values)
        return
    # The buffers first and LMDB after, as in a read: what leaves a buffer meanwhile is not told twice.
    buffered = set(table.dirty).union(*(frozen.changes for frozen in table.frozen))
    for key in _stored_keys(table, table.store):
        if key not in buffered:
            yield key
    yield from buffered


def _stored_keys(table: StateTable, store: LmdbTable) -> Iterator[Any]:
    start, previous = b"", _NO_KEY
    while True:
        found = store.scan(start, _CHUNK_ENTRIES)
        for place, data in found:
            keys = store.keys_at(place, data, table.is_map)
            if keys is None:
                raise StateError(
                    f"the keys of state {table.name!r} cannot be listed: one is so long that LMDB only has "
                    f"its hash; use shorter keys, or the hashmap backend"
                )
            # The entries of one key stand together.
            if keys[0] != previous:
                previous = keys[0]
                yield previous
        if len(found) < _CHUNK_ENTRIES:
            return
        start = found[-1][0] + b"\x00"


_NO_KEY = object()
