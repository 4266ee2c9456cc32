"""Streams partitioned by key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..common.errors import ConfigurationError
from ..common.typeinfo import TypeInformation
from ..common.types import Row
from ..operators.columnar.aggregate_functions import Aggregation, checked_aggregations
from ..operators.columnar.column_key import ColumnKey
from ..operators.columnar.columnar_aggregate import Aggregates, ColumnarAggregateOperator
from ..operators.columnar.columnar_process import KeyedBatchOperator
from ..operators.keyed.keyed import KeyedProcessOperator, KeyedReduceOperator
from ..operators.keyed.keyed_with_state import KeyedWithStateOperator
from ..operators.keyed.rolling_aggregates import (
    Field,
    FieldReducer,
    MaxBy,
    MaxOf,
    MinBy,
    MinOf,
    SumOf,
)
from ..operators.windows.assigners import WindowAssigner
from ..operators.windows.count_assigners import CountSlidingWindowAssigner, CountTumblingWindowAssigner
from ..protocol.scheduling.partitioning import Partitioning
from .data_stream import DataStream
from .function_checks import checked
from .joined_streams import IntervalJoin
from .transformation import Input, Transformation
from .windowed_stream import WindowedStream

if TYPE_CHECKING:
    import pyarrow as pa

    from .stream_execution_environment import StreamExecutionEnvironment


class KeyedStream(DataStream):
    """A stream partitioned by key; its functions may use keyed state."""

    def __init__(
        self,
        env: StreamExecutionEnvironment,
        inputs: list[Input],
        key_selector: Callable[[Any], Any],
        key_type: TypeInformation | None,
    ) -> None:
        super().__init__(env, inputs)
        self._key_selector = key_selector
        self._key_type = key_type

    @property
    def key_selector(self) -> Callable[[Any], Any]:
        """Gives the key of a record."""
        return self._key_selector

    @property
    def key_type(self) -> TypeInformation | None:
        """Declared type of the key, if any."""
        return self._key_type

    @property
    def transformation(self) -> Transformation:
        """A keyed stream has no operator of its own."""
        raise self._no_operator("a keyed stream")

    # ------------------------------------------------------------ transformations

    def map(self, func: Any, output_type: TypeInformation | None = None) -> DataStream:
        """As on any stream; the function may use keyed state."""
        return self._keyed("Map", func, "map", output_type)

    def flat_map(self, func: Any, output_type: TypeInformation | None = None) -> DataStream:
        """As on any stream; the function may use keyed state."""
        return self._keyed("FlatMap", func, "flat_map", output_type)

    def filter(self, func: Any) -> DataStream:
        """As on any stream; the function may use keyed state."""
        return self._keyed("Filter", func, "filter", self.known_type())

    def process(self, func: Any, output_type: TypeInformation | None = None) -> DataStream:
        """Run a `KeyedProcessFunction` on every record."""
        return self._keyed("KeyedProcess", func, "process_element", output_type)

    def reduce(self, func: Any, output_type: TypeInformation | None = None) -> DataStream:
        """Combine the records of each key.

        Emits the value so far for every record; in batch mode the final value of every key.

        Args:
            func: A `ReduceFunction` or a callable of two records; gives one of the same type.
            output_type: Type of the records in the state; without it they are pickled.
        """
        return self._reduce("Reduce", checked(func, "reduce"), output_type)

    def _reduce(self, name: str, func: Any, state_type: TypeInformation | None = None) -> DataStream:
        operator = KeyedReduceOperator(func, self._key_selector, self._key_type, state_type)
        return self._then(name, operator, state_type or self.known_type(), stateful=True)

    def execute_and_collect(self, job_execution_name: str | None = None, limit: int | None = None) -> Any:
        """As on any stream; each record comes as `Row(f0=key, f1=record)`, as in PyFlink."""
        records = [replace(entry, partitioning=None, key_selector=None) for entry in self._inputs]
        pairs = DataStream(self._env, records).map(KeyWithRecord(self._key_selector))
        # One subtask, as the sink that collects: the records stay in their order.
        pairs.name("Keyed Values").set_parallelism(1)
        return pairs.execute_and_collect(job_execution_name, limit)

    # ------------------------------------------------------------ aggregates of one field

    def sum(self, position_to_sum: Field = 0) -> DataStream:
        """The sum of one field per key, in the first record of the key; emitted as `reduce` does.

        None is left out. Integer sums of Python records have no bound.

        Args:
            position_to_sum: Position of the field, or its name. A record that is itself a number has the
                one field 0.
        """
        return self._aggregate(SumOf(self._position(position_to_sum)))

    def min(self, position_to_min: Field = 0) -> DataStream:
        """The least value of one field per key, in the first record of the key; emitted as `reduce` does.

        None and NaN are left out, also by `max`, `min_by` and `max_by`.
        """
        return self._aggregate(MinOf(self._position(position_to_min)))

    def max(self, position_to_max: Field = 0) -> DataStream:
        """The greatest value of one field per key, in the first record of the key."""
        return self._aggregate(MaxOf(self._position(position_to_max)))

    def min_by(self, position_to_min_by: Field = 0) -> DataStream:
        """The record of each key whose field is least, the first of several; emitted as `reduce` does."""
        return self._aggregate(MinBy(position_to_min_by))

    def max_by(self, position_to_max_by: Field = 0) -> DataStream:
        """The record of each key whose field is greatest, the first of several."""
        return self._aggregate(MaxBy(position_to_max_by))

    def _position(self, field: Field) -> Field:
        """The position of a column, where columns have names; other fields are found by each record's own."""
        names: list[str] = [] if self.columns is None else self.columns.names
        return names.index(field) if isinstance(field, str) and field in names else field

    def _aggregate(self, function: FieldReducer) -> DataStream:
        return self._reduce(function.name, function)

    # ------------------------------------------------------------ windows

    def window(self, window_assigner: WindowAssigner[Any, Any]) -> WindowedStream:
        """Put the records of each key into windows."""
        return WindowedStream(self, window_assigner)

    def count_window(self, size: int, slide: int = 0) -> WindowedStream:
        """Windows of `size` records of a key, one every `slide` records; 0: one after the other.

        A window that never gets its `size` records never fires.
        """
        if slide == 0:
            return WindowedStream(self, CountTumblingWindowAssigner(size))
        return WindowedStream(self, CountSlidingWindowAssigner(size, slide))

    def interval_join(self, other: KeyedStream) -> IntervalJoin:
        """Pair records of one key whose event times are close to each other (Flink's, not PyFlink's)."""
        return IntervalJoin(self, other)

    # ------------------------------------------------------------ columns

    def aggregate(self, **aggregations: Aggregation) -> DataStream:
        """Running aggregates of the columns of a stream that is keyed by a column.

        Args:
            aggregations: The aggregates by the names of their columns, for example
                `count=Count(), total=Sum("v")`.

        Returns:
            For each record, in Arrow batches, its key and the aggregates of that key up to it.
        """
        operator = ColumnarAggregateOperator(self.aggregates(aggregations), self._key_type)
        return self._then_columns("Aggregate", operator, operator.output_schema, stateful=True)

    def aggregates(self, aggregations: dict[str, Any]) -> Aggregates:
        """What columnar aggregation needs to know; raises `ConfigurationError` if it cannot work here."""
        key = self._key_column("aggregate()")
        if self.columns is None:
            raise ConfigurationError(
                f"aggregate() needs to know the columns of the stream; call to_columns(schema) before "
                f"key_by({key.column!r})"
            )
        return Aggregates(key, checked_aggregations(aggregations, key.column, "aggregate()"), self.columns)

    def process_batches(self, func: Any, schema: pa.Schema, batch_format: str = "arrow") -> DataStream:
        """Run a `KeyedBatchFunction` on whole Arrow batches, with the state of all their keys at once.

        Args:
            func: The function, or a callable `(batch, ctx)`.
            schema: Columns of what it returns; every result is checked.
            batch_format: `polars` gives and takes `polars.DataFrame`s instead.
        """
        operator = KeyedBatchOperator(
            checked(func, "process_batch"),
            self._key_column("process_batches()"),
            schema,
            self.columns,
            self._key_type,
            batch_format,
        )
        return self._then_columns("ProcessBatches", operator, schema, stateful=True)

    def _key_column(self, where: str) -> ColumnKey:
        if isinstance(self._key_selector, ColumnKey):
            return self._key_selector
        raise ConfigurationError(f"{where} needs a stream that is keyed by a column; use key_by('column')")

    # ------------------------------------------------------------ functions with a state

    def map_with_state(
        self,
        func: Any,
        state_type: TypeInformation | None = None,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """One record in, one out, with a state per key.

        Args:
            func: Takes `(value, state)`, where the state is None for a new key, and returns
                `(result, state)`; a state of None clears it. Or an object with `map_with_state`.
            state_type: Type of the state; without it the state is pickled.
            output_type: Type of the results.
        """
        return self._with_state("MapWithState", func, "map_with_state", state_type, output_type)

    def flat_map_with_state(
        self,
        func: Any,
        state_type: TypeInformation | None = None,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """As `map_with_state`, but `func` returns any number of results, as an iterable or None."""
        return self._with_state("FlatMapWithState", func, "flat_map_with_state", state_type, output_type)

    def filter_with_state(self, func: Any, state_type: TypeInformation | None = None) -> DataStream:
        """As `map_with_state`, but `func` returns whether to keep the record."""
        type_info = self.known_type()
        return self._with_state("FilterWithState", func, "filter_with_state", state_type, type_info)

    def _keyed(self, name: str, func: Any, method: str, output_type: TypeInformation | None) -> DataStream:
        operator = KeyedProcessOperator(checked(func, method), self._key_selector, self._key_type, method)
        return self._then(name, operator, output_type, stateful=True)

    def _with_state(
        self,
        name: str,
        func: Any,
        method: str,
        state_type: TypeInformation | None,
        output_type: TypeInformation | None,
    ) -> DataStream:
        operator = KeyedWithStateOperator(
            checked(func, method), method, self._key_selector, self._key_type, state_type
        )
        return self._then(name, operator, output_type, stateful=True)

    def partitioned(
        self, partitioning: Partitioning, key_selector: object = None, partitioner: object = None
    ) -> DataStream:
        raise ConfigurationError(
            f"a keyed stream is partitioned by its key; {partitioning.value}() cannot change that. "
            f"Repartition the stream before key_by(), or what an operator makes of the keyed stream"
        )


class KeyWithRecord:
    """Makes a row of a record's key and the record."""

    def __init__(self, key_selector: Callable[[Any], Any]) -> None:
        self._key_selector = key_selector

    def __call__(self, value: Any) -> Row:
        return Row(f0=self._key_selector(value), f1=value)
