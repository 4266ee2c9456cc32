"""Spark stages inside the barrier graph, and savepoints as Spark DataFrames.

Only this room imports pyspark and raydp, and only when Spark is asked for. The Spark operators of a job run
in one process, a task actor like any other, which owns the session. The state processor (`read_savepoint`,
`SavepointWriter`) works with any Spark session, also without Ray.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..common.lazy_imports import lazy_attributes

if TYPE_CHECKING:
    from .savepoints.savepoint_reader import SavepointReader, read_savepoint
    from .savepoints.savepoint_writer import SavepointWriter
    from .session import local_spark

__all__ = ["SavepointReader", "SavepointWriter", "local_spark", "read_savepoint"]

__getattr__ = lazy_attributes(
    __name__,
    {
        ".savepoints.savepoint_reader": ("SavepointReader", "read_savepoint"),
        ".savepoints.savepoint_writer": ("SavepointWriter",),
        ".session": ("local_spark",),
    },
)
