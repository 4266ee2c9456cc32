"""Tumbling and sliding windows of a fixed size."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, TypeVar

from ...common.errors import ConfigurationError
from .assigners import EventTimeAssigner, ProcessingTimeAssigner, WindowAssigner
from .durations import TimeLength, check_whole, milliseconds
from .windows import TimeWindow

T = TypeVar("T")
_start_of = TimeWindow.get_window_start_with_offset


class _Tumbling:
    """Windows of `size` milliseconds, one after the other; they start `offset` milliseconds off the epoch."""

    def __init__(self, size: int, offset: int) -> None:
        name = type(self).__name__
        self._size = check_whole(size, f"the size of {name}")
        self._offset = check_whole(offset, f"the offset of {name}")
        if size <= 0 or abs(offset) >= size:
            raise ConfigurationError(
                f"{name} must satisfy size > 0 and abs(offset) < size; the size is {size} ms and the "
                f"offset {offset} ms"
            )

    @property
    def shape(self) -> tuple[int, int, int]:
        """Size, distance from start to start, and offset, in milliseconds."""
        return self._size, self._size, self._offset

    def _windows_at(self, timestamp: int) -> list[TimeWindow]:
        start = _start_of(timestamp, self._offset, self._size)
        return [TimeWindow(start, start + self._size)]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._size}, {self._offset})"


class _Sliding:
    """Windows of `size` milliseconds, one every `slide` milliseconds."""

    def __init__(self, size: int, slide: int, offset: int) -> None:
        name = type(self).__name__
        self._size = check_whole(size, f"the size of {name}")
        self._slide = check_whole(slide, f"the slide of {name}")
        self._offset = check_whole(offset, f"the offset of {name}")
        if size <= 0 or abs(offset) >= slide:
            raise ConfigurationError(
                f"{name} must satisfy size > 0 and abs(offset) < slide; the size is {size} ms, the slide "
                f"{slide} ms and the offset {offset} ms"
            )

    @property
    def shape(self) -> tuple[int, int, int]:
        """Size, distance from start to start, and offset, in milliseconds."""
        return self._size, self._slide, self._offset

    def _windows_at(self, timestamp: int) -> list[TimeWindow]:
        # Latest first, as in Flink. A slide beyond the size leaves gaps whose records are in no window.
        last = _start_of(timestamp, self._offset, self._slide)
        return [
            TimeWindow(start, start + self._size)
            for start in range(last, timestamp - self._size, -self._slide)
        ]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._size}, {self._slide}, {self._offset})"


class TumblingEventTimeWindows(_Tumbling, EventTimeAssigner[T]):
    """Windows of one size by event time that follow each other without overlap.

    Args:
        size: In milliseconds.
        offset: Where windows start, in milliseconds from the epoch; smaller than the size.

    Raises:
        ConfigurationError: The size is not positive, or the offset not smaller than it.
    """

    @staticmethod
    def of(size: TimeLength, offset: TimeLength | None = None) -> TumblingEventTimeWindows[Any]:
        """Windows of a size. `of(Time.days(1), Time.hours(-8))` are days of UTC+8."""
        return TumblingEventTimeWindows(*_tumbling(size, offset))

    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[TimeWindow]:
        return self._windows_at(timestamp)


class TumblingProcessingTimeWindows(_Tumbling, ProcessingTimeAssigner[T]):
    """The same by the time of the machine."""

    @staticmethod
    def of(size: TimeLength, offset: TimeLength | None = None) -> TumblingProcessingTimeWindows[Any]:
        """Windows of a size, perhaps shifted."""
        return TumblingProcessingTimeWindows(*_tumbling(size, offset))

    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[TimeWindow]:
        return self._windows_at(context.get_current_processing_time())


class SlidingEventTimeWindows(_Sliding, EventTimeAssigner[T]):
    """Windows of one size by event time that start every `slide` and so may overlap.

    Args:
        size: In milliseconds.
        slide: In milliseconds. Beyond the size there are gaps between windows; what falls there is dropped.
        offset: Where windows start, in milliseconds from the epoch; smaller than the slide.

    Raises:
        ConfigurationError: The size is not positive, or the offset not smaller than the slide.
    """

    @staticmethod
    def of(
        size: TimeLength, slide: TimeLength, offset: TimeLength | None = None
    ) -> SlidingEventTimeWindows[Any]:
        """Windows of a size, one every `slide`."""
        return SlidingEventTimeWindows(*_sliding(size, slide, offset))

    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[TimeWindow]:
        return self._windows_at(timestamp)


class SlidingProcessingTimeWindows(_Sliding, ProcessingTimeAssigner[T]):
    """The same by the time of the machine."""

    @staticmethod
    def of(
        size: TimeLength, slide: TimeLength, offset: TimeLength | None = None
    ) -> SlidingProcessingTimeWindows[Any]:
        """Windows of a size, one every `slide`."""
        return SlidingProcessingTimeWindows(*_sliding(size, slide, offset))

    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[TimeWindow]:
        return self._windows_at(context.get_current_processing_time())


def _tumbling(size: TimeLength, offset: TimeLength | None) -> tuple[int, int]:
    return (
        milliseconds(size, "the size of a window"),
        0 if offset is None else milliseconds(offset, "the offset of a window"),
    )


def _sliding(size: TimeLength, slide: TimeLength, offset: TimeLength | None) -> tuple[int, int, int]:
    size_ms, offset_ms = _tumbling(size, offset)
    return size_ms, milliseconds(slide, "the slide of a window"), offset_ms
