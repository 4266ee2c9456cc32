"""Whether a job runs as a stream or as a batch (PyFlink's `pyflink.datastream.execution_mode`)."""

from __future__ import annotations

import enum

__all__ = ["RuntimeExecutionMode"]


class RuntimeExecutionMode(enum.Enum):
    """How the records of a job are processed."""

    STREAMING = 0
    """Results come as records do; aggregates emit the value so far."""
    BATCH = 1
    """Every source ends; keyed aggregates emit final values only, and event time passes at the end."""
    AUTOMATIC = 2
    """`BATCH` where every source ends, else `STREAMING`."""
