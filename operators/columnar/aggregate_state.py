"""Folds per key in value state, and the aggregates that follow from them, a batch at a time."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from ...common.errors import StateMigrationError, UserCodeError
from ...common.typeinfo import Types
from ...protocol.checkpoints.handles import KeyedStateHandle
from ...state.backend import KeyedStateBackend
from ...state.descriptors import ValueStateDescriptor
from ...state.kinds import ValueState
from ..running_folds import FOLDS
from . import sketch
from .aggregate_functions import Aggregation, Count, Fold, Mean, Quantile
from .grouping import Array, Grouping

_STATE = "aggregates: "
Sketches = Mapping[Fold, list[sketch.Sketch]]


class FoldStates:
    """Where the folds of all keys are kept: one tuple per key, and one value per key and sketch.

    Args:
        folds: in any order; the states do not depend on it.
    """

    def __init__(self, folds: Sequence[Fold]) -> None:
        ordered = sorted(set(folds))
        self.folds = [fold for fold in ordered if fold.kind != "sketch"]
        self.sketches = [fold for fold in ordered if fold.kind == "sketch"]
        self._name = _STATE + ", ".join(fold.text for fold in self.folds)
        self._empty = tuple(_empty(fold) for fold in self.folds)
        self._dtype = np.dtype([(fold.text, _dtype(fold)) for fold in self.folds])
        self._tuples: ValueState[Any]
        self._by_sketch: dict[Fold, ValueState[Any]]

    def check_restored(self, handle: KeyedStateHandle, where: str) -> None:
        """Refuse state of other aggregates: it would be lost without a word."""
        mine = {self._name, *(_STATE + fold.text for fold in self.sketches)}
        other = sorted(name for name in handle.descriptors if name.startswith(_STATE) and name not in mine)
        if other:
            raise StateMigrationError(
                f"{where}: the checkpoint holds other aggregates ({'; '.join(other)}) than the job "
                f"declares ({'; '.join(sorted(mine))}); declare those of the checkpoint, or give the "
                f"operator a new uid()"
            )

    def open(self, keyed: KeyedStateBackend, namespaced: bool = False) -> None:
        """Declare the states."""
        if self.folds:
            types = Types.TUPLE([Types.LONG() if fold.is_counted else Types.DOUBLE() for fold in self.folds])
            self._tuples = keyed.get_value_state(ValueStateDescriptor(self._name, types), namespaced)
        buckets = Types.MAP(Types.LONG(), Types.LONG())
        self._by_sketch = {
            fold: keyed.get_value_state(ValueStateDescriptor(_STATE + fold.text, buckets), namespaced)
            for fold in self.sketches
        }

    def load(self, keys: list[Any]) -> tuple[dict[Fold, Array], list[int]]:
        """The folds of some keys, and the positions of those keys that are new."""
        if not self.folds:
            return {}, []
        stored = self._tuples.get_many(keys)
        new: list[int] = []
        if None in stored:
            new = [position for position, value in enumerate(stored) if value is None]
            for position in new:
                stored[position] = self._empty
        table = np.fromiter(stored, dtype=self._dtype, count=len(keys))
        return {fold: np.ascontiguousarray(table[fold.text]) for fold in self.folds}, new

    def store(self, keys: list[Any], folds: Mapping[Fold, Array]) -> None:
        """Replace the folds of some keys."""
        if self.folds:
            self._tuples.put_many(keys, list(zip(*(folds[fold].tolist() for fold in self.folds))))

    def load_sketches(self, keys: list[Any]) -> Sketches:
        """The sketches of some keys; they may be added to, and are then to be stored."""
        return {
            fold: [{} if value is None else value for value in state.get_many(keys)]
            for fold, state in self._by_sketch.items()
        }

    def store_sketches(self, keys: list[Any], sketches: Sketches) -> None:
        """Replace the sketches of some keys."""
        for fold, state in self._by_sketch.items():
            state.put_many(keys, sketches[fold])

    def clear(self, keys: list[Any]) -> None:
        """Forget some keys."""
        nothing = [None] * len(keys)
        for state in [*([self._tuples] if self.folds else []), *self._by_sketch.values()]:
            state.put_many(keys, nothing)


class Folded(ABC):
    """Folds of which aggregates are to be computed: of every record, or of every key."""

    @abstractmethod
    def of(self, fold: Fold) -> Array:
        """The fold, an element for each result."""

    @abstractmethod
    def quantile(self, fold: Fold, q: float) -> Array:
        """The quantile of a sketch, an element for each result; NaN where there is none."""

    def has_any(self, count: Fold) -> Array | None:
        """Which results come from at least one value that is not null; None: all."""
        counts = self.of(count)
        return None if counts.all() else counts > 0

    def result(self, aggregation: Aggregation, schema: pa.Schema) -> tuple[Array, Array | None]:
        """The results of an aggregation, and which of them are not null; None: all."""
        if isinstance(aggregation, Quantile):
            (fold,) = aggregation.folds(schema)
            quantiles = self.quantile(fold, aggregation.q)
            return quantiles, ~np.isnan(quantiles)
        if isinstance(aggregation, Count):
            (fold,) = aggregation.folds(schema)
            return self.of(fold), None
        count, fold = aggregation.folds(schema)
        values, valid = self.of(fold), self.has_any(count)
        if isinstance(aggregation, Mean):
            values = values / np.maximum(self.of(count), 1)
        return values, valid


class BatchFolds(Folded):
    """The folds of a batch, up to each record (sorted by group), and of each key after it.

    Args:
        batch: its records, in the batch's order.
        before: per group, the folds so far.
        sketches: per group, the sketches so far; `finish` adds to them.
    """

    def __init__(
        self,
        grouping: Grouping,
        batch: pa.RecordBatch,
        before: Mapping[Fold, Array],
        sketches: Sketches,
    ) -> None:
        self._grouping = grouping
        self._batch = batch
        self._before = before
        self._sketches = sketches
        self._running: dict[Fold, Array] = {}
        self._buckets: dict[Fold, Array] = {}

    def of(self, fold: Fold) -> Array:
        running = self._running.get(fold)
        if running is None:
            running = self._running[fold] = self._compute(fold)
        return running

    def quantile(self, fold: Fold, q: float) -> Array:
        grouping, numbers = self._grouping, self._bucket_numbers(fold)
        parts = [
            sketch.running_quantile(before, numbers[start : end + 1], q, fold.accuracy)
            for before, start, end in zip(
                self._sketches[fold], grouping.starts.tolist(), grouping.ends.tolist(), strict=True
            )
        ]
        return np.concatenate(parts)

    def has_any(self, count: Fold) -> Array | None:
        return super().has_any(count) if self._batch[count.column].null_count else None

    def after(self) -> dict[Fold, Array]:
        """Per group, the folds after the batch."""
        return {fold: self._last(fold) for fold in self._before}

    def finish_sketches(self) -> None:
        """Add the batch to the sketches of its groups."""
        grouping = self._grouping
        for fold, sketches in self._sketches.items():
            numbers = self._bucket_numbers(fold)
            bounds = zip(grouping.starts.tolist(), grouping.ends.tolist())
            for counts, (start, end) in zip(sketches, bounds, strict=True):
                part = numbers[start : end + 1]
                sketch.add(counts, part[part != sketch.MISSING])

    def _last(self, fold: Fold) -> Array:
        if fold.kind == "rows":
            return self._before[fold] + self._grouping.counts
        if fold.kind == "count" and not self._batch[fold.column].null_count:
            return self._before[fold] + self._grouping.counts
        if fold.kind == "sum" and fold.is_integer and fold not in self._running:
            return self._added(self._grouping.totals, fold)
        return self.of(fold)[self._grouping.ends]

    def _compute(self, fold: Fold) -> Array:
        grouping, before = self._grouping, self._before[fold]
        if fold.kind == "rows":
            return grouping.running_count(before, None)
        column = self._batch[fold.column]
        if fold.kind == "count":
            counted = np.asarray(column.is_valid())[grouping.rows] if column.null_count else None
            return grouping.running_count(before, counted)
        return self._added(partial(grouping.running, FOLDS[fold.kind]), fold)

    def _added(self, add: Callable[[Array, Array], Array], fold: Fold) -> Array:
        values = _numbers(self._batch[fold.column], fold)[self._grouping.rows]
        try:
            return add(self._before[fold], values)
        except OverflowError as error:
            raise UserCodeError(
                f"the sum of column {fold.column!r} for a key does not fit into a 64-bit integer; "
                f"cast the column to float64 in map_batches()"
            ) from error

    def _bucket_numbers(self, fold: Fold) -> Array:
        """Sorted: the bucket of each value, `MISSING` where it is null or NaN."""
        numbers = self._buckets.get(fold)
        if numbers is None:
            values = _numbers(self._batch[fold.column], fold)[self._grouping.rows]
            missing = np.isnan(values)
            numbers = sketch.buckets(np.where(missing, 0.0, values), fold.accuracy)
            numbers[missing] = sketch.MISSING
            self._buckets[fold] = numbers
        return numbers


class KeyedFolds(Folded):
    """The folds of some keys, each with one result."""

    def __init__(self, folds: Mapping[Fold, Array], sketches: Sketches) -> None:
        self._folds = folds
        self._sketches = sketches

    def of(self, fold: Fold) -> Array:
        return self._folds[fold]

    def quantile(self, fold: Fold, q: float) -> Array:
        return np.array([sketch.quantile(counts, q, fold.accuracy) for counts in self._sketches[fold]])


def result_column(values: Array, valid: Array | None, kind: pa.DataType) -> pa.Array:
    """Results as a column of the type that an aggregation declares."""
    column = pa.array(values, mask=None if valid is None else ~valid)
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        column = column.cast(pa.int32())
    return column.cast(kind)


def _numbers(column: pa.Array, fold: Fold) -> Array:
    """A column's values as 64-bit numbers; a null is what changes the fold least."""
    if fold.is_integer:
        if pa.types.is_date32(column.type) or pa.types.is_time32(column.type):
            column = column.cast(pa.int32())
        column = column.cast(pa.int64())
    else:
        column = column.cast(pa.float64())
    if column.null_count:
        column = column.fill_null(_empty(fold))
    numbers: Array = column.to_numpy(zero_copy_only=False)
    return numbers


def _dtype(fold: Fold) -> str:
    return "i8" if fold.is_counted else "f8"


def _empty(fold: Fold) -> int | float:
    """The fold of no records; of a sketch: no number."""
    if fold.kind == "sketch":
        return math.nan
    return 0 if fold.kind in ("rows", "count") else FOLDS[fold.kind].neutral(fold.is_integer)
