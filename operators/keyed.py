"""Operators on keyed streams: the current key is set before each call of the user function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import Any

from ..common.typeinfo import TypeInformation
from ..protocol.elements import MAX_WATERMARK_MS, Batch
from ..state.backend import KeyedStateBackend
from ..state.descriptors import ValueStateDescriptor
from ..state.kinds import ValueState
from .base import OperatorContext, rows
from .column_key import ColumnKey
from .elementwise import FunctionOperator
from .functions import KeyedProcessFunction
from .output import Output

Selector = Callable[[Any], Any]


class KeyedOperator(FunctionOperator):
    """A user function with keyed state.

    Args:
        function: The user function.
        method: Name of the function's method that processes a record.
        key_selector: Gives the key of a record that came without one.
        key_type: Declared type of the key, if any.
    """

    keyed: KeyedStateBackend

    def __init__(
        self,
        function: Any,
        method: str,
        key_selector: Selector,
        key_type: TypeInformation | None = None,
    ) -> None:
        super().__init__(function, method)
        self._key_selector = key_selector
        self._key_type = key_type

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self.keyed = context.create_keyed_backend(self._key_type)

    def advance_watermark(self, timestamp_ms: int) -> None:
        # The end of the input is no point in time: it lets nothing expire.
        if timestamp_ms < MAX_WATERMARK_MS:
            self.keyed.current_watermark = timestamp_ms

    def keys_of(self, batch: Batch, values: list[Any]) -> Sequence[Any]:
        """One key per record: those that came along, else by the selector."""
        keys = batch.keys
        if keys is None:
            selector = self._key_selector
            if isinstance(selector, ColumnKey) and not isinstance(batch.values, list):
                return selector.keys_of(batch.values, f"operator {self.context.name_with_subtask}")
            return self._select(values)
        return keys if isinstance(keys, list) else keys.tolist()

    def _select(self, values: list[Any]) -> list[Any]:
        try:
            keys = list(map(self._key_selector, values))
            if len(keys) < len(values):
                raise RuntimeError("the function raised StopIteration")
            return keys
        except Exception as error:
            raise self.user_error("the key selector", error) from error


class KeyedProcessOperator(KeyedOperator):
    """A `KeyedProcessFunction`; also the keyed forms of `map`, `filter` and `flat_map`."""

    def __init__(
        self,
        function: Any,
        key_selector: Selector,
        key_type: TypeInformation | None = None,
        method: str = "process_element",
    ) -> None:
        super().__init__(function, method, key_selector, key_type)
        if method in _WITHOUT_CONTEXT:
            self._call = _WITHOUT_CONTEXT[method](self._call)

    def process_batch(self, batch: Batch, input_index: int) -> None:
        values = rows(batch)
        keys = self.keys_of(batch, values)
        self.keyed.prefetch(keys)
        if batch.timestamps is None:
            results, timestamps = self._process(values, keys), None
        else:
            results, timestamps = self._process_timed(values, keys, batch.timestamps)
        self.keyed.current_key = None
        self.keyed.records_processed(len(values))
        if results:
            self.emit(Batch(results, timestamps))

    def _process(self, values: list[Any], keys: Sequence[Any]) -> list[Any]:
        call, keyed, context = self._call, self.keyed, _KeyedContext(self.keyed)
        results: list[Any] = []
        extend = results.extend
        value: Any = None
        try:
            for value, key in zip(values, keys):
                keyed.current_key = key
                produced = call(value, context)
                if produced is not None:
                    extend(produced)
        except Exception as error:
            raise self.user_error(f"{self._method}()", error, value) from error
        return results

    def _process_timed(
        self, values: list[Any], keys: Sequence[Any], times: Sequence[int]
    ) -> tuple[list[Any], list[int]]:
        call, keyed, context = self._call, self.keyed, _KeyedContext(self.keyed)
        results: list[Any] = []
        timestamps: list[int] = []
        value: Any = None
        try:
            for value, key, context.time in zip(values, keys, times):
                keyed.current_key = key
                produced = call(value, context)
                if produced is not None:
                    results.extend(produced)
                    timestamps.extend(repeat(context.time, len(results) - len(timestamps)))
        except Exception as error:
            raise self.user_error(f"{self._method}()", error, value) from error
        return results, timestamps


class _KeyedContext(KeyedProcessFunction.Context):
    """One object per batch, not per record."""

    __slots__ = ("_keyed", "time")

    def __init__(self, keyed: KeyedStateBackend) -> None:
        self._keyed = keyed
        self.time: Any = None

    def get_current_key(self) -> Any:
        return self._keyed.current_key

    def timestamp(self) -> int | None:
        return self.time  # type: ignore[no-any-return]


class KeyedReduceOperator(KeyedOperator):
    """Running reduce per key: emits the value so far for every record."""

    STATE_NAME = "_reduce"

    def __init__(
        self,
        function: Any,
        key_selector: Selector,
        key_type: TypeInformation | None = None,
        value_type: TypeInformation | None = None,
    ) -> None:
        super().__init__(function, "reduce", key_selector, key_type)
        self._value_type = value_type
        self._state: ValueState[Any]

    def open(self) -> None:
        super().open()
        self._state = self.keyed.get_value_state(ValueStateDescriptor(self.STATE_NAME, self._value_type))

    def process_batch(self, batch: Batch, input_index: int) -> None:
        values = rows(batch)
        call, keyed, state = self._call, self.keyed, self._state
        keys = self.keys_of(batch, values)
        keyed.prefetch(keys)
        results: list[Any] = []
        value: Any = None
        try:
            for value, key in zip(values, keys):
                keyed.current_key = key
                previous = state.value()
                if previous is not None:
                    value = call(previous, value)
                state.update(value)
                results.append(value)
        except Exception as error:
            raise self.user_error("reduce()", error, value) from error
        keyed.current_key = None
        keyed.records_processed(len(values))
        self.emit(Batch(results, batch.timestamps))


class _KeyedMap:
    """Calls a map function where a keyed process function is due."""

    def __init__(self, call: Callable[[Any], Any]) -> None:
        self._call = call

    def __call__(self, value: Any, context: object) -> Iterable[Any]:
        return (self._call(value),)


class _KeyedFilter:
    """Calls a filter function where a keyed process function is due."""

    def __init__(self, call: Callable[[Any], bool]) -> None:
        self._call = call

    def __call__(self, value: Any, context: object) -> Iterable[Any]:
        return (value,) if self._call(value) else ()


class _KeyedFlatMap:
    """Calls a flat-map function where a keyed process function is due."""

    def __init__(self, call: Callable[[Any], Iterable[Any] | None]) -> None:
        self._call = call

    def __call__(self, value: Any, context: object) -> Iterable[Any] | None:
        return self._call(value)


_WITHOUT_CONTEXT: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    "map": _KeyedMap,
    "filter": _KeyedFilter,
    "flat_map": _KeyedFlatMap,
}
