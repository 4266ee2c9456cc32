"""Dense numbers for keys: which slot of a column a key has, for a whole batch at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .column_key import distinct_keys

Array = npt.NDArray[Any]

CAPACITY = 1 << 16
"""Slots at most, so that a slot fits into 16 bits; a batch of so many records always finds room."""

_TABLE_BITS = 18
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(64 - _TABLE_BITS)
_MASK = (1 << _TABLE_BITS) - 1


class KeySlots(ABC):
    """Slots of keys, given out in turn from 0 and never taken back but all at once."""

    def __init__(self) -> None:
        self.used = 0

    @abstractmethod
    def find(self, column: pa.Array) -> Array | None:
        """The slot of each record's key (`uint16`), new keys included; None when there are too few left."""

    @abstractmethod
    def keys(self, slots: Array) -> list[Any]:
        """The keys of some slots, as Python objects."""

    @abstractmethod
    def clear(self) -> None:
        """Take all slots back."""


def key_slots(kind: pa.DataType) -> KeySlots:
    """Slots for a key column of a type."""
    if pa.types.is_integer(kind) and not pa.types.is_uint64(kind):
        return IntegerSlots()
    return ObjectSlots()


class ObjectSlots(KeySlots):
    """Keys of any type: each distinct key of a batch is looked up in a dict."""

    def __init__(self) -> None:
        super().__init__()
        self._slots: dict[Any, int] = {}
        self._keys: list[Any] = []

    def find(self, column: pa.Array) -> Array | None:
        distinct = distinct_keys(column)
        slots = list(map(self._slots.get, distinct.keys))
        if None in slots:
            new = [key for key, slot in zip(distinct.keys, slots) if slot is None]
            if self.used + len(new) > CAPACITY:
                return None
            self._slots.update(zip(new, range(self.used, self.used + len(new))))
            self._keys += new
            self.used += len(new)
            slots = list(map(self._slots.__getitem__, distinct.keys))
        return np.array(slots, dtype=np.uint16)[distinct.codes]

    def keys(self, slots: Array) -> list[Any]:
        return list(map(self._keys.__getitem__, slots.tolist()))

    def clear(self) -> None:
        self._slots.clear()
        self._keys.clear()
        self.used = 0


class IntegerSlots(KeySlots):
    """Keys that are integers of at most 64 bits: a hash table in arrays, linear probing a batch at a time."""

    def __init__(self) -> None:
        super().__init__()
        self._keys = np.zeros(CAPACITY, np.int64)
        self._table = np.full(1 << _TABLE_BITS, -1, np.int32)

    def find(self, column: pa.Array) -> Array | None:
        keys = column.cast(pa.int64()).to_numpy(zero_copy_only=False)
        places = _places(keys)
        slots = self._table[places]
        # An empty place reads the key of slot -1, the last one, and is told apart by its slot.
        rows = np.flatnonzero((self._keys[slots] != keys) | (slots < 0))
        new: list[Array] = []
        while len(rows):
            found = slots[rows]
            is_free = found < 0
            if is_free.any():
                new.append(rows[is_free])
                rows = rows[~is_free]
            places[rows] = (places[rows] + 1) & _MASK
            slots[rows] = self._table[places[rows]]
            rows = rows[(self._keys[slots[rows]] != keys[rows]) | (slots[rows] < 0)]
        if new:
            # Sorting beats the hash table of np.unique ten times.
            unknown = np.sort(keys[np.concatenate(new)])
            unknown = unknown[np.append(True, unknown[1:] != unknown[:-1])]
            if self.used + len(unknown) > CAPACITY:
                return None
            self._insert(unknown)
            return self.find(column)
        return slots.astype(np.uint16)

    def keys(self, slots: Array) -> list[Any]:
        keys: list[Any] = self._keys[slots].tolist()
        return keys

    def clear(self) -> None:
        self._table.fill(-1)
        self.used = 0

    def _insert(self, keys: Array) -> None:
        slots = np.arange(self.used, self.used + len(keys), dtype=np.int32)
        self._keys[slots] = keys
        self.used += len(keys)
        places = _places(keys)
        while len(slots):
            is_free = self._table[places] < 0
            # Of several keys for one free place the last one written stays there.
            self._table[places[is_free]] = slots[is_free]
            left = self._table[places] != slots
            slots, places = slots[left], (places[left] + 1) & _MASK


def _places(keys: Array) -> Array:
    with np.errstate(over="ignore"):
        places: Array = ((keys.view(np.uint64) * _GOLDEN) >> _SHIFT).astype(np.int64)
    return places
