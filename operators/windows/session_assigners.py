"""Session windows: records of a key that follow each other within a gap."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator
from itertools import repeat
from typing import Any, TypeVar

from ...common.errors import ConfigurationError, UserCodeError
from .assigners import EventTimeAssigner, MergingWindowAssigner, ProcessingTimeAssigner, WindowAssigner
from .durations import TimeLength, check_whole, milliseconds
from .windows import TimeWindow

T = TypeVar("T")


class SessionWindowTimeGapExtractor(ABC):
    """Says of a record how long its session goes on after it."""

    @abstractmethod
    def extract(self, element: Any) -> int:
        """The gap in milliseconds, above 0."""


class _Session(MergingWindowAssigner[T, TimeWindow]):
    def merge_windows(
        self,
        windows: Iterable[TimeWindow],
        callback: MergingWindowAssigner.MergeCallback[TimeWindow],
    ) -> None:
        TimeWindow.merge_windows(windows, callback)


def merges_touching_windows(assigner: MergingWindowAssigner[Any, Any]) -> bool:
    """Whether windows of an assigner are sessions: they merge exactly when they overlap or touch."""
    return type(assigner).merge_windows is _Session.merge_windows


class _FixedGap:
    def __init__(self, session_gap: int) -> None:
        name = type(self).__name__
        self._session_gap = check_whole(session_gap, f"the gap of {name}")
        if session_gap <= 0:
            raise ConfigurationError(f"{name} must satisfy gap > 0, got {session_gap} ms")

    def gaps_of(self, elements: Iterable[Any]) -> Iterator[int]:
        """The gap of each record in milliseconds."""
        return repeat(self._session_gap)

    def _window_at(self, timestamp: int) -> list[TimeWindow]:
        return [TimeWindow(timestamp, timestamp + self._session_gap)]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._session_gap})"


class _DynamicGap:
    def __init__(self, session_window_time_gap_extractor: SessionWindowTimeGapExtractor) -> None:
        if not callable(getattr(session_window_time_gap_extractor, "extract", None)):
            raise ConfigurationError(
                f"{type(self).__name__} needs a SessionWindowTimeGapExtractor, not "
                f"{session_window_time_gap_extractor!r}"
            )
        self._extractor = session_window_time_gap_extractor

    def gaps_of(self, elements: Iterable[Any]) -> Iterator[int]:
        """The gap of each record in milliseconds."""
        return map(self._gap_of, elements)

    def _window_of(self, element: Any, timestamp: int) -> list[TimeWindow]:
        return [TimeWindow(timestamp, timestamp + self._gap_of(element))]

    def _gap_of(self, element: Any) -> int:
        gap = self._extractor.extract(element)
        if gap <= 0:
            raise UserCodeError(
                f"{type(self._extractor).__name__}.extract() must return a gap above 0 ms, got {gap!r} "
                f"for {element!r:.200}"
            )
        return gap

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._extractor})"


class EventTimeSessionWindows(_FixedGap, _Session[T], EventTimeAssigner[T]):
    """Sessions by event time; one ends when no record has come for `session_gap` milliseconds.

    Raises:
        ConfigurationError: The gap is not positive.
    """

    @staticmethod
    def with_gap(size: TimeLength) -> EventTimeSessionWindows[Any]:
        """Sessions with one gap for all records."""
        return EventTimeSessionWindows(milliseconds(size, "the gap of a session"))

    @staticmethod
    def with_dynamic_gap(extractor: SessionWindowTimeGapExtractor) -> DynamicEventTimeSessionWindows[Any]:
        """Sessions whose gap follows from each record."""
        return DynamicEventTimeSessionWindows(extractor)

    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[TimeWindow]:
        return self._window_at(timestamp)


class ProcessingTimeSessionWindows(_FixedGap, _Session[T], ProcessingTimeAssigner[T]):
    """Sessions by the time of the machine."""

    @staticmethod
    def with_gap(size: TimeLength) -> ProcessingTimeSessionWindows[Any]:
        """Sessions with one gap for all records."""
        return ProcessingTimeSessionWindows(milliseconds(size, "the gap of a session"))

    @staticmethod
    def with_dynamic_gap(
        extractor: SessionWindowTimeGapExtractor,
    ) -> DynamicProcessingTimeSessionWindows[Any]:
        """Sessions whose gap follows from each record."""
        return DynamicProcessingTimeSessionWindows(extractor)

    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[TimeWindow]:
        return self._window_at(context.get_current_processing_time())


class DynamicEventTimeSessionWindows(_DynamicGap, _Session[T], EventTimeAssigner[T]):
    """Sessions by event time whose gap follows from each record."""

    @staticmethod
    def with_dynamic_gap(extractor: SessionWindowTimeGapExtractor) -> DynamicEventTimeSessionWindows[Any]:
        """Sessions whose gap follows from each record."""
        return DynamicEventTimeSessionWindows(extractor)

    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[TimeWindow]:
        return self._window_of(element, timestamp)


class DynamicProcessingTimeSessionWindows(_DynamicGap, _Session[T], ProcessingTimeAssigner[T]):
    """Sessions by the time of the machine whose gap follows from each record."""

    @staticmethod
    def with_dynamic_gap(
        extractor: SessionWindowTimeGapExtractor,
    ) -> DynamicProcessingTimeSessionWindows[Any]:
        """Sessions whose gap follows from each record."""
        return DynamicProcessingTimeSessionWindows(extractor)

    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[TimeWindow]:
        return self._window_of(element, context.get_current_processing_time())
