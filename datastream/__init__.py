"""The fluent API, with PyFlink's names and import paths (`pyflink.datastream`).

Builds a stream graph and hands it to a shell; nothing here runs records. What only a driver needs is loaded
on first use: the processes of a job import this too, for the base classes of its functions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..common.lazy_imports import lazy_attributes
from ..common.output_tag import OutputTag
from ..operators.async_io.async_function import AsyncFunction, AsyncRetryPredicate, AsyncRetryStrategy
from ..operators.base import StreamOperator
from ..operators.broadcast_functions import (
    BaseBroadcastProcessFunction,
    BroadcastProcessFunction,
    KeyedBroadcastProcessFunction,
)
from ..operators.checkpointed import CheckpointedFunction, CheckpointListener, ListCheckpointed
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
from ..operators.sources.enumerators import Boundedness, SplitEnumerator, SplitEnumeratorContext
from ..operators.sources.source_context import SourceContext
from ..operators.sources.source_function import (
    ParallelSourceFunction,
    RichParallelSourceFunction,
    RichSourceFunction,
    SourceFunction,
)
from ..operators.sources.sources import Source, SourceReader
from ..operators.timers.timer_service import TimeDomain, TimerService
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
from ..state.backend import StateBackend
from ..state.live_backends import HashMapStateBackend

if TYPE_CHECKING:
    from ..operators.columnar.aggregate_functions import (
        Aggregation,
        Count,
        Max,
        Mean,
        Min,
        Quantile,
        Sum,
    )
    from ..operators.columnar.columnar_process import KeyedBatchFunction
    from .async_data_stream import AsyncDataStream
    from .broadcast_stream import BroadcastConnectedStream, BroadcastStream
    from .cached_data_stream import CachedDataStream
    from .checkpoint_config import CheckpointConfig, ExternalizedCheckpointRetention
    from .checkpoint_storage import (
        CheckpointStorage,
        FileSystemCheckpointStorage,
        JobManagerCheckpointStorage,
    )
    from .closeable_iterator import CloseableIterator
    from .connected_streams import ConnectedStreams
    from .data_stream import DataStream
    from .data_stream_sink import DataStreamSink
    from .execution_mode import RuntimeExecutionMode
    from .keyed_stream import KeyedStream
    from .slot_sharing_group import MemorySize, SlotSharingGroup
    from .state_backend import (
        EmbeddedRocksDBStateBackend,
        FileSystemStateBackend,
        LmdbStateBackend,
        MemoryStateBackend,
        PredefinedOptions,
    )
    from .stream_execution_environment import StreamExecutionEnvironment
    from .windowed_stream import AllWindowedStream, WindowedStream

__all__ = [
    "AggregateFunction",
    "Aggregation",
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
    "CachedDataStream",
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
    "Count",
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
    "KeyedBatchFunction",
    "KeyedBroadcastProcessFunction",
    "KeyedCoProcessFunction",
    "KeyedProcessFunction",
    "KeyedStream",
    "ListCheckpointed",
    "LmdbStateBackend",
    "MapFunction",
    "Max",
    "Mean",
    "MemorySize",
    "MemoryStateBackend",
    "MergingWindowAssigner",
    "Min",
    "NullByteKeySelector",
    "OutputTag",
    "ParallelSourceFunction",
    "Partitioner",
    "PredefinedOptions",
    "ProcessAllWindowFunction",
    "ProcessFunction",
    "ProcessJoinFunction",
    "ProcessWindowFunction",
    "Quantile",
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
    "Sum",
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

__getattr__ = lazy_attributes(
    __name__,
    {
        "..operators.columnar.aggregate_functions": (
            "Aggregation",
            "Count",
            "Max",
            "Mean",
            "Min",
            "Quantile",
            "Sum",
        ),
        "..operators.columnar.columnar_process": ("KeyedBatchFunction",),
        ".async_data_stream": ("AsyncDataStream",),
        ".broadcast_stream": ("BroadcastConnectedStream", "BroadcastStream"),
        ".cached_data_stream": ("CachedDataStream",),
        ".checkpoint_config": ("CheckpointConfig", "ExternalizedCheckpointRetention"),
        ".checkpoint_storage": (
            "CheckpointStorage",
            "FileSystemCheckpointStorage",
            "JobManagerCheckpointStorage",
        ),
        ".closeable_iterator": ("CloseableIterator",),
        ".connected_streams": ("ConnectedStreams",),
        ".data_stream": ("DataStream",),
        ".data_stream_sink": ("DataStreamSink",),
        ".execution_mode": ("RuntimeExecutionMode",),
        ".keyed_stream": ("KeyedStream",),
        ".slot_sharing_group": ("MemorySize", "SlotSharingGroup"),
        ".state_backend": (
            "EmbeddedRocksDBStateBackend",
            "FileSystemStateBackend",
            "LmdbStateBackend",
            "MemoryStateBackend",
            "PredefinedOptions",
        ),
        ".stream_execution_environment": ("StreamExecutionEnvironment",),
        ".windowed_stream": ("AllWindowedStream", "WindowedStream"),
    },
)


def __dir__() -> list[str]:
    return sorted(__all__)
