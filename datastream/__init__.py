"""The fluent API, with PyFlink's names and import paths (`pyflink.datastream`).

Builds a stream graph and hands it to a shell; nothing here runs records.
"""

from __future__ import annotations

from ..operators.aggregations import Aggregation, Count, Max, Mean, Min, Quantile, Sum
from ..operators.base import StreamOperator
from ..operators.checkpointed import CheckpointedFunction, CheckpointListener, ListCheckpointed
from ..operators.columnar_process import KeyedBatchFunction
from ..operators.functions import (
    AggregateFunction,
    FilterFunction,
    FlatMapFunction,
    Function,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    ProcessFunction,
    ReduceFunction,
    SinkFunction,
)
from ..operators.runtime_context import RuntimeContext
from ..operators.sinks import Committer, Sink, SinkWriter
from ..operators.sources import Source, SourceReader
from ..operators.two_phase_commit import TwoPhaseCommitSink
from ..protocol.elements import CheckpointingMode, SavepointFormatType
from ..state.backend import HashMapStateBackend, StateBackend
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
    "CheckpointConfig",
    "CheckpointListener",
    "CheckpointStorage",
    "CheckpointedFunction",
    "CheckpointingMode",
    "CloseableIterator",
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
    "KeyedProcessFunction",
    "KeyedStream",
    "ListCheckpointed",
    "LmdbStateBackend",
    "MapFunction",
    "Max",
    "Mean",
    "MemoryStateBackend",
    "Min",
    "PredefinedOptions",
    "ProcessFunction",
    "Quantile",
    "ReduceFunction",
    "RuntimeContext",
    "SavepointFormatType",
    "Sink",
    "SinkFunction",
    "SinkWriter",
    "Source",
    "SourceReader",
    "StateBackend",
    "StreamExecutionEnvironment",
    "StreamOperator",
    "Sum",
    "TwoPhaseCommitSink",
]
