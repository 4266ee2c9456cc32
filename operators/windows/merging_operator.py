"""Windows that merge, such as sessions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...common.errors import TidegateError, UserCodeError
from ...common.typeinfo import TypeInformation, Types
from ...state.descriptors import ListStateDescriptor
from ..keyed import Selector
from ..timers import Timer
from .assigners import MergingWindowAssigner
from .merging import MergingWindowSet
from .operator import Windowing, WindowOperator
from .triggers import TriggerResult
from .windows import TimeWindowSerializer

_STATE_NAME = "_merging_windows"


class MergingWindowOperator(WindowOperator):
    """The same for windows that merge: a window may be part of another one when its turn comes."""

    merges = True
    _assigner: MergingWindowAssigner[Any, Any]

    def __init__(
        self, windowing: Windowing, key_selector: Selector, key_type: TypeInformation | None = None
    ) -> None:
        super().__init__(windowing, key_selector, key_type)
        is_time = type(windowing.assigner.get_window_serializer()) is TimeWindowSerializer
        interval = Types.TUPLE([Types.LONG(), Types.LONG()])
        self._pair_type = Types.TUPLE([interval, interval]) if is_time else None

    def open(self) -> None:
        super().open()
        # Pairs of the namespaces of a window and of its state window.
        self._windows = self.keyed.get_list_state(ListStateDescriptor(_STATE_NAME, self._pair_type))

    def _add(self, value: Any, time: int | None) -> bool:
        is_skipped = True
        trigger, encode = self._triggering, self._namespaces.encode
        windows = self._load()
        for assigned in self._assigner.assign_windows(value, time, self._assigning):  # type: ignore[arg-type]
            window = windows.add(assigned, self._merge)
            if self._by_event_time and self._is_over(window):
                windows.retire(window)
                continue
            is_skipped = False
            namespace, state_namespace = encode(window), encode(windows.state_window(window))
            self.keyed.current_namespace = state_namespace
            self._contents.add(value, time)
            self.keyed.current_namespace = trigger.namespace = namespace
            result = self._trigger.on_element(value, time, window, trigger)  # type: ignore[arg-type]
            self._act(result, window, namespace, state_namespace)
            self._register_clean_up(window, namespace)
        self._store(windows)
        return is_skipped

    def _on_timer(self, timer: Timer, ask: Callable[..., TriggerResult], may_clean_up: bool) -> None:
        try:
            window = self._namespaces.decode(timer.namespace)
            windows = self._load()
            state_window = windows.state_window(window)
            if state_window is None:
                # It has become part of another window, and its trigger left this timer behind.
                return
            state_namespace = self._namespaces.encode(state_window)
            self.keyed.current_namespace = self._triggering.namespace = timer.namespace
            self._time = timer.timestamp
            result = ask(timer.timestamp, window, self._triggering)
            self._act(result, window, timer.namespace, state_namespace)
            if may_clean_up and timer.timestamp == self._clean_up_time(window):
                self._clear(window, timer.namespace, state_namespace)
                windows.retire(window)
                self._store(windows)
        except Exception as error:
            raise self._timer_failed(timer, error) from error

    def _load(self) -> MergingWindowSet:
        decode = self._namespaces.decode
        pairs = self._windows.get()
        return MergingWindowSet(self._assigner, {decode(window): decode(state) for window, state in pairs})

    def _store(self, windows: MergingWindowSet) -> None:
        if windows.is_changed:
            encode = self._namespaces.encode
            self._windows.update(
                [(encode(window), encode(state)) for window, state in windows.state_windows.items()]
            )

    def _merge(self, result: Any, merged: list[Any], state_window: Any, merged_states: list[Any]) -> None:
        self._check_end(result)
        encode, trigger = self._namespaces.encode, self._triggering
        namespaces = [encode(window) for window in merged]
        self.keyed.current_namespace = trigger.namespace = encode(result)
        trigger.merged = namespaces
        self._trigger.on_merge(result, trigger)
        for window, namespace in zip(merged, namespaces, strict=True):
            if window == result:
                continue
            self.keyed.current_namespace = trigger.namespace = namespace
            self._trigger.clear(window, trigger)
            self._delete_clean_up(window, namespace)
        self._contents.merge(encode(state_window), map(encode, merged_states))

    def _check_end(self, window: Any) -> None:
        if self._by_event_time:
            if self._is_over(window):
                raise self._ended(window, f"the watermark {self._timers.current_watermark()}")
        elif window.max_timestamp() <= self._timers.current_processing_time():
            raise self._ended(window, f"the time {self._timers.current_processing_time()}")

    def _delete_clean_up(self, window: Any, namespace: Any) -> None:
        time = self._clean_up_time(window)
        if self._by_event_time:
            self._timers.delete_event_time_timer(namespace, time)
        else:
            self._timers.delete_processing_time_timer(namespace, time)

    def _ended(self, window: Any, before: str) -> TidegateError:
        return UserCodeError(
            f"operator {self.context.name_with_subtask}: {self._assigner!r} merged windows into {window}, "
            f"which ended before {before}; merging must not make windows end earlier"
        )
