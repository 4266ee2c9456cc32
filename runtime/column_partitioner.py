"""Splits Arrow batches by a key column: no record becomes a Python object."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..common.errors import KeyTypeError
from ..operators.columnar.column_key import ColumnKey, key_groups_of_column
from ..protocol.elements import ColumnBatch
from ..protocol.scheduling.execution_graph import OutputEdge
from .output import OutputChannel
from .scattering import scatter


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

    def emit(self, batch: ColumnBatch) -> None:
        """Split one Arrow batch; records of one channel keep their order."""
        column = self._key.column_of(batch.values, self._where)
        if len(self._channels) == 1:
            self._channels[0].add_batch(batch.without_keys())
            return
        try:
            groups = key_groups_of_column(column, self._max_parallelism)
        except KeyTypeError as error:
            raise KeyTypeError(f"{self._where}: {error}") from error
        targets = groups.astype(np.int64) * self._parallelism // self._max_parallelism
        scatter(batch.without_keys(), targets, self._channels)
