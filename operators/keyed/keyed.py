"""Operators on keyed streams: the current key is set before each call of the user function."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from inspect import isgeneratorfunction
from itertools import repeat
from typing import Any

from ...common.typeinfo import TypeInformation
from ...protocol.elements import MAX_WATERMARK_MS, Batch, ColumnBatch, RowBatch
from ...state.backend import KeyedStateBackend
from ...state.descriptors import ValueStateDescriptor
from ...state.kinds import ValueState
from ...state.serializers.key_codec import without_lists
from ..base import OperatorContext
from ..columnar.column_key import ColumnKey
from ..columnar.columnar_reduce import ColumnReduce, column_reduce
from ..elementwise import FunctionOperator
from ..functions import KeyedCoProcessFunction, KeyedProcessFunction
from ..output import Output
from ..process import KeyedRecordContext, TimerContext, not_iterable
from ..record_loops import mapped, times_of_results
from ..side_outputs import emit_results
from ..timers.timer_queue import Due
from ..timers.timer_service import KeyedTimerService, TimeDomain
from ..timers.timers import BatchTimerTarget, Timer, TimerServices, TimerTarget
from .declared_keys import DeclaredKeys

Selector = Callable[[Any], Any]

TIMERS = "user"
"""Name of the timers of process functions."""


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
        self.key_selectors: Sequence[Selector] = (key_selector,)
        self._key_type = key_type
        self._declared_keys = DeclaredKeys(key_type)

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self.keyed = context.create_keyed_backend(self._key_type)

    def advance_watermark(self, timestamp_ms: int) -> None:
        # The end of the input is no point in time: it lets nothing expire.
        if timestamp_ms < MAX_WATERMARK_MS:
            self.keyed.current_watermark = timestamp_ms

    def keys_of(self, batch: Batch, values: list[Any], input_index: int = 0) -> Sequence[Any]:
        """One key per record: those that came with the batch, else by the selector of the input.

        Raises:
            KeyTypeError: A key does not have the declared type.
        """
        where = f"operator {self.context.name_with_subtask}"
        keys = batch.key_list()
        if keys is None:
            selector = self.key_selectors[input_index]
            if isinstance(selector, ColumnKey) and isinstance(batch, ColumnBatch):
                keys = selector.keys_of(batch.values, where)
            else:
                keys = self._select(values, selector)
        self._declared_keys.check(keys, where, batch.has_integer_keys)
        return keys

    def _select(self, values: list[Any], selector: Selector) -> list[Any]:
        try:
            return without_lists(mapped(selector, values))
        except Exception as error:
            raise self.user_error("the key selector", error) from error


class KeyedProcessOperator(KeyedOperator, BatchTimerTarget):
    """A `KeyedProcessFunction`; also the keyed forms of `map`, `filter` and `flat_map`."""

    def __init__(
        self,
        function: Any,
        key_selector: Selector,
        key_type: TypeInformation | None = None,
        method: str = "process_element",
    ) -> None:
        super().__init__(function, method, key_selector, key_type)
        self._call = with_context(method, self._call)
        self._on_timer = _on_timer_of(function)

    def open(self) -> None:
        timer_services = self.timer_services = TimerServices(self.context, self.keyed)
        self._fired: list[Any] = []
        self._fired_times: list[int] = []
        service = KeyedTimerService(self, lambda: timer_services.create(TIMERS, self))
        if self._on_timer is not None:
            # A checkpoint may hold timers that are due before any is registered.
            _ = service.timers
        self._record_context = KeyedRecordContext(self.keyed, service)
        self._timer_context = TimerContext(self.keyed, service)
        super().open()

    def process_batch(self, batch: Batch, input_index: int) -> None:
        self.process_records(batch, input_index, self._call, self._method)

    def process_records(self, batch: Batch, input_index: int, call: Callable[..., Any], method: str) -> None:
        """Call `call(record, context)` for every record, with its key set, and emit what it gives.

        Args:
            method: Its name, for errors.
        """
        values = batch.rows()
        keys = self.keys_of(batch, values, input_index)
        self.keyed.prefetch(keys)
        if isgeneratorfunction(call):
            results, timestamps = self._yielded(call, method, values, keys, batch.timestamps)
        elif batch.timestamps is None:
            results, timestamps = self._process(call, method, values, keys), None
        else:
            results, timestamps = self._process_timed(call, method, values, keys, batch.timestamps)
        self.keyed.current_key = None
        self.keyed.records_processed(len(values))
        emit_results(self.output, results, timestamps)

    def _process(
        self, call: Callable[..., Any], method: str, values: list[Any], keys: Sequence[Any]
    ) -> list[Any]:
        keyed, context = self.keyed, self._record_context
        context.time = None
        results: list[Any] = []
        extend = results.extend
        value: Any = None
        produced: Any = None
        try:
            for value, key in zip(values, keys):
                keyed.current_key = key
                produced = call(value, context)
                if produced is not None:
                    extend(produced)
        except Exception as error:
            raise self.user_error(f"{method}()", not_iterable(produced) or error, value) from error
        return results

    def _process_timed(
        self,
        call: Callable[..., Any],
        method: str,
        values: list[Any],
        keys: Sequence[Any],
        times: Sequence[int],
    ) -> tuple[list[Any], Sequence[int]]:
        keyed, context = self.keyed, self._record_context
        results: list[Any] = []
        ends: list[int] = []
        extend, mark = results.extend, ends.append
        value: Any = None
        produced: Any = None
        try:
            for value, key, context.time in zip(values, keys, times):
                keyed.current_key = key
                produced = call(value, context)
                if produced is not None:
                    extend(produced)
                mark(len(results))
        except Exception as error:
            raise self.user_error(f"{method}()", not_iterable(produced) or error, value) from error
        return results, times_of_results(times, ends)

    def _yielded(
        self,
        call: Callable[..., Any],
        method: str,
        values: list[Any],
        keys: Sequence[Any],
        times: Sequence[int] | None,
    ) -> tuple[list[Any], Sequence[int] | None]:
        """The same for a generator function: one that yields nothing takes `extend` twice the time."""
        keyed, context = self.keyed, self._record_context
        remaining: Any = iter(values)
        try:
            if times is None:
                context.time = None
                return [
                    result
                    for value, keyed.current_key in zip(remaining, keys)
                    for result in call(value, context)
                ], None
            noted: list[int] = []
            note = noted.append
            results = [
                result
                for value, keyed.current_key, time in zip(remaining, keys, times)
                for context.time in (time,)
                for result in call(value, context)
                if note(time) is None
            ]
        except Exception as error:
            value = values[len(values) - remaining.__length_hint__() - 1]
            raise self.user_error(f"{method}()", error, value) from error
        # An array of them travels cheaper.
        return results, array("q", noted) if isinstance(times, array) else noted

    # ------------------------------------------------------------ timers

    def on_timers(self, due: Due, is_event_time: bool) -> None:
        call = self._on_timer
        if call is None:
            return
        keyed, context = self.keyed, self._timer_context
        context.domain = TimeDomain.EVENT_TIME if is_event_time else TimeDomain.PROCESSING_TIME
        fired, times = self._fired, self._fired_times
        produced: Any = None
        try:
            for keyed.current_key, time in due:
                context.time = time
                produced = call(time, context)
                if produced is not None:
                    fired.extend(produced)
                    times.extend(repeat(time, len(fired) - len(times)))
        except Exception as error:
            what = f"on_timer() at {time} ({context.domain.name}) for the key {keyed.current_key!r:.100}"
            raise self.user_error(what, not_iterable(produced) or error) from error
        if not is_event_time:
            # What is given then has no event time.
            times.clear()

    def timers_fired(self) -> None:
        fired, self._fired = self._fired, []
        times, self._fired_times = self._fired_times, []
        emit_results(self.output, fired, times or None)


def _on_timer_of(function: Any) -> Callable[..., Any] | None:
    """The function's `on_timer`, unless it is the empty one of its base class."""
    call = getattr(function, "on_timer", None)
    inherited = (KeyedProcessFunction.on_timer, KeyedCoProcessFunction.on_timer)
    return None if getattr(call, "__func__", None) in inherited else call


class KeyedReduceOperator(KeyedOperator, TimerTarget):
    """Reduce per key: emits the value so far for every record, in batch mode the last value of every key."""

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
        timer_services = self.timer_services = TimerServices(self.context, self.keyed)
        self._last_values: list[Any] = []
        self._by_columns: ColumnReduce | None = None
        if not self.context.is_batch:
            self._by_columns = column_reduce(self._life_cycle, self.key_selectors[0], self._state)
        if self.context.is_batch:
            self._end = timer_services.create("reduce", self)

    def process_batch(self, batch: Batch, input_index: int) -> None:
        if self._by_columns is not None and isinstance(batch, ColumnBatch):
            columns = self._by_columns.reduced(batch.values, f"operator {self.context.name_with_subtask}")
            if columns is not None:
                self.keyed.records_processed(len(columns))
                self.emit(ColumnBatch(columns, batch.timestamps))
                return
        values = batch.rows()
        keys = self.keys_of(batch, values)
        self.keyed.prefetch(keys)
        results = self._reduced(values, keys)
        self.keyed.current_key = None
        self.keyed.records_processed(len(values))
        if not self.context.is_batch:
            self.emit(RowBatch(results, batch.timestamps))

    def _reduced(self, values: list[Any], keys: Sequence[Any]) -> list[Any]:
        call, keyed, state = self._call, self.keyed, self._state
        results: list[Any] = []
        seen = self._note_first if self.context.is_batch else results.append
        value: Any = None
        try:
            for value, key in zip(values, keys):
                keyed.current_key = key
                previous = state.value()
                if previous is not None:
                    value = call(previous, value)
                state.update(value)
                seen(value)
        except Exception as error:
            raise self.user_error("reduce()", error, value) from error
        return results

    # ------------------------------------------------------------ the end, in batch mode

    def _note_first(self, value: Any) -> None:
        # However often it is registered, there is one timer per key.
        self._end.register_event_time_timer(None, MAX_WATERMARK_MS)

    def on_event_time(self, timer: Timer) -> None:
        self._last_values.append(self._state.value())

    def on_processing_time(self, timer: Timer) -> None:
        raise AssertionError("no timer of processing time was ever registered")

    def timers_fired(self) -> None:
        values, self._last_values = self._last_values, []
        self.emit(RowBatch(values))


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


def with_context(method: str, call: Callable[..., Any]) -> Callable[..., Any]:
    """A method of a function, as one that takes a record and a context and returns any number of results."""
    wrapper = _WITHOUT_CONTEXT.get(method.rstrip("12"))
    return call if wrapper is None else wrapper(call)


_WITHOUT_CONTEXT: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    "map": _KeyedMap,
    "filter": _KeyedFilter,
    "flat_map": _KeyedFlatMap,
}
