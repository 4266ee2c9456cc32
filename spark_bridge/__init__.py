"""Spark stages inside the barrier graph, and savepoints as Spark DataFrames.

Only this room imports pyspark and raydp, and only when Spark is asked for. The Spark operators of a job run
in one process, a task actor like any other, which owns the session. The state processor (`read_savepoint`,
`SavepointWriter`) works with any Spark session, also without Ray.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .savepoint_reader import SavepointReader, read_savepoint
    from .savepoint_writer import SavepointWriter
    from .session import local_spark

__all__ = ["SavepointReader", "SavepointWriter", "local_spark", "read_savepoint"]


def __getattr__(name: str) -> Any:
    if name == "SavepointWriter":
        from .savepoint_writer import SavepointWriter

        return SavepointWriter
    if name == "local_spark":
        from .session import local_spark

        return local_spark
    if name in __all__:
        from . import savepoint_reader

        return getattr(savepoint_reader, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
