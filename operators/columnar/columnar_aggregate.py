"""Running aggregates per key over Arrow batches: one result for each record."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from ...common.errors import ConfigurationError, TidegateError, UserCodeError
from ...common.typeinfo import TypeInformation
from ...protocol.checkpoints.handles import OperatorSnapshot
from ...protocol.elements import Batch, CheckpointBarrier, ColumnBatch
from ...state.backend import KeyedStateBackend
from ..base import FrozenOperator, OperatorContext, StreamOperator
from ..output import Output
from .aggregate_functions import Aggregation, Fold
from .aggregate_state import BatchFolds, FoldStates, result_column
from .column_key import ColumnKey
from .columns import as_columns, as_timestamps, timestamps_of
from .fold_cache import FoldCache
from .grouping import MAX_ROWS, Grouping


class Aggregates:
    """What a keyed aggregation computes of the columns of a stream.

    Args:
        key: The key column.
        aggregations: The aggregates by the names of their columns.
        schema: Columns of the stream.

    Raises:
        ConfigurationError: A column is missing, or of a type that an aggregation cannot take.
    """

    def __init__(self, key: ColumnKey, aggregations: Mapping[str, Aggregation], schema: pa.Schema) -> None:
        for name, aggregation in aggregations.items():
            aggregation.check(schema, f"aggregate({name}=…)", ConfigurationError)
        self.key = key
        self.aggregations = dict(aggregations)
        self.schema = schema
        self.fields = [
            pa.field(name, aggregation.output_type(schema)) for name, aggregation in aggregations.items()
        ]

    @property
    def key_field(self) -> pa.Field:
        """The key column of the results."""
        return pa.field(self.key.column, self.schema.field(self.key.column).type)

    def folds(self) -> list[Fold]:
        """What must be kept per key."""
        return [fold for each in self.aggregations.values() for fold in each.folds(self.schema)]


class FoldingOperator(StreamOperator):
    """An operator whose keyed state is what aggregates keep.

    Args:
        aggregates: What is computed.
        folds: What is kept for that.
        key_type: Declared type of the key, if any.
    """

    keyed: KeyedStateBackend

    def __init__(self, aggregates: Aggregates, folds: list[Fold], key_type: TypeInformation | None) -> None:
        self._aggregates = aggregates
        self._key_type = key_type
        self._states = FoldStates(folds)

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._where = f"operator {context.name_with_subtask}"
        self.keyed = context.create_keyed_backend(self._key_type)

    def restore(self, snapshot: OperatorSnapshot, owned: bool) -> None:
        self._states.check_restored(snapshot.keyed, self._where)
        super().restore(snapshot, owned)


class ColumnarAggregateOperator(FoldingOperator):
    """Running aggregates: for each record its key, and the aggregates of that key up to it.

    Args:
        aggregates: What is computed.
        key_type: Declared type of the key, if any.
    """

    def __init__(self, aggregates: Aggregates, key_type: TypeInformation | None = None) -> None:
        super().__init__(aggregates, aggregates.folds(), key_type)
        self.output_schema = pa.schema([aggregates.key_field, *aggregates.fields])

    def open(self) -> None:
        self._states.open(self.keyed)
        self._cache = FoldCache(self._states, self._aggregates.key_field.type)

    def snapshot_state(self, barrier: CheckpointBarrier) -> FrozenOperator:
        self._cache.flush()
        return super().snapshot_state(barrier)

    def process_batch(self, batch: Batch, input_index: int) -> None:
        columns = as_columns(batch, self._aggregates.schema, self._where)
        times = timestamps_of(batch)
        for start in range(0, len(columns), MAX_ROWS):
            part = columns.slice(start, MAX_ROWS)
            results = self._processed(part)
            self.keyed.records_processed(len(part))
            part_times = None if times is None else times[start : start + MAX_ROWS]
            self.emit(ColumnBatch(results, as_timestamps(part_times)))

    def _processed(self, columns: pa.RecordBatch) -> pa.RecordBatch:
        aggregates = self._aggregates
        key_column = aggregates.key.column_of(columns, self._where)
        cache, states = self._cache, self._states
        grouping = Grouping(cache.slots_of(key_column))
        keys = cache.keys_of(grouping.codes) if states.sketches else []
        sketches = states.load_sketches(keys)
        folds = BatchFolds(grouping, columns, cache.folds_of(grouping), sketches)
        results = [key_column]
        try:
            for field, aggregation in zip(aggregates.fields, aggregates.aggregations.values(), strict=True):
                values, valid = folds.result(aggregation, aggregates.schema)
                valid = None if valid is None else grouping.in_order(valid)
                results.append(result_column(grouping.in_order(values), valid, field.type))
        except TidegateError as error:
            raise UserCodeError(f"{self._where}: {error}") from error
        cache.replace(grouping, folds.after())
        folds.finish_sketches()
        states.store_sketches(keys, sketches)
        return pa.RecordBatch.from_arrays(results, schema=self.output_schema)
