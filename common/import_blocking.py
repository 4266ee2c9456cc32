"""Keeps a library from importing what it would only look at."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

__all__ = ["blocked_imports", "stubbed_import"]


@contextlib.contextmanager
def blocked_imports(*packages: str) -> Iterator[None]:
    """Within it this thread's imports of top-level packages fail, as if they were not installed.

    A package that is imported already stays as it is, with all below it. Other threads see no difference.
    """
    finder = _BlockingFinder(frozenset(name for name in packages if name not in sys.modules))
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _BlockingFinder(MetaPathFinder):
    def __init__(self, packages: frozenset[str]) -> None:
        self._packages = packages
        self._thread = threading.get_ident()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if threading.get_ident() == self._thread and fullname.partition(".")[0] in self._packages:
            raise ModuleNotFoundError(f"{fullname} is not wanted here", name=fullname)
        return None


@contextlib.contextmanager
def stubbed_import(module: str) -> Iterator[None]:
    """Within it an import of a module succeeds without running it, unless it is imported already.

    For a module that is imported only to see whether that works, where it is known that it does.
    """
    if module in sys.modules:
        yield
        return
    sys.modules[module] = ModuleType(module)
    try:
        yield
    finally:
        del sys.modules[module]
