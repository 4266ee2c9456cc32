"""A deliberate protocol bug: what it breaks, and where it is planted.

A mutant replaces one method while it is planted. That is done here only: it is what planting a bug
means, and no test of the product works this way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Mutant:
    """One bug. `make` gets the original attribute of `owner` and returns the broken one."""

    description: str
    owner: Any
    attribute: str
    make: Callable[[Any], Any]

    @contextmanager
    def planted(self) -> Iterator[None]:
        """Plant the bug for the duration of the block."""
        original = getattr(self.owner, self.attribute)
        setattr(self.owner, self.attribute, self.make(original))
        try:
            yield
        finally:
            setattr(self.owner, self.attribute, original)
