"""Reduce and aggregate functions applied to a list at once, for windows with an evictor."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

Fold = Callable[[list[Any]], Any]


def reduced(function: Any) -> Fold:
    """Reduces a list that is not empty."""
    return _Reduced(getattr(function, "reduce", function))


def aggregated(function: Any) -> Fold:
    """Aggregates a list."""
    return _Aggregated(function)


class _Reduced:
    def __init__(self, call: Callable[[Any, Any], Any]) -> None:
        self._call = call

    def __call__(self, values: list[Any]) -> Any:
        return reduce(self._call, values)


class _Aggregated:
    def __init__(self, function: Any) -> None:
        self._function = function

    def __call__(self, values: list[Any]) -> Any:
        accumulator = self._function.create_accumulator()
        for value in values:
            accumulator = self._function.add(value, accumulator)
        return self._function.get_result(accumulator)
