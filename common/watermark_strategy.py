"""How a stream tells the progress of event time (names of `pyflink.common.watermark_strategy`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any

from .absent_names import refusal
from .errors import ConfigurationError
from .time import Duration
from .watermark_generators import (
    BoundedOutOfOrdernessWatermarks,
    WatermarkGenerator,
    WatermarkOutput,
)

__all__ = ["TimestampAssigner", "WatermarkGenerator", "WatermarkOutput", "WatermarkStrategy"]

__getattr__ = refusal(__name__)


class TimestampAssigner(ABC):
    """Says when a record happened."""

    @abstractmethod
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        """The event time of a record, in milliseconds since the epoch.

        Args:
            value: The record.
            record_timestamp: The event time it has from before; the lowest integer of 64 bits if it has none.
        """


@dataclass(frozen=True)
class WatermarkAlignment:
    """Sources of one group wait for each other.

    Attributes:
        group: Its name.
        max_drift_ms: How far one may be ahead of the slowest.
        update_interval_ms: How often they learn how far they may go.
    """

    group: str
    max_drift_ms: int
    update_interval_ms: int


@dataclass(frozen=True)
class WatermarkStrategy:
    """Declares how event times and watermarks come into a stream. Obtain one from the static methods.

    Attributes:
        generator: Makes the watermarks; `None` for none.
        timestamp_assigner: Gives records their event times; `None` leaves them as they are.
        idle_timeout_ms: After how long without records the stream counts as idle; `None` for never.
        alignment: The group of sources that wait for each other, `None` for no group.
    """

    generator: WatermarkGenerator | None = None
    timestamp_assigner: TimestampAssigner | None = None
    idle_timeout_ms: int | None = None
    alignment: WatermarkAlignment | None = None

    @staticmethod
    def no_watermarks() -> WatermarkStrategy:
        """Return the strategy of a stream without event time: it never emits a watermark."""
        return WatermarkStrategy()

    @staticmethod
    def for_monotonous_timestamps() -> WatermarkStrategy:
        """Return the strategy of a stream whose event times never fall in any subtask."""
        return WatermarkStrategy(BoundedOutOfOrdernessWatermarks(0))

    @staticmethod
    def for_bounded_out_of_orderness(max_out_of_orderness: Duration) -> WatermarkStrategy:
        """Return the strategy of a stream whose records may come late, but only by so much."""
        bound_ms = _milliseconds(max_out_of_orderness, "max_out_of_orderness", least_ms=0)
        return WatermarkStrategy(BoundedOutOfOrdernessWatermarks(bound_ms))

    @staticmethod
    def for_generator(generator: WatermarkGenerator) -> WatermarkStrategy:
        """Return the strategy of a generator of your own (picklable; every subtask gets a copy)."""
        if not isinstance(generator, WatermarkGenerator):
            raise ConfigurationError(
                f"for_generator() takes a WatermarkGenerator, not {generator!r:.100}; pass an instance"
            )
        return WatermarkStrategy(generator)

    def with_timestamp_assigner(self, timestamp_assigner: TimestampAssigner) -> WatermarkStrategy:
        """Return the same strategy, with event times from an assigner."""
        if not isinstance(timestamp_assigner, TimestampAssigner):
            raise ConfigurationError(
                f"with_timestamp_assigner() takes a TimestampAssigner, not {timestamp_assigner!r:.100}; "
                f"derive it from tidegate.common.watermark_strategy.TimestampAssigner and pass an instance"
            )
        return replace(self, timestamp_assigner=timestamp_assigner)

    def with_idleness(self, idle_timeout: Duration) -> WatermarkStrategy:
        """Return the same strategy, under which a subtask without records for so long holds nobody back."""
        return replace(self, idle_timeout_ms=_milliseconds(idle_timeout, "idle_timeout", least_ms=1))

    def with_watermark_alignment(
        self,
        watermark_group: str,
        max_allowed_watermark_drift: Duration,
        update_interval: Duration | None = None,
    ) -> WatermarkStrategy:
        """Return the same strategy, under which the sources of a group wait for each other.

        Args:
            watermark_group: Name of the group, in this job.
            max_allowed_watermark_drift: How far a source may be ahead of the slowest in the group.
            update_interval: How often sources learn how far they may go; a second if omitted.
        """
        drift_ms = _milliseconds(max_allowed_watermark_drift, "max_allowed_watermark_drift", least_ms=0)
        interval = Duration.of_seconds(1) if update_interval is None else update_interval
        interval_ms = _milliseconds(interval, "update_interval", least_ms=1)
        return replace(self, alignment=WatermarkAlignment(watermark_group, drift_ms, interval_ms))


def _milliseconds(duration: Duration, name: str, least_ms: int) -> int:
    if not isinstance(duration, Duration):
        raise ConfigurationError(
            f"{name} takes a Duration, not {duration!r:.100}; write Duration.of_millis(...), for example"
        )
    if duration.to_millis() < least_ms:
        raise ConfigurationError(f"{name} is {duration.to_millis()} ms; it must be at least {least_ms} ms")
    return duration.to_millis()
