"""The folds of the keys that were seen last, as columns in front of value state.

Python objects are made only of what goes to or comes from the state: when a key appears for the first time,
and before a snapshot. So the cost of a record does not grow with the number of its aggregates' objects, and
the state itself is kept, checkpointed, rescaled and spilled like any other.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from .aggregate_functions import Fold
from .aggregate_state import FoldStates
from .grouping import Array, Grouping
from .key_slots import CAPACITY, KeySlots, key_slots

MAX_CHANGED = 1 << 15
"""Slots that may differ from the state: what a snapshot must write at most, some milliseconds."""


class FoldCache:
    """Columns of folds, one slot per key.

    Args:
        states: what is behind it.
        kind: type of the key column.
    """

    def __init__(self, states: FoldStates, kind: pa.DataType) -> None:
        self._states = states
        self._slots: KeySlots = key_slots(kind)
        self._columns: dict[Fold, Array] = {
            fold: np.zeros(CAPACITY, np.int64 if fold.is_counted else np.float64) for fold in states.folds
        }
        self._is_changed = np.zeros(CAPACITY, np.bool_)

    def slots_of(self, keys: pa.Array) -> Array:
        """The slot of each record's key; the folds of all of them are in the columns afterwards.

        Args:
            keys: at most `CAPACITY` keys.
        """
        before = self._slots.used
        slots = self._slots.find(keys)
        if slots is None:
            self.flush()
            self._slots.clear()
            before = 0
            slots = self._slots.find(keys)
            assert slots is not None, "so many records always find room"
        new = np.arange(before, self._slots.used)
        if len(new):
            found, _ = self._states.load(self._slots.keys(new))
            for fold, column in self._columns.items():
                column[new] = found[fold]
        return slots

    def keys_of(self, slots: Array) -> list[object]:
        """The keys of some slots."""
        return self._slots.keys(slots)

    def folds_of(self, grouping: Grouping) -> dict[Fold, Array]:
        """The folds of the groups of a batch, whose codes are slots."""
        return {fold: column[grouping.codes] for fold, column in self._columns.items()}

    def replace(self, grouping: Grouping, folds: dict[Fold, Array]) -> None:
        """Take the folds of the groups of a batch as they are after it."""
        for fold, column in self._columns.items():
            column[grouping.codes] = folds[fold]
        self._is_changed[grouping.codes] = True
        if np.count_nonzero(self._is_changed) > MAX_CHANGED:
            self.flush()

    def flush(self) -> None:
        """Write what changed to the state."""
        changed = np.flatnonzero(self._is_changed)
        if len(changed):
            folds = {fold: column[changed] for fold, column in self._columns.items()}
            self._states.store(self._slots.keys(changed), folds)
            self._is_changed[changed] = False
