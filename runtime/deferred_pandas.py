"""Keeps pyarrow from importing pandas until somebody wants pandas.

The first `pyarrow.array` of a process imports pandas where it is installed, only to recognise a Series.
That is 0.6 s of CPU and 50 MB in every process of a job, in the middle of its first checkpoint or of its
recovery. A pyarrow that found no pandas looks again when it is asked for a DataFrame.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

import pyarrow as pa

from ..common.import_blocking import blocked_imports


def defer_pandas() -> None:
    """Have pyarrow go without pandas in this process until a module imports it or asks for a DataFrame."""
    if "pandas" in sys.modules or any(isinstance(finder, _PandasFinder) for finder in sys.meta_path):
        return
    sys.meta_path.insert(0, _PandasFinder())
    # In a local job other threads are the program's, which may import pandas at this moment.
    with blocked_imports("pandas"):
        pa.array([])


class _PandasFinder(MetaPathFinder):
    """Tells pyarrow when pandas is imported after all."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "pandas":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec("pandas")
        if spec is not None and spec.loader is not None:
            spec.loader = _TellingLoader(spec.loader)
        return spec


class _TellingLoader(Loader):
    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        # Whoever asks the module for its source or its data asks the one that has them.
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        # From here on `pyarrow.array` has to know a Series again: its NaN are nulls.
        pa.table({}).to_pandas()
