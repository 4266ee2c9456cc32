"""Questions about many values at once, answered without a loop in Python."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["all_equal"]


def all_equal(found: Iterable[Any], expected: Any, count: int) -> bool:
    """Whether each of so many things is the expected one.

    `list.count` looks at identity first and hashes nothing: it takes two thirds of what a set does, and
    seven eighths of `operator.countOf`.
    """
    return list(found).count(expected) == count
