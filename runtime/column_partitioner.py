"""Splits Arrow batches by a key column: no record becomes a Python object."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from ..common.errors import KeyTypeError
from ..operators.columnar.column_key import ColumnKey, key_groups_of_column
from ..operators.columnar.columns import Int64s, as_timestamps, timestamps_of
from ..protocol.elements import Batch
from ..protocol.scheduling.execution_graph import OutputEdge
from .output import OutputChannel


class ColumnPartitioner:
    """Sends each record of an Arrow batch to the subtask that owns its key's group, in Arrow batches."""

    def __init__(
        self, out: OutputEdge, channels: Sequence[OutputChannel], key: ColumnKey, operator_name: str
    ) -> None:
        self._channels = channels
        self._key = key
        self._max_parallelism = out.downstream_max_parallelism
        self._parallelism = out.downstream_parallelism
        self._where = f"operator {operator_name}, key_by({key.column!r}) after it"

    def emit(self, batch: Batch) -> None:
        """Split one Arrow batch; records of one channel keep their order."""
        column = self._key.column_of(batch.values, self._where)
        if len(self._channels) == 1:
            self._channels[0].add_batch(Batch(batch.values, batch.timestamps))
            return
        try:
            groups = key_groups_of_column(column, self._max_parallelism)
        except KeyTypeError as error:
            raise KeyTypeError(f"{self._where}: {error}") from error
        targets = groups.astype(np.int64) * self._parallelism // self._max_parallelism
        scatter_columns(batch, targets, self._channels)


def sorted_by_channel(targets: Int64s, count: int) -> tuple[Int64s, list[int]]:
    """The positions of records sorted by channel, in their order within each, and where each channel begins.

    Args:
        targets: The channel of each record.
        count: The number of channels; the result has one bound more, the number of records.
    """
    order = np.argsort(targets.astype(np.uint16), kind="stable")
    return order, np.searchsorted(targets[order], range(count + 1)).tolist()


def scatter_columns(batch: Batch, targets: Int64s, channels: Sequence[OutputChannel]) -> None:
    """Give each channel the records of an Arrow batch, in their order, that `targets` assigns to it.

    The records are sorted by channel once, and the parts refer to the memory of the result. They are copied
    when they are joined with others or sent: otherwise one part would keep the memory of all.
    """
    order, bounds = sorted_by_channel(targets, len(channels))
    values, times = batch.values.take(pa.array(order)), timestamps_of(batch)
    if times is not None:
        times = times[order]
    for target, channel in enumerate(channels):
        start, end = bounds[target], bounds[target + 1]
        if start < end:
            part_times = as_timestamps(None if times is None else times[start:end])
            channel.add_batch(Batch(values.slice(start, end - start), part_times))
