"""Streams: every call records a transformation; nothing runs before `execute`.

This is the module of PyFlink's `pyflink.datastream.data_stream`: the streams that are made of a `DataStream`
have files of their own and are found here, too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, overload

from ..common.errors import ConfigurationError
from ..common.execution_config import ExecutionConfig
from ..common.lazy_imports import lazy_attributes
from ..common.output_tag import OutputTag
from ..common.typeinfo import PickledBytesTypeInfo, TypeInformation
from ..common.watermark_strategy import WatermarkStrategy
from ..connectors.collect import CollectSink
from ..connectors.print_sink import PrintSink
from ..operators.base import StreamOperator
from ..operators.columnar.batch_functions import FilterBatchesOperator, MapBatchesOperator, ToColumnsOperator
from ..operators.columnar.column_key import ColumnKey
from ..operators.elementwise import (
    FilterOperator,
    FlatMapOperator,
    MapOperator,
    ProcessOperator,
)
from ..operators.event_time import TimestampsAndWatermarksOperator
from ..operators.functions import as_callable
from ..operators.sinks import Sink, SinkFunctionOperator, SinkOperator
from ..operators.windows.assigners import WindowAssigner
from ..protocol.scheduling.partitioning import Partitioning
from ..state.descriptors import MapStateDescriptor
from .closeable_iterator import CloseableIterator
from .data_stream_sink import DataStreamSink
from .function_checks import checked
from .joined_streams import CoGroupedStreams, JoinedStreams
from .projection import projection
from .spark_methods import SparkMethods
from .transformation import Input, Transformation, common_type
from .windowed_stream import AllWindowedStream, WindowedStream

if TYPE_CHECKING:
    import pyarrow as pa

    from .broadcast_stream import BroadcastConnectedStream, BroadcastStream
    from .cached_data_stream import CachedDataStream
    from .connected_streams import ConnectedStreams
    from .keyed_stream import KeyedStream
    from .stream_execution_environment import StreamExecutionEnvironment

__all__ = [
    "BroadcastConnectedStream",
    "BroadcastStream",
    "CachedDataStream",
    "CloseableIterator",
    "ConnectedStreams",
    "DataStream",
    "DataStreamSink",
    "KeyedStream",
    "WindowedStream",
]


class DataStream(SparkMethods):
    """Records of one type on their way from one operator to the next."""

    def __init__(self, env: StreamExecutionEnvironment, inputs: list[Input]) -> None:
        self._env = env
        self._inputs = inputs

    # ------------------------------------------------------------ the operator behind the stream

    @property
    def inputs(self) -> list[Input]:
        """Where the stream's records come from, for the operator that reads them."""
        return list(self._inputs)

    @property
    def transformation(self) -> Transformation:
        """The operator that made this stream; unions, partitionings and side outputs have none."""
        if len(self._inputs) != 1:
            raise self._no_operator("a union")
        entry = self._inputs[0]
        if entry.partitioning is not None:
            raise self._no_operator("a repartitioned stream")
        if entry.output_tag is not None:
            raise self._no_operator(f"the side output {entry.output_tag!r}")
        return entry.source

    @staticmethod
    def _no_operator(what: str) -> ConfigurationError:
        return ConfigurationError(
            f"{what} has no operator of its own; set name, uid and parallelism on the operator before or "
            f"after it"
        )

    def get_type(self) -> TypeInformation:
        """Type of the records: declared, or else as annotations of the user function give it.

        Records are held to a declared type. What annotations say is taken as it is. Pickled bytes stand for
        any type, where nobody said more.
        """
        hinted = common_type(entry.hinted_type for entry in self._inputs)
        return self.known_type() or hinted or PickledBytesTypeInfo()

    def known_type(self) -> TypeInformation | None:
        """Declared type of the records, `None` where there is none."""
        return common_type(entry.type_info for entry in self._inputs)

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        """The environment the stream belongs to."""
        return self._env

    def get_execution_config(self) -> ExecutionConfig:
        """Execution settings of the environment."""
        return self._env.get_config()

    # ------------------------------------------------------------ transformations

    def map(self, func: Any, output_type: TypeInformation | None = None) -> DataStream:
        """One record in, one out. `func` is a `MapFunction` or a callable."""
        return self._then("Map", MapOperator(checked(func, "map")), output_type)

    def flat_map(self, func: Any, output_type: TypeInformation | None = None) -> DataStream:
        """One record in, any number out. `func` returns or yields them, or returns `None`."""
        return self._then("FlatMap", FlatMapOperator(checked(func, "flat_map")), output_type)

    def filter(self, func: Any) -> DataStream:
        """Keep the records for which `func` is true."""
        return self._then("Filter", FilterOperator(checked(func, "filter")), self.known_type())

    def process(self, func: Any, output_type: TypeInformation | None = None) -> DataStream:
        """Run a `ProcessFunction` on every record."""
        return self._then("Process", ProcessOperator(checked(func, "process_element")), output_type)

    def assign_timestamps_and_watermarks(self, watermark_strategy: WatermarkStrategy) -> DataStream:
        """Give records their event times and the stream its watermarks; earlier watermarks end here.

        Alignment needs a source that can wait: put such a strategy into `from_source`.
        """
        if watermark_strategy.alignment is not None:
            raise ConfigurationError(
                "with_watermark_alignment() works for sources only; pass the strategy to from_source()"
            )
        operator = TimestampsAndWatermarksOperator(watermark_strategy)
        stream = self._then("Timestamps/Watermarks", operator, self.known_type())
        stream.transformation.columns = self.columns
        return stream

    def key_by(self, key_selector: Any, key_type: TypeInformation | None = None) -> KeyedStream:
        """Partition by key: all records of one key meet in one subtask.

        Args:
            key_selector: A `KeySelector` or a callable; gives an int, string, bytes, bool, date, or
                a tuple or list of these; a list becomes a tuple. The name of a column keeps Arrow batches
                as they are.
            key_type: Type of the key; a key of another type fails the job. Without it, keys are encoded
                by their Python type.

        Raises:
            KeyTypeError: The column does not have the declared type.
        """
        from .keyed_stream import KeyedStream

        if isinstance(key_selector, str):
            select: Callable[[Any], Any] = ColumnKey(key_selector, self.columns, key_type)
        else:
            _, select = as_callable(checked(key_selector, "get_key"), "get_key")
        inputs = [
            replace(entry, partitioning=Partitioning.HASH, key_selector=select, partitioner=None)
            for entry in self._inputs
        ]
        return KeyedStream(self._env, inputs, select, key_type)

    def window_all(self, window_assigner: WindowAssigner[Any, Any]) -> AllWindowedStream:
        """Put all records into windows, in one subtask."""
        return AllWindowedStream(self, window_assigner)

    def join(self, other: DataStream) -> JoinedStreams:
        """Pair records of two streams that have one key and fall into one window (Flink's, not PyFlink's)."""
        return JoinedStreams(self, other)

    def co_group(self, other: DataStream) -> CoGroupedStreams:
        """Bring the records of two streams with one key and window together (Flink's, not PyFlink's)."""
        return CoGroupedStreams(self, other)

    def union(self, *streams: DataStream) -> DataStream:
        """All records of this stream and the others, in no order between them. A union has no key."""
        inputs = list(self._inputs)
        for stream in streams:
            if not isinstance(stream, DataStream):
                raise ConfigurationError(f"union() takes streams, not {type(stream).__name__}")
            self._check_type_of(stream)
            inputs += stream._inputs
        return DataStream(self._env, inputs)

    def _check_type_of(self, other: DataStream) -> None:
        mine, theirs = self.known_type(), other.known_type()
        if mine is not None and theirs is not None and mine != theirs:
            raise ConfigurationError(
                f"a union of different types: {self._inputs[0].source} gives {mine!r}, "
                f"{other._inputs[0].source} gives {theirs!r}; map() one of them to the type of the other"
            )

    # ------------------------------------------------------------ columns

    @property
    def columns(self) -> pa.Schema | None:
        """Columns of the stream's Arrow batches; None when it has Python records, or they are not known."""
        found = [None if entry.output_tag else entry.source.columns for entry in self._inputs]
        return found[0] if all(schema == found[0] for schema in found) else None

    def to_columns(self, schema: pa.Schema) -> DataStream:
        """Turn Python records into Arrow batches.

        Args:
            schema: Tuples and lists are matched by position, dicts and rows with field names by name.
        """
        return self._then_columns("ToColumns", ToColumnsOperator(schema), schema)

    def map_batches(self, func: Any, schema: pa.Schema, batch_format: str = "arrow") -> DataStream:
        """An Arrow batch in, an Arrow batch out.

        Args:
            func: Takes a `pyarrow.RecordBatch` and returns a batch or table; or an object with `map_batch`.
                With event times it must return as many records as it got.
            schema: Columns of what `func` returns; every result is checked.
            batch_format: `polars` gives and takes `polars.DataFrame`s instead.
        """
        operator = MapBatchesOperator(checked(func, "map_batch"), schema, self.columns, batch_format)
        return self._then_columns("MapBatches", operator, schema)

    def filter_batches(self, func: Any, batch_format: str = "arrow") -> DataStream:
        """Keep the records of Arrow batches that a mask names.

        Args:
            func: Takes a `pyarrow.RecordBatch` and returns one boolean for each record, where null drops
                it; or an object with `filter_batch`.
            batch_format: `polars` gives a `polars.DataFrame`, and takes a `polars.Series`.
        """
        operator = FilterBatchesOperator(checked(func, "filter_batch"), self.columns, batch_format)
        return self._then_columns("FilterBatches", operator, self.columns)

    def _then_columns(
        self, name: str, operator: StreamOperator, schema: pa.Schema | None, stateful: bool = False
    ) -> DataStream:
        stream = self._then(name, operator, stateful=stateful)
        stream.transformation.columns = schema
        return stream

    def project(self, *field_indexes: int) -> DataStream:
        """Keep some fields of tuples or rows, as tuples.

        Args:
            field_indexes: Positions of the fields to keep, in the order they are wanted.
        """
        pick, output_type = projection(field_indexes, self.known_type())
        return self._then("Projection", MapOperator(pick), output_type)

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
        return self._then(name, operator, output_type, stateful=True)

    # ------------------------------------------------------------ partitioning

    def forward(self) -> DataStream:
        """To the subtask with the same index."""
        return self.partitioned(Partitioning.FORWARD)

    def rebalance(self) -> DataStream:
        """Round robin over all subtasks."""
        return self.partitioned(Partitioning.REBALANCE)

    def rescale(self) -> DataStream:
        """Round robin over a local group of subtasks."""
        return self.partitioned(Partitioning.RESCALE)

    def shuffle(self) -> DataStream:
        """Each record to a subtask drawn at random."""
        return self.partitioned(Partitioning.SHUFFLE)

    def global_(self) -> DataStream:
        """Every record to the first subtask (Flink's `global`)."""
        return self.partitioned(Partitioning.GLOBAL)

    @overload
    def broadcast(self) -> DataStream: ...
    @overload
    def broadcast(
        self,
        broadcast_state_descriptor: MapStateDescriptor,
        *other_broadcast_state_descriptors: MapStateDescriptor,
    ) -> BroadcastStream: ...
    def broadcast(
        self,
        broadcast_state_descriptor: MapStateDescriptor | None = None,
        *other_broadcast_state_descriptors: MapStateDescriptor,
    ) -> DataStream | BroadcastStream:
        """Every record to every subtask.

        Args:
            broadcast_state_descriptor: A map that the records may change in the function that reads them,
                see `docs/guide/broadcast-state.md`. Without one this is a partitioning.
            other_broadcast_state_descriptors: Further ones.
        """
        if broadcast_state_descriptor is None:
            return self.partitioned(Partitioning.BROADCAST)
        from .broadcast_stream import BroadcastStream

        spread = self.partitioned(Partitioning.BROADCAST)
        return BroadcastStream(spread, (broadcast_state_descriptor, *other_broadcast_state_descriptors))

    @overload
    def connect(self, ds: DataStream) -> ConnectedStreams: ...
    @overload
    def connect(self, ds: BroadcastStream) -> BroadcastConnectedStream: ...
    def connect(self, ds: DataStream | BroadcastStream) -> ConnectedStreams | BroadcastConnectedStream:
        """Let one operator read this stream and another; their types may differ.

        Args:
            ds: A stream, or a broadcast stream.
        """
        from .broadcast_stream import BroadcastConnectedStream, BroadcastStream
        from .connected_streams import ConnectedStreams

        if isinstance(ds, BroadcastStream):
            return BroadcastConnectedStream(self, ds, ds.broadcast_state_descriptors)
        if not isinstance(ds, DataStream):
            raise ConfigurationError(
                f"connect() takes a stream or a broadcast stream, not {type(ds).__name__}"
            )
        return ConnectedStreams(self, ds)

    def get_side_output(self, output_tag: OutputTag) -> DataStream:
        """What the operator of this stream sends to a side output, with `yield tag, value`.

        Args:
            output_tag: Names the side output. One that is never sent to is an empty stream.

        Raises:
            ConfigurationError: The stream has no operator of its own, or the side output was asked for with
                another type.
        """
        if not isinstance(output_tag, OutputTag):
            raise ConfigurationError(f"get_side_output() takes an OutputTag, not {type(output_tag).__name__}")
        transformation = self.transformation
        tag_id, type_info = output_tag.tag_id, output_tag.type_info
        known = transformation.side_outputs.get(tag_id) or type_info
        transformation.side_outputs[tag_id] = known
        if type_info is not None and known != type_info:
            raise ConfigurationError(
                f"{transformation}: the side output {tag_id!r} was asked for with the type {known!r} and now "
                f"with {type_info!r}; use one OutputTag for it"
            )
        return DataStream(self._env, [Input(transformation, output_tag=tag_id)])

    def partition_custom(self, partitioner: Any, key_selector: Any) -> DataStream:
        """Each record to the subtask that `partitioner` names for its key.

        Args:
            partitioner: A `Partitioner` or a callable: takes a key and the number of subtasks, returns
                the index of one, from 0.
            key_selector: A `KeySelector` or a callable; the key may be of any type.
        """
        _, choose = as_callable(checked(partitioner, "partition"), "partition")
        _, select = as_callable(checked(key_selector, "get_key"), "get_key")
        return self.partitioned(Partitioning.CUSTOM, select, choose)

    def partitioned(
        self, partitioning: Partitioning, key_selector: object = None, partitioner: object = None
    ) -> DataStream:
        """The same records spread in another way; `broadcast`, `rebalance` and so on call it."""
        inputs = [
            replace(entry, partitioning=partitioning, key_selector=key_selector, partitioner=partitioner)
            for entry in self._inputs
        ]
        return DataStream(self._env, inputs)

    def cache(self) -> CachedDataStream:
        """Keep the records for later jobs of this environment; in batch mode only.

        The first job that needs them writes them to `tidegate.cache.dir`. Once it has finished, later
        jobs start from there, until `invalidate()` or the environment's `close()`.
        """
        from .cached_data_stream import CachedDataStream, cache_of

        cache = cache_of(self)
        self._env.register_cache(cache)
        return CachedDataStream(self._env, cache)

    # ------------------------------------------------------------ sinks

    def add_sink(self, sink_func: Any) -> DataStreamSink:
        """End the stream in a `SinkFunction` or a callable: at least once. A `Sink` goes to `sink_to`."""
        if isinstance(sink_func, Sink):
            return self.sink_to(sink_func)
        operator = SinkFunctionOperator(checked(sink_func, "invoke"))
        return self._end("Sink", operator)

    def sink_to(self, sink: Sink) -> DataStreamSink:
        """End the stream in a `Sink`: exactly once if it has a committer and checkpoints are on."""
        if not isinstance(sink, Sink):
            raise ConfigurationError(
                f"sink_to() takes a Sink, not {type(sink).__name__}; for a function use add_sink()"
            )
        return self._end(type(sink).__name__, SinkOperator(sink))

    def print(self, sink_identifier: str | None = None) -> DataStreamSink:
        """Print every record on a line of the standard output of its process, as Flink prints its type.

        Args:
            sink_identifier: Put before each record, as `identifier> `. With several subtasks, the number
                of the subtask, from 1, follows it: `identifier:2> `.
        """
        sink = PrintSink(sink_identifier or "", self.known_type())
        return self._end("Print to Std. Out", SinkOperator(sink))

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

    def _then(
        self,
        name: str,
        operator: StreamOperator,
        output_type: TypeInformation | None = None,
        stateful: bool = False,
    ) -> DataStream:
        transformation = Transformation(
            name, operator, list(self._inputs), output_type=output_type, is_stateful=stateful
        )
        self._env.register(transformation)
        return DataStream(self._env, [Input(transformation)])

    def _end(self, name: str, operator: StreamOperator) -> DataStreamSink:
        transformation = self._then(name, operator).transformation
        transformation.is_sink = True
        return DataStreamSink(self._env, transformation)


# They extend this module, so that they cannot be imported before it.
__getattr__ = lazy_attributes(
    __name__,
    {
        ".broadcast_stream": ("BroadcastConnectedStream", "BroadcastStream"),
        ".cached_data_stream": ("CachedDataStream",),
        ".connected_streams": ("ConnectedStreams",),
        ".keyed_stream": ("KeyedStream",),
    },
)
