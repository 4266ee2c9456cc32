"""Tidegate: stateful stream processing in Python with exactly-once checkpoints, on Ray actors.

The names below are loaded on first use, so that `import tidegate` stays light: it pulls in neither
Ray nor Spark nor pandas. The full API lives in `tidegate.datastream` and `tidegate.common`, under
the import paths that PyFlink uses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .common.lazy_imports import lazy_attributes

if TYPE_CHECKING:
    from .common import Configuration, Types, WatermarkStrategy
    from .common.errors import TidegateError
    from .datastream import StreamExecutionEnvironment

__version__ = "0.1.0"

__all__ = [
    "Configuration",
    "StreamExecutionEnvironment",
    "TidegateError",
    "Types",
    "WatermarkStrategy",
    "__version__",
]

__getattr__ = lazy_attributes(
    __name__,
    {
        ".common": ("Configuration", "Types", "WatermarkStrategy"),
        ".common.errors": ("TidegateError",),
        ".datastream": ("StreamExecutionEnvironment",),
    },
)


def __dir__() -> list[str]:
    return sorted(__all__)
