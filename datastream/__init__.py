"""The fluent API, with PyFlink's names and import paths (`pyflink.datastream`).

Builds a stream graph and hands it to a shell; nothing here runs records.
"""

from __future__ import annotations

from ..common.output_tag import OutputTag
from ..operators.aggregations import Aggregation, Count, Max, Mean, Min, Quantile, Sum
from ..operators.async_function import AsyncFunction, AsyncRetryPredicate, AsyncRetryStrategy
from ..operators.base import StreamOperator
from ..operators.checkpointed import CheckpointedFunction, CheckpointListener, ListCheckpointed
from ..operators.columnar_process import KeyedBatchFunction
from ..operators.enumerators import Boundedness, SplitEnumerator, SplitEnumeratorContext
from ..operators.functions import (
    AggregateFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    FilterFunction,
    FlatMapFunction,
    Function,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    ProcessFunction,
    ReduceFunction,
    RichFunction,
    RichSinkFunction,
    SinkFunction,
)
from ..operators.runtime_context import RuntimeContext
from ..operators.sinks import Committer, Sink, SinkWriter
from ..operators.source_context import SourceContext
from ..operators.source_function import (
    ParallelSourceFunction,
    RichParallelSourceFunction,
    RichSourceFunction,
    SourceFunction,
)
from ..operators.sources import Source, SourceReader
from ..operators.timer_service import TimeDomain, TimerService
from ..operators.two_phase_commit import TwoPhaseCommitSink
from ..protocol.elements import CheckpointingMode, SavepointFormatType
from ..state.backend import HashMapStateBackend, StateBackend
from .async_data_stream import AsyncDataStream
from .checkpoint_config import CheckpointConfig, ExternalizedCheckpointRetention
from .checkpoint_storage import (
    CheckpointStorage,
    FileSystemCheckpointStorage,
    JobManagerCheckpointStorage,
)
from .data_stream import CloseableIterator, DataStream, DataStreamSink, KeyedStream
from .state_backend import (
    EmbeddedRocksDBStateBackend,
    FileSystemStateBackend,
    LmdbStateBackend,
    MemoryStateBackend,
    PredefinedOptions,
)
from .stream_execution_environment import StreamExecutionEnvironment

__all__ = [
    "AggregateFunction",
    "Aggregation",
    "AsyncDataStream",
    "AsyncFunction",
    "AsyncRetryPredicate",
    "AsyncRetryStrategy",
    "Boundedness",
    "CheckpointConfig",
    "CheckpointListener",
    "CheckpointStorage",
    "CheckpointedFunction",
    "CheckpointingMode",
    "CloseableIterator",
    "CoFlatMapFunction",
    "CoMapFunction",
    "CoProcessFunction",
    "Committer",
    "Count",
    "DataStream",
    "DataStreamSink",
    "EmbeddedRocksDBStateBackend",
    "ExternalizedCheckpointRetention",
    "FileSystemCheckpointStorage",
    "FileSystemStateBackend",
    "FilterFunction",
    "FlatMapFunction",
    "Function",
    "HashMapStateBackend",
    "JobManagerCheckpointStorage",
    "KeySelector",
    "KeyedBatchFunction",
    "KeyedCoProcessFunction",
    "KeyedProcessFunction",
    "KeyedStream",
    "ListCheckpointed",
    "LmdbStateBackend",
    "MapFunction",
    "Max",
    "Mean",
    "MemoryStateBackend",
    "Min",
    "OutputTag",
    "ParallelSourceFunction",
    "PredefinedOptions",
    "ProcessFunction",
    "Quantile",
    "ReduceFunction",
    "RichFunction",
    "RichParallelSourceFunction",
    "RichSinkFunction",
    "RichSourceFunction",
    "RuntimeContext",
    "SavepointFormatType",
    "Sink",
    "SinkFunction",
    "SinkWriter",
    "Source",
    "SourceContext",
    "SourceFunction",
    "SourceReader",
    "SplitEnumerator",
    "SplitEnumeratorContext",
    "StateBackend",
    "StreamExecutionEnvironment",
    "StreamOperator",
    "Sum",
    "TimeDomain",
    "TimerService",
    "TwoPhaseCommitSink",
]
