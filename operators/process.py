"""What process functions are given: the context of a record, and of a timer that fires."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..state.backend import KeyedStateBackend
from .base import StreamOperator
from .functions import (
    CoProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ProcessFunction,
)
from .timers.timer_service import ClockOnly, TimeDomain, TimerService


class RecordContext(ProcessFunction.Context, CoProcessFunction.Context):
    """Of a record without a key; one object for all records of an operator, which sets `time`."""

    def __init__(self, operator: StreamOperator) -> None:
        self._timers = ClockOnly(operator)
        self.time: int | None = None

    def timer_service(self) -> TimerService:
        return self._timers

    def timestamp(self) -> int | None:
        return self.time


class KeyedRecordContext(KeyedProcessFunction.Context, KeyedCoProcessFunction.Context):
    """Of a record with a key; one object for all records of an operator, which sets `time`."""

    def __init__(self, keyed: KeyedStateBackend, timers: TimerService) -> None:
        self._keyed = keyed
        self._timers = timers
        self.time: int | None = None

    def timer_service(self) -> TimerService:
        return self._timers

    def get_current_key(self) -> Any:
        return self._keyed.current_key

    def timestamp(self) -> int | None:
        return self.time


class TimerContext(KeyedProcessFunction.OnTimerContext, KeyedCoProcessFunction.OnTimerContext):
    """Of a timer that fires; one object for all timers of an operator, which sets `time` and `domain`."""

    def __init__(self, keyed: KeyedStateBackend, timers: TimerService) -> None:
        self._keyed = keyed
        self._timers = timers
        self.time: int
        self.domain: TimeDomain

    def timer_service(self) -> TimerService:
        return self._timers

    def get_current_key(self) -> Any:
        return self._keyed.current_key

    def timestamp(self) -> int | None:
        return self.time

    def time_domain(self) -> TimeDomain:
        return self.domain


def not_iterable(produced: Any) -> TypeError | None:
    """The error for what a function returned in place of its results; `None` if it is all right."""
    if produced is None or isinstance(produced, Iterable):
        return None
    return TypeError(
        f"it returned {produced!r:.100} ({type(produced).__name__}), which is not iterable; yield the "
        f"results, return them in a list, or return None"
    )
