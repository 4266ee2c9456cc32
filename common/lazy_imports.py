"""Names of a package that are loaded on first use, so that importing the package stays light (PEP 562)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any

__all__ = ["lazy_attributes"]


def lazy_attributes(module: str, homes: Mapping[str, Iterable[str]]) -> Callable[[str], Any]:
    """The `__getattr__` of a module that offers names of other modules without importing them.

    Args:
        module: Its name, as `__name__` says.
        homes: The names that each other module is the home of. Modules are given as in an import statement,
            relative to the package.

    Returns:
        A function that imports the home of a name and notes the value in the module, so that Python asks
        once. It raises AttributeError for a name that has no home, and AbsentNameError for a name of PyFlink
        that does not exist here.
    """
    home_of = {name: home for home, names in homes.items() for name in names}

    def load(name: str) -> Any:
        home = home_of.get(name)
        if home is None:
            # Only here: an import of the package must not load what only errors need.
            from .absent_names import refuse_absent

            refuse_absent(module, name)
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        offering = sys.modules[module]
        value = getattr(import_module(home, offering.__package__), name)
        setattr(offering, name, value)
        return value

    return load
