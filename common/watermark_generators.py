"""Who decides how far event time has come, record by record (names of Flink's `WatermarkGenerator`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

__all__ = ["BoundedOutOfOrdernessWatermarks", "WatermarkGenerator", "WatermarkOutput"]

NO_TIMESTAMP = -(1 << 63)
"""Stands for the event time of a record that has none, as in Flink."""


class WatermarkOutput(ABC):
    """Takes what a generator has to say."""

    @abstractmethod
    def emit_watermark(self, timestamp: int) -> None:
        """Declare that no record with an event time at or before this one follows.

        Args:
            timestamp: Milliseconds since the epoch. One that is not above the last one changes nothing.
        """

    @abstractmethod
    def mark_idle(self) -> None:
        """Let nobody wait for watermarks of this stream until there is a record or a watermark again."""

    @abstractmethod
    def mark_active(self) -> None:
        """Let others wait for this stream's watermarks again."""


class WatermarkGenerator(ABC):
    """Makes watermarks, when it sees records (punctuated), from time to time (periodic), or both.

    Every subtask has a copy of its own. It keeps no state over a restart.
    """

    @abstractmethod
    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        """Called for every record, before it is passed on; what is emitted here comes behind the record.

        Args:
            event: The record.
            event_timestamp: Its event time in milliseconds, `NO_TIMESTAMP` if it has none.
            output: Where a watermark goes.
        """

    @abstractmethod
    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Called every `pipeline.auto-watermark-interval`."""


class BoundedOutOfOrdernessWatermarks(WatermarkGenerator):
    """The highest event time so far, less a bound, less a millisecond.

    Args:
        max_out_of_orderness_ms: How far records may be behind the highest one, in milliseconds.
    """

    def __init__(self, max_out_of_orderness_ms: int) -> None:
        self._bound_ms = max_out_of_orderness_ms
        self._highest_ms: int | None = None

    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        if event_timestamp != NO_TIMESTAMP:
            self.on_highest(event_timestamp)

    def on_highest(self, timestamp_ms: int) -> None:
        """Some records came, of which this is the highest event time."""
        if self._highest_ms is None or timestamp_ms > self._highest_ms:
            self._highest_ms = timestamp_ms

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        watermark_ms = self.watermark_ms
        if watermark_ms is not None:
            output.emit_watermark(watermark_ms)

    @property
    def watermark_ms(self) -> int | None:
        """The watermark of now; `None` before the first record."""
        if self._highest_ms is None:
            return None
        return max(NO_TIMESTAMP, self._highest_ms - self._bound_ms - 1)
