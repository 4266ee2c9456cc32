"""A user function over Arrow batches with the state of all their keys at once."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ...common.typeinfo import TypeInformation
from ...protocol.elements import Batch, ColumnBatch
from ..functions import Function
from ..keyed.keyed import KeyedOperator
from .batch_functions import BatchFormat
from .column_key import ColumnKey, DistinctKeys, distinct_keys
from .columns import Int64s, as_columns, as_timestamps, checked_schema, timestamps_of


class KeyedBatchFunction(Function):
    """Processes whole Arrow batches of a keyed stream; made for `ValueState.get_many` and `put_many`."""

    class Context:
        """What is known about the batch at hand.

        Attributes:
            keys: Its keys as Python objects, each once, in the order of their first records.
            codes: For each record the index of its key in `keys`, as an `int32` array.
            timestamps: For each record its event time in milliseconds, as an `int64` array; `None` if the
                stream has no event times.
        """

        __slots__ = ("codes", "keys", "timestamps")

        def __init__(self, distinct: DistinctKeys, timestamps: Int64s | None) -> None:
            self.keys = distinct.keys
            self.codes = distinct.codes
            self.timestamps = timestamps

    @abstractmethod
    def process_batch(self, batch: Any, ctx: KeyedBatchFunction.Context) -> Any:
        """Return the results of one batch, as a batch or table of the declared schema, or `None` for none."""


class KeyedBatchOperator(KeyedOperator):
    """Runs a `KeyedBatchFunction`.

    Results have the event times of the records if they are as many, else the latest of them.

    Args:
        function: The user function, or a callable `(batch, ctx)`.
        key: The key column.
        schema: Columns of the results.
        input_schema: Columns of the records that come in, if they are known.
        key_type: Declared type of the key, if any.
        batch_format: `arrow` or `polars`.
    """

    def __init__(
        self,
        function: Any,
        key: ColumnKey,
        schema: pa.Schema,
        input_schema: pa.Schema | None,
        key_type: TypeInformation | None = None,
        batch_format: str = "arrow",
    ) -> None:
        super().__init__(function, "process_batch", key, key_type)
        self._key = key
        self._schema = checked_schema(schema, "process_batches()")
        self._input_schema = input_schema
        self._format = BatchFormat(batch_format, "process_batches()")

    def process_batch(self, batch: Batch, input_index: int) -> None:
        where = f"operator {self.context.name_with_subtask}"
        columns = as_columns(batch, self._input_schema, where)
        distinct = distinct_keys(self._key.column_of(columns, where))
        times = timestamps_of(batch)
        try:
            result = self._call(self._format.given(columns), KeyedBatchFunction.Context(distinct, times))
        except Exception as error:
            raise self.user_error("process_batch()", error) from error
        self.keyed.records_processed(len(columns))
        if result is None:
            return
        results = self._format.taken(result, self._schema, where)
        if len(results):
            self.emit(ColumnBatch(results, _times_of_results(times, len(results))))


def _times_of_results(times: Int64s | None, count: int) -> Sequence[int] | None:
    if times is None or len(times) == count:
        return as_timestamps(times)
    return as_timestamps(np.full(count, times.max()))
