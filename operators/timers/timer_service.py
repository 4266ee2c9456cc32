"""The timers that a process function sees (PyFlink's `TimerService` and `TimeDomain`)."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property

from ...common.errors import StateError
from ..base import StreamOperator
from .timers import InternalTimerService


class TimeDomain(enum.Enum):
    """Which clock a timer follows."""

    EVENT_TIME = 0
    """The watermark."""
    PROCESSING_TIME = 1
    """The clock of the machine."""


class TimerService(ABC):
    """What time it is, and timers of the current key. All times are in milliseconds.

    There is one timer per key, time and domain, however often it is registered.
    """

    @abstractmethod
    def current_processing_time(self) -> int:
        """The clock of the machine: milliseconds since the epoch."""

    @abstractmethod
    def current_watermark(self) -> int:
        """The event time; -(2 ** 63) before the first watermark."""

    @abstractmethod
    def register_processing_time_timer(self, timestamp: int) -> None:
        """Call `on_timer` when the clock reaches a time; at once when that is over."""

    @abstractmethod
    def register_event_time_timer(self, timestamp: int) -> None:
        """Call `on_timer` when the watermark reaches a time; with the next watermark when that is over."""

    @abstractmethod
    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Forget a timer; nothing happens if there is none."""

    @abstractmethod
    def delete_event_time_timer(self, timestamp: int) -> None:
        """Forget a timer; nothing happens if there is none."""


class ClockOnly(TimerService):
    """The time on a stream without keys, where there are no timers.

    Args:
        operator: Whose time it is.
    """

    def __init__(self, operator: StreamOperator) -> None:
        self._operator = operator

    def current_processing_time(self) -> int:
        return self._operator.context.processing_time.now_ms()

    def current_watermark(self) -> int:
        return self._operator.current_watermark_ms

    def register_processing_time_timer(self, timestamp: int) -> None:
        raise self._refusal("registered")

    def register_event_time_timer(self, timestamp: int) -> None:
        raise self._refusal("registered")

    def delete_processing_time_timer(self, timestamp: int) -> None:
        raise self._refusal("deleted")

    def delete_event_time_timer(self, timestamp: int) -> None:
        raise self._refusal("deleted")

    def _refusal(self, what: str) -> StateError:
        return StateError(
            f"operator {self._operator.context.name_with_subtask}: a timer was {what} on a stream without "
            f"keys; timers belong to a key, so call key_by() before process()"
        )


class KeyedTimerService(ClockOnly):
    """The timers of a keyed process function, which have no namespace.

    Args:
        operator: Whose time it is.
        create: Gives the timers, when the first is registered or deleted.
    """

    def __init__(self, operator: StreamOperator, create: Callable[[], InternalTimerService]) -> None:
        super().__init__(operator)
        self._create = create

    @cached_property
    def timers(self) -> InternalTimerService:
        """The timers themselves."""
        return self._create()

    def register_processing_time_timer(self, timestamp: int) -> None:
        self.timers.register_processing_time_timer(None, timestamp)

    def register_event_time_timer(self, timestamp: int) -> None:
        self.timers.register_event_time_timer(None, timestamp)

    def delete_processing_time_timer(self, timestamp: int) -> None:
        self.timers.delete_processing_time_timer(None, timestamp)

    def delete_event_time_timer(self, timestamp: int) -> None:
        self.timers.delete_event_time_timer(None, timestamp)
