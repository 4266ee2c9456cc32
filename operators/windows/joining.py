"""Window functions that split the records of a window by the stream they are from.

Records of both streams come tagged, as pairs of 0 or 1 and the record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..functions import as_callable
from ..runtime_context import RuntimeContext
from ..window_functions import FlatJoinFunction, WindowFunction

Tagged = tuple[int, Any]


def tag_first(value: Any) -> Tagged:
    """A record of the first stream."""
    return 0, value


def tag_second(value: Any) -> Tagged:
    """A record of the second stream."""
    return 1, value


class TaggedKey:
    """The key of a tagged record, by the selector of its stream."""

    def __init__(self, first: Callable[[Any], Any], second: Callable[[Any], Any]) -> None:
        self._selectors = (first, second)

    def __call__(self, tagged: Tagged) -> Any:
        stream, value = tagged
        return self._selectors[stream](value)


class _SplittingFunction(WindowFunction[Tagged, Any, Any, Any]):
    def __init__(self, function: Any, method: str) -> None:
        self._life_cycle, self._call = as_callable(function, method)

    def open(self, runtime_context: RuntimeContext) -> None:
        self._life_cycle.open(runtime_context)

    def close(self) -> None:
        self._life_cycle.close()


class CoGroupWindowFunction(_SplittingFunction):
    """Calls a `CoGroupFunction`, or a callable of two lists."""

    def __init__(self, function: Any) -> None:
        super().__init__(function, "co_group")

    def apply(self, key: Any, window: Any, inputs: Iterable[Tagged]) -> Iterable[Any] | None:
        first, second = _split(inputs)
        return self._call(first, second)  # type: ignore[no-any-return]


class JoinWindowFunction(_SplittingFunction):
    """Calls a `JoinFunction`, a `FlatJoinFunction`, or a callable of two records, for every pair."""

    def __init__(self, function: Any) -> None:
        super().__init__(function, "join")
        self._is_flat = isinstance(function, FlatJoinFunction)

    def apply(self, key: Any, window: Any, inputs: Iterable[Tagged]) -> Iterable[Any] | None:
        first, second = _split(inputs)
        joined = (self._call(one, other) for one in first for other in second)
        if not self._is_flat:
            return joined
        return (result for results in joined if results is not None for result in results)


def _split(inputs: Iterable[Tagged]) -> tuple[list[Any], list[Any]]:
    sides: tuple[list[Any], list[Any]] = ([], [])
    for stream, value in inputs:
        sides[stream].append(value)
    return sides
