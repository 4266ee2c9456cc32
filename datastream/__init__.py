"""The fluent API, with PyFlink's names and import paths (`pyflink.datastream`).

Builds a stream graph and hands it to a shell; nothing here runs records.
"""

from __future__ import annotations

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
from ..protocol.elements import CheckpointingMode
from ..state.backend import HashMapStateBackend, StateBackend
from .checkpoint_config import CheckpointConfig, ExternalizedCheckpointRetention
from .data_stream import CloseableIterator, DataStream, DataStreamSink, KeyedStream
from .state_backend import EmbeddedRocksDBStateBackend, LmdbStateBackend
from .stream_execution_environment import StreamExecutionEnvironment

__all__ = [
    "AggregateFunction",
    "CheckpointConfig",
    "CheckpointingMode",
    "CloseableIterator",
    "Committer",
    "DataStream",
    "DataStreamSink",
    "EmbeddedRocksDBStateBackend",
    "ExternalizedCheckpointRetention",
    "FilterFunction",
    "FlatMapFunction",
    "Function",
    "HashMapStateBackend",
    "KeySelector",
    "KeyedProcessFunction",
    "KeyedStream",
    "LmdbStateBackend",
    "MapFunction",
    "ProcessFunction",
    "ReduceFunction",
    "RuntimeContext",
    "Sink",
    "SinkFunction",
    "SinkWriter",
    "Source",
    "SourceReader",
    "StateBackend",
    "StreamExecutionEnvironment",
]
