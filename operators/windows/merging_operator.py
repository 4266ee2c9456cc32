"""Windows that merge, such as sessions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...common.errors import TidegateError, UserCodeError
from ...common.typeinfo import TypeInformation, Types
from ..timers.timers import Timer
from .assigners import MergingWindowAssigner, WindowAssigner
from .merging import MergingWindowSet
from .operator import WindowOperator
from .triggers import TriggerResult
from .window_journal import WindowJournal
from .windows import TimeWindowSerializer


def older_journal_type(assigner: WindowAssigner[Any, Any]) -> TypeInformation | None:
    """The element type of the list in which older releases stored the open windows of an assigner."""
    if type(assigner.get_window_serializer()) is not TimeWindowSerializer:
        return None
    interval = Types.TUPLE([Types.LONG(), Types.LONG()])
    return Types.TUPLE([interval, interval])


class MergingWindowOperator(WindowOperator):
    """The same for windows that merge: a timer may find its window merged into another one."""

    merges = True
    _assigner: MergingWindowAssigner[Any, Any]

    def open(self) -> None:
        super().open()
        self._journal = WindowJournal(self.keyed, older_journal_type(self._assigner))
        decode = self._namespaces.decode
        restored: dict[Any, dict[Any, Any]] = {}
        for key, (window, state) in self._journal.take_restored():
            restored.setdefault(key, {})[decode(window)] = decode(state)
        self._open_windows = {
            key: MergingWindowSet(self._assigner, windows) for key, windows in restored.items()
        }

    def _add(self, value: Any, time: int | None) -> bool:
        is_skipped = True
        trigger, encode = self._triggering, self._namespaces.encode
        windows = self._windows()
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
        self._note(windows)
        return is_skipped

    def _on_timer(self, timer: Timer, ask: Callable[..., TriggerResult], may_clean_up: bool) -> None:
        try:
            window = self._namespaces.decode(timer.namespace)
            windows = self._windows()
            state_window = windows.state_window(window)
            if state_window is None:
                # It has become part of another window, and its trigger left this timer behind.
                self._note(windows)
                return
            state_namespace = self._namespaces.encode(state_window)
            self.keyed.current_namespace = self._triggering.namespace = timer.namespace
            self._time = timer.timestamp
            result = ask(timer.timestamp, window, self._triggering)
            self._act(result, window, timer.namespace, state_namespace)
            if may_clean_up and timer.timestamp == self._clean_up_time(window):
                self._clear(window, timer.namespace, state_namespace)
                windows.retire(window)
                self._note(windows)
        except Exception as error:
            raise self._timer_failed(timer, error) from error

    def _windows(self) -> MergingWindowSet:
        """The open windows of the current key."""
        key = self.keyed.current_key
        windows = self._open_windows.get(key)
        if windows is None:
            windows = self._open_windows[key] = MergingWindowSet(self._assigner, {})
        return windows

    def _note(self, windows: MergingWindowSet) -> None:
        """Note what changed in the open windows of the current key."""
        key, encode = self.keyed.current_key, self._namespaces.encode
        for window, state, is_new in windows.changes:
            entry = encode(window), encode(state)
            if is_new:
                self._journal.add(key, entry)
            else:
                self._journal.discard(key, entry)
        windows.changes.clear()
        if not windows.state_windows:
            del self._open_windows[key]

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
