"""The operator of windows: assigns records, asks triggers, calls the window function.

Source: Flink's `WindowOperator`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

from ...common.errors import TidegateError, UserCodeError
from ...common.typeinfo import TypeInformation
from ...protocol.elements import MAX_WATERMARK_MS, Batch, RowBatch
from ..keyed.keyed import KeyedOperator, Selector
from ..late_records import LateRecords
from ..runtime_context import RuntimeContext
from ..side_outputs import emit_results
from ..timers.timers import Timer, TimerServices, TimerTarget
from .assigners import WindowAssigner
from .contexts import AssignerContext, FunctionContext, NoPerWindowStates, PerWindowStates, TriggerContext
from .triggers import Trigger, TriggerResult
from .window_contents import EvictingContents, WindowContents
from .window_function_calls import WindowCall, life_cycle_of
from .windows import window_namespaces


@dataclass(frozen=True)
class Windowing:
    """How a windowed stream works.

    Attributes:
        allowed_lateness_ms: How long after its end a window by event time takes records.
        late_tag_id: Side output for records that are later still; `None` drops them.
    """

    assigner: WindowAssigner[Any, Any]
    trigger: Trigger[Any, Any]
    contents: WindowContents
    call: WindowCall
    allowed_lateness_ms: int = 0
    late_tag_id: str | None = None


class WindowOperator(KeyedOperator, TimerTarget):
    """Windows that do not merge, a record at a time.

    Args:
        windowing: Assigner, trigger, contents and function.
        key_selector: Gives the key of a record that came without one.
        key_type: Declared type of the key, if any.

    """

    merges = False
    _time: int | None

    def __init__(
        self, windowing: Windowing, key_selector: Selector, key_type: TypeInformation | None = None
    ) -> None:
        super().__init__(windowing.call.function, windowing.call.method, key_selector, key_type)
        self._windowing = windowing
        self._assigner = windowing.assigner
        self._trigger = windowing.trigger
        self._contents = windowing.contents
        self._window_call = windowing.call
        self._lateness_ms = windowing.allowed_lateness_ms
        self._by_event_time = windowing.assigner.is_event_time()
        self._namespaces = window_namespaces(windowing.assigner.get_window_serializer())

    def open(self) -> None:
        super().open()
        self.late_records = LateRecords(
            self.context,
            "that come after their windows ended: allowed_lateness() lets windows wait, "
            "side_output_late_data() keeps such records",
        )
        runtime_context = RuntimeContext(self.context, self.keyed)
        self._open_folding(runtime_context)
        timer_services = self.timer_services = TimerServices(self.context, self.keyed)
        self._timers = timer_services.create("window", self, namespaced=True)
        self._contents.open(self.keyed, self._adding_failed)
        self._assigning = AssignerContext(runtime_context, self._timers)
        self._triggering = TriggerContext(self.keyed, self._timers)
        if isinstance(self._contents, EvictingContents):
            self._contents.use(self._assigning)
        states = NoPerWindowStates if self.merges else PerWindowStates
        window_states = states(self.context, self.keyed)
        self._window_call.bind(self._call, FunctionContext(self._timers, window_states, runtime_context))
        self._clear_outputs()

    def _open_folding(self, runtime_context: RuntimeContext) -> None:
        folding = life_cycle_of(self._contents.function)
        if folding is not None:
            try:
                folding.open(runtime_context)
            except Exception as error:
                raise self.user_error("open()", error) from error

    def close(self) -> None:
        folding = life_cycle_of(self._contents.function)
        try:
            if self._is_open:
                self.late_records.close()
            if folding is not None and self._is_open:
                folding.close()
        except Exception as error:
            raise self.user_error("close()", error) from error
        finally:
            super().close()

    # ------------------------------------------------------------ records

    def process_batch(self, batch: Batch, input_index: int) -> None:
        values = batch.rows()
        keys = self.keys_of(batch, values)
        self._process(values, keys, self._times_of(batch, values))
        self.keyed.current_key = self.keyed.current_namespace = None
        self.keyed.records_processed(len(values))
        self._emit_outputs()

    def _times_of(self, batch: Batch, values: list[Any]) -> Sequence[int]:
        """The event time of each record; empty if they have none and the windows need none."""
        times = batch.timestamps
        if times is None and self._by_event_time:
            raise self._without_timestamp(values[0] if values else None)
        return times or ()

    def _process(self, values: list[Any], keys: Sequence[Any], times: Sequence[int]) -> None:
        keyed, add = self.keyed, self._add
        value: Any = None
        try:
            for value, keyed.current_key, time in zip(values, keys, times or repeat(None)):
                if time is None and self._by_event_time:
                    raise self._without_timestamp(value)
                self._time = time
                if add(value, time) and time is not None and self._is_late(time):
                    self._late(value, time)
        except Exception as error:
            raise self._adding_failed(error, value) from error

    def _add(self, value: Any, time: int | None) -> bool:
        """Put a record into its windows; whether there were none that still take records."""
        is_skipped = True
        keyed, trigger = self.keyed, self._triggering
        for window in self._assigner.assign_windows(value, time, self._assigning):  # type: ignore[arg-type]
            if self._by_event_time and self._is_over(window):
                continue
            is_skipped = False
            namespace = self._namespaces.encode(window)
            keyed.current_namespace = trigger.namespace = namespace
            self._contents.add(value, time)
            result = self._trigger.on_element(value, time, window, trigger)  # type: ignore[arg-type]
            self._act(result, window, namespace, namespace)
            self._register_clean_up(window, namespace)
        return is_skipped

    def _is_over(self, window: Any) -> bool:
        return self._clean_up_time(window) <= self._timers.current_watermark()

    def _is_late(self, time: int) -> bool:
        return self._by_event_time and time + self._lateness_ms <= self._timers.current_watermark()

    def _late(self, value: Any, time: int) -> None:
        if self._windowing.late_tag_id is not None:
            self._late_values.append(value)
            self._late_times.append(time)
            return
        self.late_records.drop(1, value)

    # ------------------------------------------------------------ timers

    def on_event_time(self, timer: Timer) -> None:
        self._on_timer(timer, self._trigger.on_event_time, self._by_event_time)

    def on_processing_time(self, timer: Timer) -> None:
        self._on_timer(timer, self._trigger.on_processing_time, not self._by_event_time)

    def timers_fired(self) -> None:
        self._emit_outputs()

    def _on_timer(self, timer: Timer, ask: Callable[..., TriggerResult], may_clean_up: bool) -> None:
        try:
            window = self._namespaces.decode(timer.namespace)
            self._triggering.namespace = timer.namespace
            self._time = timer.timestamp
            result = ask(timer.timestamp, window, self._triggering)
            self._act(result, window, timer.namespace, timer.namespace)
            if may_clean_up and timer.timestamp == self._clean_up_time(window):
                self._clear(window, timer.namespace, timer.namespace)
        except Exception as error:
            raise self._timer_failed(timer, error) from error

    # ------------------------------------------------------------ windows

    def _act(self, result: TriggerResult, window: Any, namespace: Any, state_namespace: Any) -> None:
        """Do what a trigger said."""
        if result is TriggerResult.CONTINUE:
            return
        if not isinstance(result, TriggerResult):
            raise UserCodeError(
                f"operator {self.context.name_with_subtask}: {type(self._trigger).__name__} must return a "
                f"TriggerResult, not {result!r}"
            )
        keyed = self.keyed
        if result.is_fire():
            keyed.current_namespace = state_namespace
            elements = self._contents.elements(window)
            if elements is not None:
                keyed.current_namespace = namespace
                self._fire(window, elements)
                keyed.current_namespace = state_namespace
                self._contents.fired(window)
        if result.is_purge():
            keyed.current_namespace = state_namespace
            self._contents.clear()

    def _fire(self, window: Any, elements: list[Any]) -> None:
        """Call the window function; its results have the last time of the window."""
        if self._window_call.passes_through:
            self._results.extend(elements)
        else:
            self._call_for(window, elements)
        end = window.max_timestamp()
        # A window without an end gives its results the time that made it fire.
        time = self._time if end == MAX_WATERMARK_MS else end
        self._result_times.extend(repeat(time, len(self._results) - len(self._result_times)))

    def _call_for(self, window: Any, elements: list[Any]) -> None:
        try:
            results = self._window_call.results(self.keyed.current_key, window, elements)
            if results is not None:
                self._results.extend(results)
        except Exception as error:
            raise self.user_error(f"{self._method}() of {window}", error) from error

    def _clear(self, window: Any, namespace: Any, state_namespace: Any) -> None:
        """The window is over."""
        self.keyed.current_namespace = state_namespace
        self._contents.clear()
        self.keyed.current_namespace = namespace
        self._trigger.clear(window, self._triggering)
        if self._window_call.needs_clear:
            try:
                self._window_call.clear(window)
            except Exception as error:
                raise self.user_error(f"clear() of {window}", error) from error

    def _clean_up_time(self, window: Any) -> int:
        end: int = window.max_timestamp()
        return min(end + self._lateness_ms, MAX_WATERMARK_MS) if self._by_event_time else end

    def _register_clean_up(self, window: Any, namespace: Any) -> None:
        time = self._clean_up_time(window)
        if time == MAX_WATERMARK_MS:
            return
        if self._by_event_time:
            self._timers.register_event_time_timer(namespace, time)
        else:
            self._timers.register_processing_time_timer(namespace, time)

    # ------------------------------------------------------------ results

    def _clear_outputs(self) -> None:
        self._time = None
        self._results: list[Any] = []
        self._result_times: list[int | None] = []
        self._late_values: list[Any] = []
        self._late_times: list[int] = []

    def _emit_outputs(self) -> None:
        results, times = self._results, self._result_times
        late, late_times = self._late_values, self._late_times
        if not results and not late:
            return
        self._clear_outputs()
        if late:
            assert self._windowing.late_tag_id is not None, "late records are kept for a side output only"
            self.output.emit_side(self._windowing.late_tag_id, RowBatch(late, late_times))
        if results:
            emit_results(self.output, results, _timestamps(times))

    # ------------------------------------------------------------ errors

    def _adding_failed(self, error: BaseException, record: Any) -> TidegateError:
        return self.user_error("putting a record into its windows", error, record)

    def _timer_failed(self, timer: Timer, error: BaseException) -> TidegateError:
        window = self._namespaces.decode(timer.namespace)
        return self.user_error(f"the timer of {window} and key {timer.key!r}", error)

    def _without_timestamp(self, record: Any) -> TidegateError:
        return UserCodeError(
            f"operator {self.context.name_with_subtask}: the record {record!r:.200} has no timestamp, but "
            f"{self._assigner!r} goes by event time; call assign_timestamps_and_watermarks() on the stream "
            f"before its key_by() or window_all()"
        )


def _timestamps(times: list[Any]) -> list[int] | None:
    return None if None in times else times
