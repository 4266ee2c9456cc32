"""Stateless operators that call a user function once per record."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import compress, repeat
from typing import Any, TypeVar

from ..common.type_system.type_hints import element_type_of, result_type_of
from ..common.typeinfo import TypeInformation
from ..protocol.elements import Batch, RowBatch
from .base import StreamOperator
from .checkpointed import CheckpointHooks
from .functions import ProcessFunction, as_callable
from .process import RecordContext, not_iterable
from .record_loops import filtered, flattened, flattened_with_times, mapped, times_of_results
from .side_outputs import emit_results
from .user_function_operator import UserFunctionOperator

_Results = TypeVar("_Results")

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

    def apply(
        self, values: list[Any], how: Callable[[Callable[..., Any], Iterator[Any]], _Results]
    ) -> _Results:
        """`how(call, records)`; an exception names the record it happened on."""
        remaining: Iterator[Any] = iter(values)
        try:
            return how(self._call, remaining)
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
        self.emit(RowBatch(self.apply(batch.rows(), mapped), batch.timestamps))


class FilterOperator(FunctionOperator):
    """Keeps the records for which the function is true."""

    keeps_type = True

    def __init__(self, function: Any) -> None:
        super().__init__(function, "filter")

    def process_batch(self, batch: Batch, input_index: int) -> None:
        values = batch.rows()
        if batch.timestamps is None:
            kept, timestamps = self.apply(values, filtered), None
        else:
            mask = self.apply(values, mapped)
            kept = list(compress(values, mask))
            timestamps = list(compress(batch.timestamps, mask))
        if kept:
            self.emit(RowBatch(kept, timestamps))


class FlatMapOperator(FunctionOperator):
    """One record in, any number out."""

    def __init__(self, function: Any) -> None:
        super().__init__(function, "flat_map")

    def process_batch(self, batch: Batch, input_index: int) -> None:
        values, times = batch.rows(), batch.timestamps
        if times is None:
            results, timestamps = self.apply(values, flattened), None
        else:
            results, timestamps = self.apply(
                values, lambda call, records: flattened_with_times(call, records, times)
            )
        if results:
            self.emit(RowBatch(results, timestamps))


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
    times = batch.timestamps
    results: list[Any] = []
    ends: list[int] = []
    value: Any = None
    produced: Any = None
    try:
        for value, context.time in zip(batch.rows(), times or repeat(None)):
            produced = call(value, context)
            if produced is not None:
                results.extend(produced)
            if times is not None:
                ends.append(len(results))
    except Exception as error:
        raise operator.user_error(f"{method}()", not_iterable(produced) or error, value) from error
    emit_results(operator.output, results, None if times is None else times_of_results(times, ends))
