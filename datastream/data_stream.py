"""Streams: every call records a transformation; nothing runs before `execute`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ..common.errors import ConfigurationError
from ..common.typeinfo import TypeInformation
from ..common.watermark_strategy import WatermarkStrategy
from ..connectors.collect import CollectSink
from ..operators.aggregations import Aggregation, checked_aggregations
from ..operators.base import StreamOperator
from ..operators.batch_functions import FilterBatchesOperator, MapBatchesOperator, ToColumnsOperator
from ..operators.column_key import ColumnKey
from ..operators.columnar_aggregate import Aggregates, ColumnarAggregateOperator
from ..operators.columnar_process import KeyedBatchOperator
from ..operators.elementwise import (
    FilterOperator,
    FlatMapOperator,
    MapOperator,
    ProcessOperator,
)
from ..operators.event_time import TimestampsAndWatermarksOperator
from ..operators.functions import as_callable
from ..operators.keyed import KeyedProcessOperator, KeyedReduceOperator
from ..operators.keyed_with_state import KeyedWithStateOperator
from ..operators.sinks import Sink, SinkFunctionOperator, SinkOperator
from ..protocol.partitioning import Partitioning
from ..protocol.plan import Chaining
from .spark_settings import spark_settings
from .transformation import Input, Transformation

if TYPE_CHECKING:
    import pyarrow as pa

    from ..coordinator.job_client import JobClient
    from .stream_execution_environment import StreamExecutionEnvironment


class DataStream:
    """Records of one type on their way from one operator to the next."""

    def __init__(self, env: StreamExecutionEnvironment, inputs: list[Input]) -> None:
        self._env = env
        self._inputs = inputs

    # ------------------------------------------------------------ the operator behind the stream

    @property
    def transformation(self) -> Transformation:
        """The operator that made this stream; a union or a partitioning has none of its own."""
        if len(self._inputs) != 1 or self._inputs[0].partitioning is not None:
            raise ConfigurationError(
                "a union or a repartitioned stream has no operator of its own; set name, uid and "
                "parallelism on the operator before or after it"
            )
        return self._inputs[0].source

    def get_name(self) -> str:
        """Name of the operator."""
        return self.transformation.name

    def name(self, name: str) -> DataStream:
        """Name the operator, for people."""
        self.transformation.name = name
        return self

    def uid(self, uid: str, previously: str | Sequence[str] = ()) -> DataStream:
        """Give the operator an id under which its state is found again in checkpoints.

        Args:
            previously: Uids under which older checkpoints may hold the state, the latest first. They are
                looked for when a checkpoint without `uid` is restored.
        """
        previous = (previously,) if isinstance(previously, str) else tuple(previously)
        if not uid or not all(isinstance(old, str) and old for old in previous):
            raise ConfigurationError("a uid must not be empty")
        if uid in previous:
            raise ConfigurationError(f"the uid {uid!r} cannot be its own previous uid")
        self.transformation.uid = uid
        self.transformation.previous_uids = previous
        return self

    def set_parallelism(self, parallelism: int) -> DataStream:
        """Run the operator in so many subtasks."""
        transformation = self.transformation
        highest = transformation.highest_parallelism
        if highest is not None and parallelism > highest:
            raise ConfigurationError(
                f"operator {transformation.name!r} can only run with parallelism {highest}, not {parallelism}"
            )
        if parallelism < 1:
            raise ConfigurationError(f"the parallelism must be at least 1, got {parallelism}")
        transformation.parallelism = parallelism
        return self

    def set_max_parallelism(self, max_parallelism: int) -> DataStream:
        """Set the operator's number of key groups: the most subtasks it can ever have."""
        self.transformation.max_parallelism = max_parallelism
        return self

    def force_non_parallel(self) -> DataStream:
        """Run the operator in one subtask, for ever."""
        self.transformation.parallelism = 1
        self.transformation.highest_parallelism = 1
        return self

    def start_new_chain(self) -> DataStream:
        """Put the operator at the head of a new task."""
        self.transformation.chaining = Chaining.HEAD
        return self

    def disable_chaining(self) -> DataStream:
        """Give the operator a task of its own."""
        self.transformation.chaining = Chaining.NEVER
        return self

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        """The environment the stream belongs to."""
        return self._env

    # ------------------------------------------------------------ transformations

    def map(self, func: Any, output_type: TypeInformation | None = None) -> DataStream:
        """One record in, one out. `func` is a `MapFunction` or a callable."""
        return self._then("Map", MapOperator(_checked(func, "map")))

    def flat_map(self, func: Any, output_type: TypeInformation | None = None) -> DataStream:
        """One record in, any number out. `func` returns or yields them, or returns `None`."""
        return self._then("FlatMap", FlatMapOperator(_checked(func, "flat_map")))

    def filter(self, func: Any) -> DataStream:
        """Keep the records for which `func` is true."""
        return self._then("Filter", FilterOperator(_checked(func, "filter")))

    def process(self, func: Any, output_type: TypeInformation | None = None) -> DataStream:
        """Run a `ProcessFunction` on every record."""
        return self._then("Process", ProcessOperator(_checked(func, "process_element")))

    def assign_timestamps_and_watermarks(self, watermark_strategy: WatermarkStrategy) -> DataStream:
        """Give records their event times and the stream its watermarks; earlier watermarks end here.

        Alignment needs a source that can wait: put such a strategy into `from_source`.
        """
        if watermark_strategy.alignment is not None:
            raise ConfigurationError(
                "with_watermark_alignment() works for sources only; pass the strategy to from_source()"
            )
        return self._then("Timestamps/Watermarks", TimestampsAndWatermarksOperator(watermark_strategy))

    def key_by(self, key_selector: Any, key_type: TypeInformation | None = None) -> KeyedStream:
        """Partition by key: all records of one key meet in one subtask.

        Args:
            key_selector: A `KeySelector` or a callable; gives an int, string, bytes, bool, date, or
                a tuple of these. The name of a column keeps Arrow batches as they are.
            key_type: Type of the key; without it keys are encoded by their Python type.
        """
        if isinstance(key_selector, str):
            select: Callable[[Any], Any] = ColumnKey(key_selector, self.columns)
        else:
            _, select = as_callable(_checked(key_selector, "get_key"), "get_key")
        inputs = [Input(entry.source, Partitioning.HASH, select, entry.input_index) for entry in self._inputs]
        return KeyedStream(self._env, inputs, select, key_type)

    # ------------------------------------------------------------ columns

    @property
    def columns(self) -> pa.Schema | None:
        """Columns of the stream's Arrow batches; None when it has Python records, or they are not known."""
        found = [entry.source.columns for entry in self._inputs]
        return found[0] if all(schema == found[0] for schema in found) else None

    def to_columns(self, schema: pa.Schema) -> DataStream:
        """Turn Python records into Arrow batches.

        Args:
            schema: Tuples and lists are matched by position, dicts and rows with field names by name.
        """
        stream = self._then("ToColumns", ToColumnsOperator(schema))
        stream.transformation.columns = schema
        return stream

    def map_batches(self, func: Any, schema: pa.Schema, batch_format: str = "arrow") -> DataStream:
        """An Arrow batch in, an Arrow batch out.

        Args:
            func: Takes a `pyarrow.RecordBatch` and returns a batch or table; or an object with `map_batch`.
                With event times it must return as many records as it got.
            schema: Columns of what `func` returns; every result is checked.
            batch_format: `polars` gives and takes `polars.DataFrame`s instead.
        """
        operator = MapBatchesOperator(_checked(func, "map_batch"), schema, self.columns, batch_format)
        stream = self._then("MapBatches", operator)
        stream.transformation.columns = schema
        return stream

    def filter_batches(self, func: Any, batch_format: str = "arrow") -> DataStream:
        """Keep the records of Arrow batches that a mask names.

        Args:
            func: Takes a `pyarrow.RecordBatch` and returns one boolean for each record, where null drops
                it; or an object with `filter_batch`.
            batch_format: `polars` gives a `polars.DataFrame`, and takes a `polars.Series`.
        """
        operator = FilterBatchesOperator(_checked(func, "filter_batch"), self.columns, batch_format)
        stream = self._then("FilterBatches", operator)
        stream.transformation.columns = self.columns
        return stream

    def union(self, *streams: DataStream) -> DataStream:
        """All records of this stream and the others, in no order between them."""
        inputs = list(self._inputs)
        for stream in streams:
            if isinstance(stream, KeyedStream):
                raise ConfigurationError("union() takes streams without keys; call key_by() after it")
            inputs += stream._inputs
        return DataStream(self._env, inputs)

    def spark_stage(
        self,
        func: Callable[[Any], Any],
        schema: pa.Schema,
        input_schema: pa.Schema | None = None,
        max_epoch_records: int = 500_000,
    ) -> DataStream:
        """Run the records of every epoch through one Spark job.

        Args:
            func: Takes a Spark DataFrame of an epoch's records and returns one with the results.
            schema: Arrow schema of the results, which leave in Arrow batches, in the DataFrame's order.
            input_schema: Arrow schema of the records; needed where they are plain tuples whose columns
                should have names and fixed types.
            max_epoch_records: An epoch that grows beyond this runs without waiting for a barrier.

        Returns:
            The results, which all come before the barrier that closes their epoch.
        """
        from ..spark_bridge.source import COLOCATION_GROUP
        from ..spark_bridge.stage import SparkStageOperator

        operator = SparkStageOperator(
            func, schema, input_schema, spark_settings(self._env.configuration), max_epoch_records
        )
        stream = self._then("SparkStage", operator).force_non_parallel().disable_chaining()
        stream.transformation.colocation_group = COLOCATION_GROUP
        return stream

    def transform(
        self, name: str, operator: StreamOperator, output_type: TypeInformation | None = None
    ) -> DataStream:
        """Run an operator of your own (see `docs/operator-state.md`).

        Args:
            name: Name of the operator, for people.
            operator: Pickled to every subtask, as functions are.
            output_type: Type of what it emits.
        """
        if not isinstance(operator, StreamOperator):
            raise ConfigurationError(
                f"transform() takes a StreamOperator, not {type(operator).__name__}; for a function use "
                f"map(), flat_map() or process()"
            )
        return self._then(name, operator, stateful=True)

    # ------------------------------------------------------------ partitioning

    def forward(self) -> DataStream:
        """To the subtask with the same index."""
        return self._partitioned(Partitioning.FORWARD)

    def rebalance(self) -> DataStream:
        """Round robin over all subtasks."""
        return self._partitioned(Partitioning.REBALANCE)

    def rescale(self) -> DataStream:
        """Round robin over a local group of subtasks."""
        return self._partitioned(Partitioning.RESCALE)

    def broadcast(self) -> DataStream:
        """Every record to every subtask."""
        return self._partitioned(Partitioning.BROADCAST)

    def _partitioned(self, partitioning: Partitioning) -> DataStream:
        inputs = [Input(entry.source, partitioning) for entry in self._inputs]
        return DataStream(self._env, inputs)

    # ------------------------------------------------------------ sinks

    def add_sink(self, sink_func: Any) -> DataStreamSink:
        """End the stream in a `SinkFunction` or a callable: at least once."""
        operator = SinkFunctionOperator(_checked(sink_func, "invoke"))
        return self._end("Sink", operator)

    def sink_to(self, sink: Sink) -> DataStreamSink:
        """End the stream in a `Sink`: exactly once if it has a committer and checkpoints are on."""
        if not isinstance(sink, Sink):
            raise ConfigurationError(
                f"sink_to() takes a Sink, not {type(sink).__name__}; for a function use add_sink()"
            )
        return self._end(type(sink).__name__, SinkOperator(sink))

    def execute_and_collect(self, job_execution_name: str | None = None, limit: int | None = None) -> Any:
        """Run the job and bring this stream's records to the driver.

        Args:
            job_execution_name: Name of the job.
            limit: Stop after so many records and return them as a list.

        Returns:
            A `CloseableIterator`, or a list if `limit` is given. See `CollectSink` for the guarantee.
        """
        is_checkpointing = self._env.get_checkpoint_config().is_checkpointing_enabled()
        sink = self._end("Collect", SinkOperator(CollectSink(is_checkpointing)))
        sink.set_parallelism(1)
        client = self._env.execute_async(job_execution_name)
        iterator = CloseableIterator(client)
        if limit is None:
            return iterator
        with iterator:
            return [record for _, record in zip(range(limit), iterator)]

    # ------------------------------------------------------------ recording

    def _then(self, name: str, operator: StreamOperator, stateful: bool = False) -> DataStream:
        transformation = Transformation(name, operator, list(self._inputs), is_stateful=stateful)
        self._env.register(transformation)
        return DataStream(self._env, [Input(transformation)])

    def _end(self, name: str, operator: StreamOperator) -> DataStreamSink:
        return DataStreamSink(self._then(name, operator))


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

    def map(self, func: Any, output_type: TypeInformation | None = None) -> DataStream:
        """As on any stream; the function may use keyed state."""
        return self._keyed("Map", func, "map")

    def flat_map(self, func: Any, output_type: TypeInformation | None = None) -> DataStream:
        """As on any stream; the function may use keyed state."""
        return self._keyed("FlatMap", func, "flat_map")

    def filter(self, func: Any) -> DataStream:
        """As on any stream; the function may use keyed state."""
        return self._keyed("Filter", func, "filter")

    def process(self, func: Any, output_type: TypeInformation | None = None) -> DataStream:
        """Run a `KeyedProcessFunction` on every record."""
        return self._keyed("KeyedProcess", func, "process_element")

    def reduce(self, func: Any, output_type: TypeInformation | None = None) -> DataStream:
        """Combine the records of each key; emits the value so far for every record."""
        operator = KeyedReduceOperator(
            _checked(func, "reduce"), self._key_selector, self._key_type, output_type
        )
        return self._then("Reduce", operator, stateful=True)

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
        return self._with_state("MapWithState", func, "map_with_state", state_type)

    def flat_map_with_state(
        self,
        func: Any,
        state_type: TypeInformation | None = None,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """As `map_with_state`, but `func` returns any number of results, as an iterable or None."""
        return self._with_state("FlatMapWithState", func, "flat_map_with_state", state_type)

    def filter_with_state(self, func: Any, state_type: TypeInformation | None = None) -> DataStream:
        """As `map_with_state`, but `func` returns whether to keep the record."""
        return self._with_state("FilterWithState", func, "filter_with_state", state_type)

    def aggregate(self, **aggregations: Aggregation) -> DataStream:
        """Running aggregates of the columns of a stream that is keyed by a column.

        Args:
            aggregations: The aggregates by the names of their columns, for example
                `count=Count(), total=Sum("v")`.

        Returns:
            For each record, in Arrow batches, its key and the aggregates of that key up to it.
        """
        operator = ColumnarAggregateOperator(self.aggregates(aggregations), self._key_type)
        stream = self._then("Aggregate", operator, stateful=True)
        stream.transformation.columns = operator.output_schema
        return stream

    def aggregates(self, aggregations: dict[str, Any]) -> Aggregates:
        """What columnar aggregation needs to know; raises `ConfigurationError` if it cannot work here."""
        key = self._key_column("aggregate()")
        if self.columns is None:
            raise ConfigurationError(
                "aggregate() needs to know the columns of the stream; call to_columns(schema) before "
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
            _checked(func, "process_batch"),
            self._key_column("process_batches()"),
            schema,
            self.columns,
            self._key_type,
            batch_format,
        )
        stream = self._then("ProcessBatches", operator, stateful=True)
        stream.transformation.columns = schema
        return stream

    def _key_column(self, where: str) -> ColumnKey:
        if isinstance(self._key_selector, ColumnKey):
            return self._key_selector
        raise ConfigurationError(f"{where} needs a stream that is keyed by a column; use key_by('column')")

    def union(self, *streams: DataStream) -> DataStream:
        """Not on a keyed stream: union first, then `key_by`."""
        raise ConfigurationError("a keyed stream cannot be united; call union() before key_by()")

    def _keyed(self, name: str, func: Any, method: str) -> DataStream:
        operator = KeyedProcessOperator(_checked(func, method), self._key_selector, self._key_type, method)
        return self._then(name, operator, stateful=True)

    def _with_state(
        self, name: str, func: Any, method: str, state_type: TypeInformation | None
    ) -> DataStream:
        operator = KeyedWithStateOperator(
            _checked(func, method), method, self._key_selector, self._key_type, state_type
        )
        return self._then(name, operator, stateful=True)

    def _partitioned(self, partitioning: Partitioning) -> DataStream:
        raise ConfigurationError(
            f"a keyed stream is partitioned by its key; {partitioning.value}() cannot change that"
        )


class DataStreamSink:
    """The end of a stream."""

    def __init__(self, stream: DataStream) -> None:
        self._stream = stream

    def name(self, name: str) -> DataStreamSink:
        """Name the sink, for people."""
        self._stream.name(name)
        return self

    def uid(self, uid: str, previously: str | Sequence[str] = ()) -> DataStreamSink:
        """Give the sink an id under which its state is found again in checkpoints; see `DataStream.uid`."""
        self._stream.uid(uid, previously)
        return self

    def set_parallelism(self, parallelism: int) -> DataStreamSink:
        """Run the sink in so many subtasks."""
        self._stream.set_parallelism(parallelism)
        return self

    def disable_chaining(self) -> DataStreamSink:
        """Give the sink a task of its own."""
        self._stream.disable_chaining()
        return self


class CloseableIterator:
    """Records of a running job, as they arrive. Closing it early cancels the job."""

    def __init__(self, client: JobClient) -> None:
        self._client = client
        self._records = client.collected()

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return next(self._records)

    def next(self) -> Any:
        """The next record; raises `StopIteration` at the end."""
        return next(self._records)

    def __enter__(self) -> CloseableIterator:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the job if it still runs."""
        self._client.close()


def _checked(function: Any, method: str) -> Any:
    """Fail where the user wrote the call, not in a task."""
    try:
        as_callable(function, method)
    except TypeError as error:
        raise ConfigurationError(str(error)) from error
    return function
