"""The fluent API, with PyFlink's names and import paths (`pyflink.datastream`).

Builds a stream graph and hands it to a shell; nothing here runs records.
"""

from __future__ import annotations

from ..common.output_tag import OutputTag
from ..operators.async_function import AsyncFunction, AsyncRetryPredicate, AsyncRetryStrategy
from ..operators.base import StreamOperator
from ..operators.broadcast_functions import (
    BaseBroadcastProcessFunction,
    BroadcastProcessFunction,
    KeyedBroadcastProcessFunction,
)
from ..operators.checkpointed import CheckpointedFunction, CheckpointListener, ListCheckpointed
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
    NullByteKeySelector,
    Partitioner,
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
from ..operators.window_functions import (
    AllWindowFunction,
    CoGroupFunction,
    FlatJoinFunction,
    JoinFunction,
    ProcessAllWindowFunction,
    ProcessJoinFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from ..operators.windows.assigners import MergingWindowAssigner, WindowAssigner
from ..operators.windows.triggers import Trigger, TriggerResult
from ..operators.windows.windows import CountWindow, GlobalWindow, TimeWindow, Window
from ..protocol.elements import CheckpointingMode, SavepointFormatType
from ..state.backend import HashMapStateBackend, StateBackend
from .async_data_stream import AsyncDataStream
from .checkpoint_config import CheckpointConfig, ExternalizedCheckpointRetention
from .checkpoint_storage import (
    CheckpointStorage,
    FileSystemCheckpointStorage,
    JobManagerCheckpointStorage,
)
from .data_stream import (
    BroadcastConnectedStream,
    BroadcastStream,
    CloseableIterator,
    ConnectedStreams,
    DataStream,
    DataStreamSink,
    KeyedStream,
    WindowedStream,
)
from .execution_mode import RuntimeExecutionMode
from .slot_sharing_group import MemorySize, SlotSharingGroup
from .state_backend import (
    EmbeddedRocksDBStateBackend,
    FileSystemStateBackend,
    LmdbStateBackend,
    MemoryStateBackend,
    PredefinedOptions,
)
from .stream_execution_environment import StreamExecutionEnvironment
from .windowed_stream import AllWindowedStream

__all__ = [
    "AggregateFunction",
    "AllWindowFunction",
    "AllWindowedStream",
    "AsyncDataStream",
    "AsyncFunction",
    "AsyncRetryPredicate",
    "AsyncRetryStrategy",
    "BaseBroadcastProcessFunction",
    "Boundedness",
    "BroadcastConnectedStream",
    "BroadcastProcessFunction",
    "BroadcastStream",
    "CheckpointConfig",
    "CheckpointListener",
    "CheckpointStorage",
    "CheckpointedFunction",
    "CheckpointingMode",
    "CloseableIterator",
    "CoFlatMapFunction",
    "CoGroupFunction",
    "CoMapFunction",
    "CoProcessFunction",
    "Committer",
    "ConnectedStreams",
    "CountWindow",
    "DataStream",
    "DataStreamSink",
    "EmbeddedRocksDBStateBackend",
    "ExternalizedCheckpointRetention",
    "FileSystemCheckpointStorage",
    "FileSystemStateBackend",
    "FilterFunction",
    "FlatJoinFunction",
    "FlatMapFunction",
    "Function",
    "GlobalWindow",
    "HashMapStateBackend",
    "JobManagerCheckpointStorage",
    "JoinFunction",
    "KeySelector",
    "KeyedBroadcastProcessFunction",
    "KeyedCoProcessFunction",
    "KeyedProcessFunction",
    "KeyedStream",
    "ListCheckpointed",
    "LmdbStateBackend",
    "MapFunction",
    "MemorySize",
    "MemoryStateBackend",
    "MergingWindowAssigner",
    "NullByteKeySelector",
    "OutputTag",
    "ParallelSourceFunction",
    "Partitioner",
    "PredefinedOptions",
    "ProcessAllWindowFunction",
    "ProcessFunction",
    "ProcessJoinFunction",
    "ProcessWindowFunction",
    "ReduceFunction",
    "RichFunction",
    "RichParallelSourceFunction",
    "RichSinkFunction",
    "RichSourceFunction",
    "RuntimeContext",
    "RuntimeExecutionMode",
    "SavepointFormatType",
    "Sink",
    "SinkFunction",
    "SinkWriter",
    "SlotSharingGroup",
    "Source",
    "SourceContext",
    "SourceFunction",
    "SourceReader",
    "SplitEnumerator",
    "SplitEnumeratorContext",
    "StateBackend",
    "StreamExecutionEnvironment",
    "StreamOperator",
    "TimeDomain",
    "TimeWindow",
    "TimerService",
    "Trigger",
    "TriggerResult",
    "TwoPhaseCommitSink",
    "Window",
    "WindowAssigner",
    "WindowFunction",
    "WindowedStream",
]
