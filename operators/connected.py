"""Operators on two connected streams, which see each other's state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..common.typeinfo import TypeInformation
from ..protocol.elements import Batch
from .elementwise import FlatMapOperator, FunctionOperator, MapOperator, ProcessOperator
from .functions import as_callable
from .keyed.keyed import KeyedProcessOperator, Selector, with_context


class CoMapOperator(MapOperator):
    """A `CoMapFunction` on streams without keys."""

    input_count = 2

    def __init__(self, function: Any) -> None:
        FunctionOperator.__init__(self, function, "map1")
        self._calls = _both(function, "map")

    def process_batch(self, batch: Batch, input_index: int) -> None:
        self._call, self._method = self._calls[input_index]
        super().process_batch(batch, input_index)


class CoFlatMapOperator(FlatMapOperator):
    """A `CoFlatMapFunction` on streams without keys."""

    input_count = 2

    def __init__(self, function: Any) -> None:
        FunctionOperator.__init__(self, function, "flat_map1")
        self._calls = _both(function, "flat_map")

    def process_batch(self, batch: Batch, input_index: int) -> None:
        self._call, self._method = self._calls[input_index]
        super().process_batch(batch, input_index)


class CoProcessOperator(ProcessOperator):
    """A `CoProcessFunction` on streams without keys."""

    input_count = 2

    def __init__(self, function: Any) -> None:
        FunctionOperator.__init__(self, function, "process_element1")
        self._calls = _both(function, "process_element")

    def process_batch(self, batch: Batch, input_index: int) -> None:
        self.process_records(batch, *self._calls[input_index])


class KeyedCoProcessOperator(KeyedProcessOperator):
    """A `KeyedCoProcessFunction`; also the keyed forms of `CoMapFunction` and `CoFlatMapFunction`.

    Args:
        function: The user function.
        key_selectors: Give the keys of the records of each input that came without one.
        key_type: Declared type of the keys of both, if any.
        method: `process_element`, `map` or `flat_map`; the function has it with a 1 and with a 2 behind.
    """

    input_count = 2

    def __init__(
        self,
        function: Any,
        key_selectors: Sequence[Selector],
        key_type: TypeInformation | None = None,
        method: str = "process_element",
    ) -> None:
        super().__init__(function, key_selectors[0], key_type, f"{method}1")
        self.key_selectors = tuple(key_selectors)
        self._calls = [(with_context(name, call), name) for call, name in _both(function, method)]

    def process_batch(self, batch: Batch, input_index: int) -> None:
        self.process_records(batch, input_index, *self._calls[input_index])


def _both(function: Any, method: str) -> list[tuple[Callable[..., Any], str]]:
    """The methods for the two inputs, with their names."""
    return [(as_callable(function, name)[1], name) for name in (f"{method}1", f"{method}2")]
