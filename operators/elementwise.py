"""Stateless operators that call a user function once per record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, compress, repeat
from typing import Any

from ..common.type_hints import element_type_of, result_type_of
from ..common.typeinfo import TypeInformation
from ..protocol.elements import Batch
from .base import StreamOperator, rows
from .checkpointed import CheckpointHooks
from .functions import ProcessFunction, as_callable
from .process import RecordContext, not_iterable
from .results import emit_results
from .user_function import UserFunctionOperator

_HINTS: dict[str, Callable[[Callable[..., Any]], TypeInformation | None]] = {
    "map": result_type_of,
    "flat_map": element_type_of,
    "process_element": element_type_of,
    "async_invoke": element_type_of,
}


class FunctionOperator(UserFunctionOperator):
    """Runs one user function per record; subclasses say how its results become a batch.

    Args:
        function: A `Function`, or a plain callable.
        method: Name of the function's method that processes a record.
    """

    def __init__(self, function: Any, method: str) -> None:
        self._life_cycle, self._call = as_callable(function, method)
        self._hooks = CheckpointHooks(function)
        self._method = method
        hint = _HINTS.get(method)
        self.hinted_type = None if hint is None else hint(self._call)

    def apply(self, values: list[Any], how: Callable[..., Iterable[Any]]) -> list[Any]:
        """`list(how(call, values))`; an exception names the record it happened on."""
        remaining: Iterator[Any] = iter(values)
        try:
            results = list(how(self._call, remaining))
            if len(remaining.__reduce__()) > 2:
                # `map` and `filter` take a StopIteration of the user's for the end of the records. A
                # list iterator that was not read past its end still has its position to pickle.
                raise RuntimeError("the function raised StopIteration")
            return results
        except Exception as error:
            # A list iterator knows how much is left, so no index is counted on the fast path.
            left = remaining.__length_hint__()  # type: ignore[attr-defined]
            record = values[len(values) - left - 1]
            raise self.user_error(f"{self._method}()", error, record) from error


class MapOperator(FunctionOperator):
    """One record in, one out."""

    def __init__(self, function: Any) -> None:
        super().__init__(function, "map")

    def process_batch(self, batch: Batch, input_index: int) -> None:
        self.emit(Batch(self.apply(rows(batch), map), batch.timestamps))


class FilterOperator(FunctionOperator):
    """Keeps the records for which the function is true."""

    keeps_type = True

    def __init__(self, function: Any) -> None:
        super().__init__(function, "filter")

    def process_batch(self, batch: Batch, input_index: int) -> None:
        values = rows(batch)
        if batch.timestamps is None:
            kept, timestamps = self.apply(values, filter), None
        else:
            mask = self.apply(values, map)
            kept = list(compress(values, mask))
            timestamps = list(compress(batch.timestamps, mask))
        if kept:
            self.emit(Batch(kept, timestamps))


def _flatten(call: Callable[[Any], Iterable[Any] | None], values: Iterable[Any]) -> Iterator[Any]:
    return chain.from_iterable(result for result in map(call, values) if result is not None)


class FlatMapOperator(FunctionOperator):
    """One record in, any number out."""

    def __init__(self, function: Any) -> None:
        super().__init__(function, "flat_map")

    def process_batch(self, batch: Batch, input_index: int) -> None:
        values = rows(batch)
        if batch.timestamps is None:
            results, timestamps = self.apply(values, _flatten), None
        else:
            results, timestamps = self._with_timestamps(values, batch.timestamps)
        if results:
            self.emit(Batch(results, timestamps))

    def _with_timestamps(self, values: list[Any], times: Iterable[int]) -> tuple[list[Any], list[int]]:
        groups = self.apply(values, _materialised)
        timestamps: list[int] = []
        for time, group in zip(times, groups):
            timestamps.extend(repeat(time, len(group)))
        return list(chain.from_iterable(groups)), timestamps


def _materialised(call: Callable[[Any], Iterable[Any] | None], values: Iterable[Any]) -> Iterator[list[Any]]:
    return (list(result or ()) for result in map(call, values))


class ProcessOperator(FunctionOperator):
    """A `ProcessFunction` on a stream without keys."""

    def __init__(self, function: ProcessFunction) -> None:
        super().__init__(function, "process_element")

    def open(self) -> None:
        self._context = RecordContext(self)
        super().open()

    def process_batch(self, batch: Batch, input_index: int) -> None:
        self.process_records(batch, self._call, self._method)

    def process_records(self, batch: Batch, call: Callable[..., Any], method: str) -> None:
        """Call `call(record, context)` for every record, and emit what it gives.

        Args:
            method: Its name, for errors.
        """
        process_unkeyed(self, self._context, batch, call, method)


def process_unkeyed(
    operator: StreamOperator, context: RecordContext, batch: Batch, call: Callable[..., Any], method: str
) -> None:
    """Call `call(record, context)` for every record, and let an operator emit what it gives.

    Args:
        method: Name of the user's method, for errors.
    """
    results: list[Any] = []
    timestamps: list[int] | None = None if batch.timestamps is None else []
    value: Any = None
    produced: Any = None
    try:
        for value, context.time in zip(rows(batch), batch.timestamps or repeat(None)):
            produced = call(value, context)
            if produced is not None:
                results.extend(produced)
                if timestamps is not None:
                    timestamps.extend(repeat(context.time, len(results) - len(timestamps)))
    except Exception as error:
        raise operator.user_error(f"{method}()", not_iterable(produced) or error, value) from error
    emit_results(operator.output, results, timestamps)
