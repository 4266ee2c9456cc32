"""Looks at the value of one key without touching it: for questions from outside the job."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...common.errors import StateError
from ..kinds import ListState
from ..serializers.key_codec import encode_key
from .map_table import MapTable
from .state_factory import StateParts
from .tables import MISSING


def query(where: str, parts: StateParts, key: Any, namespace: Any) -> Any:
    """What a state holds for a key; see `KeyedStateBackend.query`."""
    table = parts.table
    if table.is_namespaced != (namespace is not None):
        raise StateError(
            f"{where}: state {table.name!r} has namespaces: say of which one"
            if table.is_namespaced
            else f"{where}: state {table.name!r} has no namespaces, but {namespace!r} was asked for"
        )
    encode_key(key)
    table_key = (key, namespace) if table.is_namespaced else key
    live = _live_part(parts)
    if isinstance(table, MapTable):
        entries = ((map_key, table.peek(table_key, map_key)) for map_key in table.map_keys(table_key))
        present = ((map_key, live(entry)) for map_key, entry in entries if entry is not MISSING)
        return {map_key: value for map_key, value in present if value is not MISSING} or None
    entry = table.peek(table_key)
    value = MISSING if entry is None else live(entry)
    return None if value is MISSING else value


def _live_part(parts: StateParts) -> Callable[[Any], Any]:
    """Takes the expiry off an entry; gives `MISSING` for one that is expired."""
    ttl = parts.ttl
    if ttl is None:
        return lambda entry: entry

    def of_pair(entry: Any) -> Any:
        expiry, value = entry
        return MISSING if ttl.is_over(expiry) else value

    def of_list(elements: Any) -> Any:
        return [value for expiry, value in elements if not ttl.is_over(expiry)] or MISSING

    return of_list if isinstance(parts.handle, ListState) else of_pair
