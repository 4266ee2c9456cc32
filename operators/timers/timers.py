"""Timers per key and namespace, in event time and in processing time.

Source: Flink's `InternalTimerServiceImpl`. A timer is identified by its time, key and namespace, so to
register it twice is to register it once. Timers fire in the order of their times, with the state's current
key and namespace set to theirs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from ...protocol.elements import MAX_WATERMARK_MS
from ...protocol.watermarks import MIN_WATERMARK_MS
from ...state.backend import KeyedStateBackend
from ..base import EventTimeTimers, OperatorContext
from .processing_time import TimerHandle
from .timer_queue import Due, TimerQueue

FIRED_AT_ONCE = 4_096
"""After so many timers the task sends what they gave and looks for mail and credit, before others fire."""


class Timer(NamedTuple):
    """One timer; `timestamp` is in milliseconds, `namespace` is `None` for timers without namespaces."""

    timestamp: int
    key: Any
    namespace: Any


# A third of the time of calling the class.
_timer: Callable[[tuple[int, Any, Any]], Timer] = partial(tuple.__new__, Timer)


class TimerTarget(ABC):
    """What timers call. Key and namespace are set in the keyed backend meanwhile."""

    @abstractmethod
    def on_event_time(self, timer: Timer) -> None:
        """The watermark has reached the timer."""

    @abstractmethod
    def on_processing_time(self, timer: Timer) -> None:
        """The clock has reached the timer."""

    def timers_fired(self) -> None:
        """Some timers have fired: emit what they gave."""


class BatchTimerTarget(ABC):
    """The same for a target that takes many timers at once, and sets keys and namespaces itself."""

    @abstractmethod
    def on_timers(self, due: Due, is_event_time: bool) -> None:
        """The watermark (or the clock) has reached timers.

        Args:
            due: Their owners, as in `TimerQueue`, and times, in order. What is done for one may end the
                iterator, so each has to be asked for when its turn comes.
        """

    @abstractmethod
    def timers_fired(self) -> None:
        """Some timers have fired: emit what they gave."""


class _OneByOne(BatchTimerTarget):
    """Calls a target for each timer."""

    def __init__(self, target: TimerTarget, keyed: KeyedStateBackend, namespaced: bool) -> None:
        self._target = target
        self._keyed = keyed
        self._namespaced = namespaced

    def timers_fired(self) -> None:
        self._target.timers_fired()

    def on_timers(self, due: Due, is_event_time: bool) -> None:
        keyed, is_namespaced = self._keyed, self._namespaced
        call = self._target.on_event_time if is_event_time else self._target.on_processing_time
        namespace = None
        for owner, timestamp_ms in due:
            if is_namespaced:
                owner, namespace = owner
                keyed.current_namespace = namespace
            keyed.current_key = owner
            call(_timer((timestamp_ms, owner, namespace)))


class InternalTimerService:
    """The timers of one name in one operator; they belong to the backend's current key.

    Made by `TimerServices.create`.
    """

    def __init__(
        self,
        name: str,
        context: OperatorContext,
        keyed: KeyedStateBackend,
        target: TimerTarget | BatchTimerTarget,
        namespaced: bool,
        watermark: int,
    ) -> None:
        self._keyed = keyed
        self._clock = context.processing_time
        self._is_batch = context.is_batch
        self._target = (
            target if isinstance(target, BatchTimerTarget) else _OneByOne(target, keyed, namespaced)
        )
        where = f"operator {context.name_with_subtask}"
        self._event = TimerQueue(f"_timers_{name}_event", where, keyed, namespaced)
        self._processing = TimerQueue(f"_timers_{name}_processing", where, keyed, namespaced)
        self._watermark = watermark
        self._alarm: TimerHandle | None = None
        self._has_ended = watermark == MAX_WATERMARK_MS
        self._set_alarm()

    @property
    def count(self) -> int:
        """How many timers are registered."""
        return self._event.count + self._processing.count

    def current_watermark(self) -> int:
        """The event time in milliseconds; `MIN_WATERMARK_MS` before the first watermark."""
        return self._watermark

    def current_processing_time(self) -> int:
        """The time of day in milliseconds since the epoch."""
        return self._clock.now_ms()

    def register_event_time_timer(self, namespace: Any, timestamp_ms: int) -> None:
        """Fire when the watermark reaches a time; one that is over fires with the next watermark."""
        self._event.add(namespace, timestamp_ms)

    def register_event_time_timers(self, keys: Sequence[Any], namespace: Any, timestamp_ms: int) -> None:
        """The same for some keys, one after the other, instead of the current one."""
        self._event.add_all(keys, namespace, timestamp_ms)

    def delete_event_time_timer(self, namespace: Any, timestamp_ms: int) -> None:
        """Forget a timer; nothing happens if there is none."""
        self._event.remove(namespace, timestamp_ms)

    def register_processing_time_timer(self, namespace: Any, timestamp_ms: int) -> None:
        """Fire when the clock reaches a time; one that is over fires at the next opportunity."""
        self._processing.add(namespace, timestamp_ms)
        if self._alarm is None or timestamp_ms < self._alarm.timestamp_ms:
            self._set_alarm()

    def delete_processing_time_timer(self, namespace: Any, timestamp_ms: int) -> None:
        """Forget a timer; nothing happens if there is none."""
        self._processing.remove(namespace, timestamp_ms)

    def advance_watermark(self, timestamp_ms: int) -> bool:
        """Fire some of the event-time timers up to a time; whether none is left, else call this again.

        At the end of the input no others fire any more; in batch mode those of processing time fire first, as
        in Flink, since no time will be left for them.
        """
        self._watermark = timestamp_ms
        if not self._fire(self._event, timestamp_ms):
            return False
        if timestamp_ms == MAX_WATERMARK_MS:
            if self._is_batch and not self._fire(self._processing, MAX_WATERMARK_MS):
                return False
            self._has_ended = True
            if self._alarm is not None:
                self._alarm.cancel()
        return True

    def _fire_processing_time(self) -> None:
        self._alarm = None
        self._fire(self._processing, self._clock.now_ms())
        self._set_alarm()

    def _fire(self, timers: TimerQueue, until_ms: int) -> bool:
        """Fire timers up to a time, but no more than some at once; whether these were all.

        What they give has to be sent before others are asked for theirs.
        """
        keyed, is_event_time = self._keyed, timers is self._event
        left = FIRED_AT_ONCE
        keyed.current_namespace = None
        while left > 0:
            due = timers.take(until_ms, left)
            if due is None:
                break
            self._target.on_timers(due, is_event_time)
            left -= timers.fired()
        keyed.current_key = keyed.current_namespace = None
        if left < FIRED_AT_ONCE:
            self._target.timers_fired()
        return left > 0

    def _set_alarm(self) -> None:
        first_ms, alarm = self._processing.first_ms, self._alarm
        if first_ms is None or self._has_ended:
            return
        if alarm is not None and alarm.is_pending:
            if alarm.timestamp_ms <= first_ms:
                return
            alarm.cancel()
        self._alarm = self._clock.call_at(first_ms, self._fire_processing_time)


class TimerServices(EventTimeTimers):
    """All timer services of one keyed operator; to be made in `open`, as its `timer_services`."""

    def __init__(self, context: OperatorContext, keyed: KeyedStateBackend) -> None:
        self._context = context
        self._keyed = keyed
        self._watermark = MIN_WATERMARK_MS
        self._services: list[InternalTimerService] = []
        self._behind: list[InternalTimerService] = []

    def create(
        self, name: str, target: TimerTarget | BatchTimerTarget, namespaced: bool = False
    ) -> InternalTimerService:
        """The timers of a name; those of a restored checkpoint are there again.

        Args:
            name: Names the keyed states `_timers_<name>_event` and `_timers_<name>_processing`.
            target: What they call.
            namespaced: Whether timers also belong to a namespace, which may be any value that could be a key;
                without namespaces it is `None`.
        """
        service = InternalTimerService(name, self._context, self._keyed, target, namespaced, self._watermark)
        self._services.append(service)
        return service

    @property
    def is_behind(self) -> bool:
        return bool(self._behind)

    @property
    def count(self) -> int:
        return sum(service.count for service in self._services)

    def advance_watermark(self, timestamp_ms: int) -> None:
        self._watermark = timestamp_ms
        self._behind = list(reversed(self._services))
        self.advance_further()

    def advance_further(self) -> None:
        while self._behind and self._behind[-1].advance_watermark(self._watermark):
            self._behind.pop()
