"""Evictors: which records a window leaves out when it fires (Flink's names; PyFlink has none)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ...common.errors import ConfigurationError
from .continuous_triggers import delta_of
from .durations import TimeLength, check_whole, milliseconds

T = TypeVar("T")
W = TypeVar("W")


@dataclass(frozen=True, slots=True)
class TimestampedValue(Generic[T]):
    """A record of a window.

    Attributes:
        timestamp: Its event time in milliseconds, `None` if it has none.
    """

    value: T
    timestamp: int | None

    def get_value(self) -> T:
        """The record."""
        return self.value

    def has_timestamp(self) -> bool:
        """Whether it has an event time."""
        return self.timestamp is not None

    def get_timestamp(self) -> int | None:
        """Its event time in milliseconds, `None` if it has none."""
        return self.timestamp


class Evictor(ABC, Generic[T, W]):
    """Removes records from a window before or after its function is called."""

    class EvictorContext(ABC):
        """What an evictor may ask for."""

        @abstractmethod
        def get_current_processing_time(self) -> int:
            """The time of the machine, in milliseconds since the epoch."""

        @abstractmethod
        def get_current_watermark(self) -> int:
            """The event time of the operator, in milliseconds."""

    @abstractmethod
    def evict_before(
        self, elements: list[TimestampedValue[T]], size: int, window: W, ctx: Evictor.EvictorContext
    ) -> None:
        """Remove records before the window function is called.

        Args:
            elements: The records of the window in the order they came; remove from this list.
            size: How many there are.
        """

    @abstractmethod
    def evict_after(
        self, elements: list[TimestampedValue[T]], size: int, window: W, ctx: Evictor.EvictorContext
    ) -> None:
        """Remove records after it was called; what is left is there when the window fires again."""


class _OneSidedEvictor(Evictor[T, W]):
    """Evicts the same way either before or after the function."""

    def __init__(self, do_evict_after: bool) -> None:
        self._do_evict_after = do_evict_after

    def evict_before(
        self, elements: list[TimestampedValue[T]], size: int, window: W, ctx: Evictor.EvictorContext
    ) -> None:
        if not self._do_evict_after:
            self._evict(elements)

    def evict_after(
        self, elements: list[TimestampedValue[T]], size: int, window: W, ctx: Evictor.EvictorContext
    ) -> None:
        if self._do_evict_after:
            self._evict(elements)

    @abstractmethod
    def _evict(self, elements: list[TimestampedValue[T]]) -> None:
        """Remove records from the list, which is not empty."""


class CountEvictor(_OneSidedEvictor[T, W]):
    """Keeps the `max_count` records that came last."""

    def __init__(self, max_count: int, do_evict_after: bool = False) -> None:
        super().__init__(do_evict_after)
        if check_whole(max_count, "the count of CountEvictor") < 0:
            raise ConfigurationError(f"CountEvictor cannot keep {max_count} records")
        self._max_count = max_count

    @staticmethod
    def of(max_count: int, do_evict_after: bool = False) -> CountEvictor[Any, Any]:
        """An evictor for a number of records."""
        return CountEvictor(max_count, do_evict_after)

    def _evict(self, elements: list[TimestampedValue[T]]) -> None:
        del elements[: max(0, len(elements) - self._max_count)]


class TimeEvictor(_OneSidedEvictor[T, W]):
    """Keeps the records that are less than `window_size` milliseconds older than the newest."""

    def __init__(self, window_size: int, do_evict_after: bool = False) -> None:
        super().__init__(do_evict_after)
        self._window_size = check_whole(window_size, "the size of TimeEvictor")

    @staticmethod
    def of(window_size: TimeLength, do_evict_after: bool = False) -> TimeEvictor[Any, Any]:
        """An evictor for a length of time."""
        return TimeEvictor(milliseconds(window_size, "the size of TimeEvictor"), do_evict_after)

    def _evict(self, elements: list[TimestampedValue[T]]) -> None:
        times = [element.timestamp for element in elements if element.timestamp is not None]
        if len(times) == len(elements) and times:
            cut_off = max(times) - self._window_size
            elements[:] = [each for each, time in zip(elements, times, strict=True) if time > cut_off]


class DeltaEvictor(_OneSidedEvictor[T, W]):
    """Keeps the records whose distance to the newest is below a threshold.

    Args:
        delta_function: A callable of a record and the newest one that gives their distance, or an object
            with `get_delta`.
    """

    def __init__(self, threshold: float, delta_function: Any, do_evict_after: bool = False) -> None:
        super().__init__(do_evict_after)
        self._threshold = threshold
        self._delta = delta_of(delta_function)

    @staticmethod
    def of(threshold: float, delta_function: Any, do_evict_after: bool = False) -> DeltaEvictor[Any, Any]:
        """An evictor for a threshold."""
        return DeltaEvictor(threshold, delta_function, do_evict_after)

    def _evict(self, elements: list[TimestampedValue[T]]) -> None:
        if elements:
            newest = elements[-1].value
            elements[:] = [e for e in elements if self._delta(e.value, newest) < self._threshold]
