"""Words that every room shares: types, rows, time, settings and errors (as `pyflink.common`).

Lives here: plain values and declarations, with the standard library alone. May not live here:
anything that runs, does I/O or knows about another room.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .lazy_imports import lazy_attributes

if TYPE_CHECKING:
    from .completable_future import CompletableFuture
    from .config_options import ConfigOption, ConfigOptions
    from .configuration import Configuration
    from .execution_config import ExecutionConfig
    from .job_client import JobClient
    from .job_execution_result import JobExecutionResult
    from .job_id import JobID
    from .job_status import JobStatus
    from .restart_strategy import RestartStrategies, RestartStrategyConfiguration
    from .serialization import (
        ByteArraySchema,
        DeserializationSchema,
        Encoder,
        SerializationSchema,
        SimpleStringSchema,
    )
    from .serializer import TypeSerializer
    from .time import Duration, Instant, Time
    from .type_system.type_codecs import TypeCodec, register_type_codec
    from .typeinfo import TypeInformation, Types
    from .types import Row, RowKind
    from .watermark_strategy import WatermarkStrategy

__all__ = [
    "ByteArraySchema",
    "CompletableFuture",
    "ConfigOption",
    "ConfigOptions",
    "Configuration",
    "DeserializationSchema",
    "Duration",
    "Encoder",
    "ExecutionConfig",
    "Instant",
    "JobClient",
    "JobExecutionResult",
    "JobID",
    "JobStatus",
    "RestartStrategies",
    "RestartStrategyConfiguration",
    "Row",
    "RowKind",
    "SerializationSchema",
    "SimpleStringSchema",
    "Time",
    "TypeCodec",
    "TypeInformation",
    "TypeSerializer",
    "Types",
    "WatermarkStrategy",
    "register_type_codec",
]

__getattr__ = lazy_attributes(
    __name__,
    {
        ".completable_future": ("CompletableFuture",),
        ".config_options": ("ConfigOption", "ConfigOptions"),
        ".configuration": ("Configuration",),
        ".execution_config": ("ExecutionConfig",),
        ".job_client": ("JobClient",),
        ".job_execution_result": ("JobExecutionResult",),
        ".job_id": ("JobID",),
        ".job_status": ("JobStatus",),
        ".restart_strategy": ("RestartStrategies", "RestartStrategyConfiguration"),
        ".serialization": (
            "ByteArraySchema",
            "DeserializationSchema",
            "Encoder",
            "SerializationSchema",
            "SimpleStringSchema",
        ),
        ".serializer": ("TypeSerializer",),
        ".time": ("Duration", "Instant", "Time"),
        ".type_system.type_codecs": ("TypeCodec", "register_type_codec"),
        ".typeinfo": ("TypeInformation", "Types"),
        ".types": ("Row", "RowKind"),
        ".watermark_strategy": ("WatermarkStrategy",),
    },
)


def __dir__() -> list[str]:
    return sorted(__all__)
