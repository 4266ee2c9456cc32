"""Some keys of a keyed state: the key groups they are in, and the rows of a table that are theirs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...protocol.key_groups import KeyGroupRange
from ..serializers.key_codec import encode_key, without_lists
from ..serializers.key_hashing import key_group_of
from .segments import ENCODED_KEY

_INT64 = range(-(1 << 63), 1 << 63)


class KeySelection:
    """Keys to look for.

    Args:
        keys: the keys.
        max_parallelism: of the operator, hence its number of key groups.
        namespace: look in this namespace only, if one is given.

    Raises:
        KeyTypeError: when a key has no deterministic encoding.
    """

    def __init__(self, keys: Iterable[Any], max_parallelism: int, namespace: Any = None) -> None:
        keys = without_lists(list(keys))
        self.key_groups = sorted({key_group_of(key, max_parallelism) for key in keys})
        self._keys = _Column(keys)
        self._namespace = None if namespace is None else _Column([namespace])

    def meets(self, key_groups: KeyGroupRange) -> bool:
        """Whether some key may be in these key groups."""
        return any(key_groups.contains(group) for group in self.key_groups)

    def apply(self, table: pa.Table) -> pa.Table:
        """The rows of a change table that are of these keys."""
        found = table.filter(self._keys.is_in(table["key"]))
        if self._namespace is not None and not pa.types.is_null(table["namespace"].type):
            found = found.filter(self._namespace.is_in(found["namespace"]))
        return found


class _Column:
    """Values as each form of key column would hold them."""

    def __init__(self, values: list[Any]) -> None:
        integers = [int(value) for value in values if isinstance(value, int | np.integer)]
        self._integers = pa.array([value for value in integers if value in _INT64], pa.int64())
        self._encoded = pa.array([encode_key(value) for value in values], ENCODED_KEY)
        self._texts = [value for value in values if isinstance(value, str)]

    def is_in(self, column: pa.ChunkedArray) -> pa.ChunkedArray:
        if pa.types.is_int64(column.type):
            return pc.is_in(column, value_set=self._integers)
        if column.type == ENCODED_KEY:
            return pc.is_in(column, value_set=self._encoded)
        texts = [text for text in self._texts if _is_unicode(text)]
        return pc.is_in(column, value_set=pa.array(texts, column.type))


def _is_unicode(text: str) -> bool:
    """Whether a text column can hold the text: one with a lone surrogate is stored encoded."""
    return not any("\ud800" <= character <= "\udfff" for character in text)
