"""Timers per key and namespace, in event time and in processing time.

Source: Flink's `InternalTimerServiceImpl`. A timer is identified by its time, key and namespace, so to
register it twice is to register it once. Timers fire in the order of their times, with the state's current
key and namespace set to theirs.
"""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

from ..common.typeinfo import Types
from ..protocol.elements import MAX_WATERMARK_MS
from ..protocol.watermarks import MIN_WATERMARK_MS
from ..state.backend import KeyedStateBackend
from ..state.descriptors import MapStateDescriptor
from .base import OperatorContext
from .processing_time import ProcessingTimeService, TimerHandle

FIRED_AT_ONCE = 4_096
"""After so many timers a target hears that it should hand its results on."""


class Timer(NamedTuple):
    """One timer; `timestamp` is in milliseconds, `namespace` is `None` for timers without namespaces."""

    timestamp: int
    key: Any
    namespace: Any


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


class InternalTimerService:
    """The timers of one name in one operator; they belong to the backend's current key.

    Made by `TimerServices.create`.
    """

    def __init__(
        self,
        name: str,
        keyed: KeyedStateBackend,
        clock: ProcessingTimeService,
        target: TimerTarget,
        namespaced: bool,
    ) -> None:
        self._keyed = keyed
        self._clock = clock
        self._target = target
        self._event = _Timers(f"_timers_{name}_event", keyed, namespaced)
        self._processing = _Timers(f"_timers_{name}_processing", keyed, namespaced)
        self._watermark = MIN_WATERMARK_MS
        self._alarm: TimerHandle | None = None
        self._has_ended = False

    def current_watermark(self) -> int:
        """The event time in milliseconds; `MIN_WATERMARK_MS` before the first watermark."""
        return self._watermark

    def current_processing_time(self) -> int:
        """The time of day in milliseconds since the epoch."""
        return self._clock.now_ms()

    def register_event_time_timer(self, namespace: Any, timestamp_ms: int) -> None:
        """Fire when the watermark reaches a time; one that is over fires with the next watermark."""
        self._event.add(namespace, timestamp_ms)

    def delete_event_time_timer(self, namespace: Any, timestamp_ms: int) -> None:
        """Forget a timer; nothing happens if there is none."""
        self._event.remove(namespace, timestamp_ms)

    def register_processing_time_timer(self, namespace: Any, timestamp_ms: int) -> None:
        """Fire when the clock reaches a time; one that is over fires at the next opportunity."""
        self._processing.add(namespace, timestamp_ms)
        self._set_alarm()

    def delete_processing_time_timer(self, namespace: Any, timestamp_ms: int) -> None:
        """Forget a timer; nothing happens if there is none."""
        self._processing.remove(namespace, timestamp_ms)

    def advance_watermark(self, timestamp_ms: int) -> None:
        """Fire the event-time timers up to a time. At the end of the input no others fire any more."""
        self._watermark = timestamp_ms
        self._fire(self._event, timestamp_ms, self._target.on_event_time)
        if timestamp_ms == MAX_WATERMARK_MS:
            self._has_ended = True
            if self._alarm is not None:
                self._alarm.cancel()

    def _fire_processing_time(self) -> None:
        self._alarm = None
        self._fire(self._processing, self._clock.now_ms(), self._target.on_processing_time)
        self._set_alarm()

    def _fire(self, timers: _Timers, until_ms: int, call: Callable[[Timer], None]) -> None:
        keyed, fired = self._keyed, 0
        while (timestamp_ms := timers.first_ms) is not None and timestamp_ms <= until_ms:
            for key, namespace in timers.at(timestamp_ms):
                keyed.current_key, keyed.current_namespace = key, namespace
                if timers.remove(namespace, timestamp_ms):
                    call(Timer(timestamp_ms, key, namespace))
                    fired += 1
                    if fired % FIRED_AT_ONCE == 0:
                        self._target.timers_fired()
        keyed.current_key = keyed.current_namespace = None
        if fired % FIRED_AT_ONCE:
            self._target.timers_fired()

    def _set_alarm(self) -> None:
        first_ms, alarm = self._processing.first_ms, self._alarm
        if first_ms is None or self._has_ended:
            return
        if alarm is not None and alarm.is_pending:
            if alarm.timestamp_ms <= first_ms:
                return
            alarm.cancel()
        self._alarm = self._clock.call_at(first_ms, self._fire_processing_time)


class TimerServices:
    """All timer services of one keyed operator; to be created in `open`."""

    def __init__(self, context: OperatorContext, keyed: KeyedStateBackend) -> None:
        self._clock = context.processing_time
        self._keyed = keyed
        self._services: list[InternalTimerService] = []

    def create(self, name: str, target: TimerTarget, namespaced: bool = False) -> InternalTimerService:
        """The timers of a name; those of a restored checkpoint are there again.

        Args:
            name: Names the keyed states `_timers_<name>_event` and `_timers_<name>_processing`.
            target: What they call.
            namespaced: Whether timers also belong to a namespace, which may be any value that could be a key;
                without namespaces it is `None`.
        """
        service = InternalTimerService(name, self._keyed, self._clock, target, namespaced)
        self._services.append(service)
        return service

    def advance_watermark(self, timestamp_ms: int) -> None:
        """Fire the event-time timers up to a time; to be called in the operator's `advance_watermark`."""
        for service in self._services:
            service.advance_watermark(timestamp_ms)


class _Timers:
    """The timers of one domain: by time in memory, and as map state of their keys.

    Args:
        name: Of the state: a map from the timestamp to true, per key and namespace.
    """

    def __init__(self, name: str, keyed: KeyedStateBackend, namespaced: bool) -> None:
        self._keyed = keyed
        descriptor = MapStateDescriptor(name, Types.LONG(), Types.BOOLEAN())
        self._state = keyed.get_map_state(descriptor, namespaced)
        self._namespaced = namespaced
        self._times: list[int] = []
        self._by_time: dict[int, dict[tuple[Any, Any], None]] = {}

    @property
    def first_ms(self) -> int | None:
        """The earliest time of a timer, `None` if there is none."""
        times, by_time = self._times, self._by_time
        while times and not by_time[times[0]]:
            del by_time[heapq.heappop(times)]
        return times[0] if times else None

    def at(self, timestamp_ms: int) -> list[tuple[Any, Any]]:
        """Key and namespace of the timers of a time."""
        return list(self._by_time[timestamp_ms])

    def add(self, namespace: Any, timestamp_ms: int) -> None:
        owner = (self._keyed.current_key, namespace)
        owners = self._by_time.get(timestamp_ms)
        if owners is None:
            owners = self._by_time[timestamp_ms] = {}
            heapq.heappush(self._times, timestamp_ms)
        if owner not in owners:
            self._mark(namespace, timestamp_ms, True)
            owners[owner] = None

    def remove(self, namespace: Any, timestamp_ms: int) -> bool:
        """Forget a timer of the current key; whether there was one."""
        owner = (self._keyed.current_key, namespace)
        owners = self._by_time.get(timestamp_ms)
        if owners is None or owner not in owners:
            return False
        del owners[owner]
        self._mark(namespace, timestamp_ms, False)
        return True

    def _mark(self, namespace: Any, timestamp_ms: int, is_set: bool) -> None:
        keyed, state = self._keyed, self._state
        before = keyed.current_namespace
        if self._namespaced:
            keyed.current_namespace = namespace
        if is_set:
            state.put(timestamp_ms, True)
        else:
            state.remove(timestamp_ms)
        keyed.current_namespace = before
