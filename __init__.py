"""Tidegate: stateful stream processing in Python with exactly-once checkpoints, on Ray actors.

The names below are loaded on first use, so that `import tidegate` stays light: it pulls in neither
Ray nor Spark nor pandas. The full API lives in `tidegate.datastream` and `tidegate.common`, under
the import paths that PyFlink uses.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

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

_HOME_OF = {
    "Configuration": ".common",
    "StreamExecutionEnvironment": ".datastream",
    "TidegateError": ".common.errors",
    "Types": ".common",
    "WatermarkStrategy": ".common",
}


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home, __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)
