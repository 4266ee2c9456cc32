"""The fluent API, with PyFlink's names and import paths (`pyflink.datastream`).

Builds a stream graph and hands it to a shell; nothing here runs records.
"""

from __future__ import annotations

from ..operators.base import StreamOperator
from ..operators.checkpointed import CheckpointedFunction, CheckpointListener, ListCheckpointed
from ..operators.functions import (
    AggregateFunction,
    CoFlatMapFunction,
    CoMapFunction,
    FilterFunction,
    FlatMapFunction,
    Function,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    NullByteKeySelector,
    Partitioner,
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
from .slot_sharing_group import MemorySize, SlotSharingGroup
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
    "CheckpointConfig",
    "CheckpointListener",
    "CheckpointStorage",
    "CheckpointedFunction",
    "CheckpointingMode",
    "CloseableIterator",
    "CoFlatMapFunction",
    "CoMapFunction",
    "Committer",
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
    "KeyedProcessFunction",
    "KeyedStream",
    "ListCheckpointed",
    "LmdbStateBackend",
    "MapFunction",
    "MemorySize",
    "MemoryStateBackend",
    "NullByteKeySelector",
    "Partitioner",
    "PredefinedOptions",
    "ProcessFunction",
    "ReduceFunction",
    "RuntimeContext",
    "SavepointFormatType",
    "Sink",
    "SinkFunction",
    "SinkWriter",
    "SlotSharingGroup",
    "Source",
    "SourceReader",
    "StateBackend",
    "StreamExecutionEnvironment",
    "StreamOperator",
    "TwoPhaseCommitSink",
]
