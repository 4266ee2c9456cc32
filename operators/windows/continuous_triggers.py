"""Triggers that fire again and again, and those that compare records."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, TypeVar

from ...common.errors import ConfigurationError
from ...common.typeinfo import TypeInformation, Types
from ...state.descriptors import ReducingStateDescriptor, ValueStateDescriptor
from .durations import TimeLength, check_whole, milliseconds
from .triggers import Trigger, TriggerResult
from .windows import TimeWindow, Window

T = TypeVar("T")


class _ContinuousTrigger(Trigger[T, TimeWindow]):
    """Fires at every whole multiple of an interval, while the window lives.

    Raises:
        ConfigurationError: The interval is not positive.
    """

    def __init__(self, interval: int) -> None:
        name = type(self).__name__
        if check_whole(interval, f"the interval of {name}") <= 0:
            raise ConfigurationError(f"{name} must satisfy interval > 0, got {interval} ms")
        self.interval = interval
        self._fire_time = ReducingStateDescriptor("fire-time", min, Types.LONG())

    @abstractmethod
    def _register(self, time: int, ctx: Trigger.TriggerContext) -> None:
        """Register a timer by the clock of this trigger."""

    @abstractmethod
    def _delete(self, time: int, ctx: Trigger.TriggerContext) -> None:
        """Undo it."""

    def _start(self, now: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> None:
        """Plan the first firing, if none is planned."""
        state = ctx.get_partitioned_state(self._fire_time)
        if state.get() is None:
            self._plan(now - now % self.interval, window, ctx, state)

    def _plan(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext, state: Any) -> None:
        fire_time = min(time + self.interval, window.max_timestamp())
        state.add(fire_time)
        self._register(fire_time, ctx)

    def _on_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        state = ctx.get_partitioned_state(self._fire_time)
        if state.get() != time:
            return TriggerResult.CONTINUE
        state.clear()
        self._plan(time, window, ctx, state)
        return TriggerResult.FIRE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: TimeWindow, ctx: Trigger.OnMergeContext) -> None:
        ctx.merge_partitioned_state(self._fire_time)
        fire_time = ctx.get_partitioned_state(self._fire_time).get()
        if fire_time is not None:
            self._register(fire_time, ctx)

    def clear(self, window: TimeWindow, ctx: Trigger.TriggerContext) -> None:
        state = ctx.get_partitioned_state(self._fire_time)
        fire_time = state.get()
        if fire_time is not None:
            self._delete(fire_time, ctx)
            state.clear()


class ContinuousEventTimeTrigger(_ContinuousTrigger[T]):
    """Fires whenever the watermark passes a multiple of the interval, and at the end of the window."""

    @staticmethod
    def of(interval: TimeLength) -> ContinuousEventTimeTrigger[Any]:
        """A trigger for an interval."""
        return ContinuousEventTimeTrigger(milliseconds(interval, "the interval of a trigger"))

    def on_element(
        self, element: T, timestamp: int, window: TimeWindow, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        if window.max_timestamp() <= ctx.get_current_watermark():
            return TriggerResult.FIRE
        ctx.register_event_time_timer(window.max_timestamp())
        self._start(timestamp, window, ctx)
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        if time == window.max_timestamp():
            return TriggerResult.FIRE
        return self._on_time(time, window, ctx)

    def on_merge(self, window: TimeWindow, ctx: Trigger.OnMergeContext) -> None:
        super().on_merge(window, ctx)
        if window.max_timestamp() > ctx.get_current_watermark():
            ctx.register_event_time_timer(window.max_timestamp())

    def clear(self, window: TimeWindow, ctx: Trigger.TriggerContext) -> None:
        super().clear(window, ctx)
        ctx.delete_event_time_timer(window.max_timestamp())

    def _register(self, time: int, ctx: Trigger.TriggerContext) -> None:
        ctx.register_event_time_timer(time)

    def _delete(self, time: int, ctx: Trigger.TriggerContext) -> None:
        ctx.delete_event_time_timer(time)


class ContinuousProcessingTimeTrigger(_ContinuousTrigger[T]):
    """Fires whenever the clock of the machine passes a multiple of the interval."""

    @staticmethod
    def of(interval: TimeLength) -> ContinuousProcessingTimeTrigger[Any]:
        """A trigger for an interval."""
        return ContinuousProcessingTimeTrigger(milliseconds(interval, "the interval of a trigger"))

    def on_element(
        self, element: T, timestamp: int, window: TimeWindow, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        self._start(ctx.get_current_processing_time(), window, ctx)
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return self._on_time(time, window, ctx)

    def on_event_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def _register(self, time: int, ctx: Trigger.TriggerContext) -> None:
        ctx.register_processing_time_timer(time)

    def _delete(self, time: int, ctx: Trigger.TriggerContext) -> None:
        ctx.delete_processing_time_timer(time)


class DeltaTrigger(Trigger[T, Window]):
    """Fires for a record that differs enough from the one it last fired for.

    Args:
        threshold: It fires above this.
        delta_function: A callable of the older and the newer record that gives their distance, or an
            object with `get_delta`.
        type_info: Type of the records; without it they are pickled in state.
    """

    def __init__(
        self, threshold: float, delta_function: Any, type_info: TypeInformation | None = None
    ) -> None:
        self._threshold = threshold
        self._delta = delta_of(delta_function)
        self._last = ValueStateDescriptor("last-element", type_info)

    @staticmethod
    def of(
        threshold: float, delta_function: Any, type_info: TypeInformation | None = None
    ) -> DeltaTrigger[Any]:
        """A trigger for a threshold."""
        return DeltaTrigger(threshold, delta_function, type_info)

    def on_element(
        self, element: T, timestamp: int, window: Window, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        last = ctx.get_partitioned_state(self._last)
        before = last.value()
        if before is None:
            last.update(element)
            return TriggerResult.CONTINUE
        if self._delta(before, element) <= self._threshold:
            return TriggerResult.CONTINUE
        last.update(element)
        return TriggerResult.FIRE

    def on_processing_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_merge(self, window: Window, ctx: Trigger.OnMergeContext) -> None:
        raise NotImplementedError("DeltaTrigger cannot merge")

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        ctx.get_partitioned_state(self._last).clear()


def delta_of(delta_function: Any) -> Callable[[Any, Any], float]:
    """The callable of a delta function.

    Raises:
        ConfigurationError: It is neither callable nor has a method `get_delta`.
    """
    call: Callable[[Any, Any], float] = getattr(delta_function, "get_delta", delta_function)
    if not callable(call):
        raise ConfigurationError(
            f"a delta function must be callable or have a method get_delta(), not {delta_function!r}"
        )
    return call
