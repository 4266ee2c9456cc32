"""Spreads the batches of one edge over its channels."""

from __future__ import annotations

import operator
import pickle
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..common.errors import KeyTypeError, UserCodeError
from ..operators.columnar.column_key import ColumnKey
from ..operators.keyed.key_hashing import hash_int64, key_groups_of, key_groups_of_hashes
from ..operators.output import Emit
from ..operators.record_loops import mapped
from ..protocol.elements import Batch, ColumnBatch, RowBatch
from ..protocol.scheduling.execution_graph import OutputEdge
from ..protocol.scheduling.partitioning import Partitioning
from ..state.serializers.key_codec import without_lists
from .column_partitioner import ColumnPartitioner
from .output import OutputChannel
from .scattering import scatter


def partitioner(out: OutputEdge, channels: Sequence[OutputChannel], operator_name: str) -> Emit:
    """The emitter of one edge: takes a batch and adds its parts to the channels."""
    partitioning = out.edge.partitioning
    if partitioning is Partitioning.HASH:
        assert out.edge.key_selector is not None
        select = pickle.loads(out.edge.key_selector)
        return HashPartitioner(out, channels, select, operator_name).emit
    if partitioning is Partitioning.CUSTOM:
        assert out.edge.key_selector is not None
        assert out.edge.partitioner is not None
        choose = pickle.loads(out.edge.partitioner)
        return CustomPartitioner(channels, pickle.loads(out.edge.key_selector), choose, operator_name).emit
    if partitioning is Partitioning.BROADCAST:
        return _broadcaster(channels)
    if partitioning is Partitioning.GLOBAL or len(channels) == 1:
        return channels[0].add_batch
    if partitioning is Partitioning.SHUFFLE:
        return ShufflePartitioner(out, channels).emit
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
        count = len(self._channels)
        if isinstance(batch, RowBatch):
            self._deal(batch, count)
        else:
            targets = (self._next + np.arange(len(batch))) % count
            scatter(batch.without_keys(), targets, self._channels)
        self._next = (self._next + len(batch)) % count

    def _deal(self, batch: RowBatch, count: int) -> None:
        values, times = batch.values, batch.timestamps
        for offset in range(min(count, len(values))):
            channel = self._channels[(self._next + offset) % count]
            timestamps = None if times is None else times[offset::count]
            channel.add_batch(RowBatch(values[offset::count], timestamps))


class ShufflePartitioner:
    """Sends each record to a channel drawn at random, all alike. Every run draws the same."""

    def __init__(self, out: OutputEdge, channels: Sequence[OutputChannel]) -> None:
        self._channels = channels
        self._random = np.random.default_rng((out.edge.edge_id, out.channels[0].upstream_index))

    def emit(self, batch: Batch) -> None:
        """Draw a channel for every record of a batch."""
        targets = self._random.integers(len(self._channels), size=len(batch))
        scatter(batch.without_keys(), targets, self._channels)


class CustomPartitioner:
    """Sends each record to the subtask that the user's partitioner names for its key."""

    def __init__(
        self,
        channels: Sequence[OutputChannel],
        select: Callable[[Any], Any],
        choose: Callable[[Any, int], int],
        operator_name: str,
    ) -> None:
        self._channels = channels
        self._select = select
        self._choose = choose
        self._operator_name = operator_name

    def emit(self, batch: Batch) -> None:
        """Ask for the subtask of every record of a batch."""
        values = batch.rows()
        select, choose, count = self._select, self._choose, len(self._channels)
        targets = np.empty(len(values), np.int64)
        value: Any = None
        try:
            for position, value in enumerate(values):
                target = operator.index(choose(select(value), count))
                if not 0 <= target < count:
                    raise IndexError(f"it named subtask {target} of {count}; name one from 0 to {count - 1}")
                targets[position] = target
        except Exception as error:
            raise UserCodeError(
                f"partition_custom() after operator {self._operator_name}: the partitioner or its key "
                f"selector raised {type(error).__name__}: {error} on the record {value!r:.200}"
            ) from error
        scatter(batch.without_keys(), targets, self._channels)


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
        if self._columns is not None and isinstance(batch, ColumnBatch):
            self._columns.emit(batch)
            return
        values = batch.rows()
        if not values:
            return
        found = self._keys(values)
        numbers = _as_numbers(found)
        keys: Any = found if numbers is None else numbers
        if len(self._channels) > 1:
            groups = self._groups(found) if numbers is None else self._groups_of_numbers(numbers)
            targets = groups.astype(np.int64) * self._parallelism // self._max_parallelism
            scatter(RowBatch(values, batch.timestamps, keys), targets, self._channels)
            return
        if numbers is None:
            self._check_types(found)
        self._channels[0].add_batch(RowBatch(values, batch.timestamps, keys))

    def _keys(self, values: list[Any]) -> list[Any]:
        remaining: Any = iter(values)
        try:
            return without_lists(mapped(self._select, remaining))
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

    def _groups_of_numbers(self, numbers: Any) -> Any:
        return key_groups_of_hashes(hash_int64(numbers), self._max_parallelism)


def _as_numbers(keys: list[Any]) -> Any:
    """Integers of 64 bits as an array, which travels and compares far cheaper; None for other keys."""
    if type(keys[0]) is not int or list(map(type, keys)).count(int) < len(keys):
        return None
    try:
        # A quarter of what `np.asarray` takes.
        return np.frombuffer(struct.pack(f"{len(keys)}q", *keys), np.int64)
    except struct.error:
        return None
