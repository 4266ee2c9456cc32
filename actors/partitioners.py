"""Spreads the batches of one edge over its channels."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from ..common.errors import KeyTypeError, UserCodeError
from ..operators.base import rows
from ..operators.column_key import ColumnKey
from ..operators.key_hashing import key_groups_of
from ..operators.output import Emit
from ..protocol.elements import Batch
from ..protocol.partitioning import Partitioning
from ..protocol.plan import OutputEdge
from .column_partitioner import ColumnPartitioner
from .output import OutputChannel


def partitioner(out: OutputEdge, channels: Sequence[OutputChannel], operator_name: str) -> Emit:
    """The emitter of one edge: takes a batch and adds its parts to the channels."""
    if out.edge.partitioning is Partitioning.HASH:
        assert out.edge.key_selector is not None
        select = pickle.loads(out.edge.key_selector)
        return HashPartitioner(out, channels, select, operator_name).emit
    if out.edge.partitioning is Partitioning.BROADCAST:
        return _broadcaster(channels)
    if len(channels) == 1:
        return channels[0].add_batch
    return RoundRobinPartitioner(channels).emit


def _broadcaster(channels: Sequence[OutputChannel]) -> Emit:
    def emit(batch: Batch) -> None:
        for channel in channels:
            channel.add_batch(batch)

    return emit


class RoundRobinPartitioner:
    """Deals records out in turn (rebalance, rescale)."""

    def __init__(self, channels: Sequence[OutputChannel]) -> None:
        self._channels = channels
        self._next = 0

    def emit(self, batch: Batch) -> None:
        """Deal out one batch, going on where the last one ended."""
        values, count = rows(batch), len(self._channels)
        for offset in range(min(count, len(values))):
            channel = self._channels[(self._next + offset) % count]
            timestamps = None if batch.timestamps is None else batch.timestamps[offset::count]
            channel.add_batch(Batch(values[offset::count], timestamps))
        self._next = (self._next + len(values)) % count


class HashPartitioner:
    """Sends each record to the subtask that owns its key's group; the keys travel along."""

    def __init__(
        self,
        out: OutputEdge,
        channels: Sequence[OutputChannel],
        select: Callable[[Any], Any],
        operator_name: str,
    ) -> None:
        self._channels = channels
        self._select = select
        self._max_parallelism = out.downstream_max_parallelism
        self._parallelism = out.downstream_parallelism
        self._operator_name = operator_name
        self._checked_types: set[type] = set()
        self._columns: ColumnPartitioner | None = None
        if isinstance(select, ColumnKey):
            self._columns = ColumnPartitioner(out, channels, select, operator_name)

    def emit(self, batch: Batch) -> None:
        """Split one batch by key."""
        if self._columns is not None and not isinstance(batch.values, list):
            self._columns.emit(batch)
            return
        values = rows(batch)
        keys = self._keys(values)
        if len(self._channels) == 1:
            self._check_types(keys)
            self._channels[0].add_batch(Batch(values, batch.timestamps, _compact(keys)))
            return
        self._scatter(values, keys, batch.timestamps)

    def _keys(self, values: list[Any]) -> list[Any]:
        remaining: Any = iter(values)
        try:
            keys = list(map(self._select, remaining))
            if len(keys) < len(values):
                raise RuntimeError("the function raised StopIteration")
            return keys
        except Exception as error:
            record = values[len(values) - remaining.__length_hint__() - 1]
            raise UserCodeError(
                f"operator {self._operator_name}: the key selector raised {type(error).__name__}: "
                f"{error} on the record {record!r:.200}"
            ) from error

    def _check_types(self, keys: list[Any]) -> None:
        """One subtask needs no hash, but a key without an encoding must fail here all the same."""
        for key_type in set(map(type, keys)) - self._checked_types:
            self._groups([key for key in keys if type(key) is key_type])
            if key_type is not tuple:
                self._checked_types.add(key_type)

    def _groups(self, keys: list[Any]) -> Any:
        try:
            return key_groups_of(keys, self._max_parallelism)
        except KeyTypeError as error:
            raise KeyTypeError(f"key_by() after operator {self._operator_name}: {error}") from error

    def _scatter(self, values: list[Any], keys: list[Any], timestamps: Sequence[int] | None) -> None:
        if not values:
            return
        groups = self._groups(keys).astype(np.int64)
        targets = groups * self._parallelism // self._max_parallelism
        order = np.argsort(targets.astype(np.uint16), kind="stable")
        bounds = np.searchsorted(targets[order], range(self._parallelism + 1)).tolist()
        take = _taker(order.tolist())
        compact = _compact(keys)
        values, times = take(values), take(timestamps) if timestamps is not None else None
        sorted_keys = take(keys) if isinstance(compact, list) else compact[order]
        for target, channel in enumerate(self._channels):
            start, end = bounds[target], bounds[target + 1]
            if start < end:
                part = times[start:end] if times is not None else None
                channel.add_batch(Batch(values[start:end], part, sorted_keys[start:end]))


def _taker(order: list[int]) -> Callable[[Sequence[Any]], list[Any]]:
    if len(order) == 1:
        return lambda values: [values[order[0]]]
    getter = itemgetter(*order)
    return lambda values: list(getter(values))


def _compact(keys: list[Any]) -> Any:
    """Integer keys as an array, which travels and compares far cheaper; others as they are."""
    if keys and type(keys[0]) is int:
        try:
            array = np.asarray(keys)
        except (OverflowError, ValueError):
            return keys
        if array.dtype == np.int64 and array.ndim == 1:
            return array
    return keys
