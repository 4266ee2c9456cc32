"""When a file of the sink ends, and into which bucket a record goes. Names are PyFlink's."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from ...common.errors import ConfigurationError, UserCodeError
from ...protocol.elements import Batch

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class RollingPolicy:
    """When a file ends before the next barrier, which always ends it.

    Args:
        part_size: Bytes after which a file ends.
        rollover_interval: Milliseconds for which a file is open at most; `None` for any time.
        inactivity_interval: Milliseconds after which a file ends that gets no records; `None` for never.
    """

    part_size: int = 128 * MIB
    rollover_interval: int | None = None
    inactivity_interval: int | None = None

    def __post_init__(self) -> None:
        limits = (self.part_size, self.rollover_interval, self.inactivity_interval)
        if any(limit is not None and limit < 1 for limit in limits):
            raise ConfigurationError(f"{self}: sizes and intervals start at 1")

    @staticmethod
    def default_rolling_policy(
        part_size: int = 128 * MIB, rollover_interval: int = 60_000, inactivity_interval: int = 60_000
    ) -> RollingPolicy:
        """By size, age and inactivity."""
        return RollingPolicy(part_size, rollover_interval, inactivity_interval)

    @staticmethod
    def on_checkpoint_rolling_policy() -> RollingPolicy:
        """At barriers only, however big files get."""
        return RollingPolicy(part_size=1 << 62)

    @property
    def check_interval_ms(self) -> int | None:
        """How often files must be looked at; `None` if time does not matter."""
        intervals = [
            limit for limit in (self.rollover_interval, self.inactivity_interval) if limit is not None
        ]
        return max(1, min(intervals) // 2) if intervals else None

    def is_due(self, opened_ms: int, written_ms: int, now_ms: int) -> bool:
        """Whether time is up for a file that was opened and last written to at these times."""
        return (self.rollover_interval is not None and now_ms - opened_ms >= self.rollover_interval) or (
            self.inactivity_interval is not None and now_ms - written_ms >= self.inactivity_interval
        )


class BucketAssigner(ABC):
    """Says in which directory below that of the sink a record goes.

    Derive from it and write `get_bucket_id`, or use one of those that are there.
    """

    @dataclass(slots=True)
    class Context:
        """What is known about a record.

        Attributes:
            timestamp: Its event time in milliseconds, if it has one.
            current_processing_time: The time of day, in milliseconds since the epoch.
        """

        timestamp: int | None
        current_processing_time: int

    @abstractmethod
    def get_bucket_id(self, element: Any, context: Context) -> str:
        """A relative path such as `2026-11-21/shop=7`; empty for the sink's own directory."""

    def buckets(self, batch: Batch, now_ms: int) -> Sequence[str]:
        """The bucket of each record; one for all if the result has length 1."""
        times = batch.timestamps
        context = BucketAssigner.Context(None, now_ms)
        found = []
        for position, element in enumerate(batch.rows()):
            context.timestamp = None if times is None else times[position]
            found.append(self.get_bucket_id(element, context))
        return found

    @staticmethod
    def base_path_bucket_assigner() -> BucketAssigner:
        """All records in the sink's own directory."""
        return _BasePath()

    @staticmethod
    def date_time_bucket_assigner(
        format_str: str = "yyyy-MM-dd--HH", timezone_id: str | None = None
    ) -> BucketAssigner:
        """By the time of day at which a record is written, as Flink's assigner of that name.

        Args:
            format_str: A pattern of Java (`yyyy-MM-dd--HH`) or of `strftime` (`%Y-%m-%d--%H`).
            timezone_id: As `Europe/Berlin`; UTC if not given.
        """
        return _ByTime(format_str, timezone_id, is_event_time=False)

    @staticmethod
    def event_time_bucket_assigner(
        format_str: str = "yyyy-MM-dd--HH", timezone_id: str | None = None
    ) -> BucketAssigner:
        """By the event time of a record, so that it has the same bucket whenever it is written.

        Args:
            format_str: A pattern of Java (`yyyy-MM-dd--HH`) or of `strftime` (`%Y-%m-%d--%H`).
            timezone_id: As `Europe/Berlin`; UTC if not given.
        """
        return _ByTime(format_str, timezone_id, is_event_time=True)

    @staticmethod
    def of(function: Callable[[Any], str]) -> BucketAssigner:
        """By what a function gives for a record."""
        return _ByFunction(function)


class _BasePath(BucketAssigner):
    def get_bucket_id(self, element: Any, context: BucketAssigner.Context) -> str:
        return ""

    def buckets(self, batch: Batch, now_ms: int) -> Sequence[str]:
        return ("",)


class _ByFunction(BucketAssigner):
    def __init__(self, function: Callable[[Any], str]) -> None:
        self._function = function

    def get_bucket_id(self, element: Any, context: BucketAssigner.Context) -> str:
        return self._function(element)


_JAVA_LETTERS = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S"}


class _ByTime(BucketAssigner):
    def __init__(self, format_str: str, timezone_id: str | None, is_event_time: bool) -> None:
        is_java = "%" not in format_str
        self._pattern = (
            re.sub("|".join(_JAVA_LETTERS), lambda found: _JAVA_LETTERS[found[0]], format_str)
            if is_java
            else format_str
        )
        self._is_event_time = is_event_time
        try:
            self._zone: tzinfo = timezone.utc if timezone_id is None else ZoneInfo(timezone_id)
        except (ZoneInfoNotFoundError, ValueError) as error:
            raise ConfigurationError(f"there is no time zone {timezone_id!r} here") from error
        # Seconds of a time are rounded to what the pattern can tell; zones differ by whole quarters of hours.
        self._step_ms = (
            1_000 if any(sign in self._pattern for sign in ("%S", "%s", "%T", "%c", "%X")) else 60_000
        )

    def get_bucket_id(self, element: Any, context: BucketAssigner.Context) -> str:
        time_ms = context.timestamp if self._is_event_time else context.current_processing_time
        if time_ms is None:
            raise UserCodeError(
                "a bucket by event time needs records with event times, and these have none; call "
                "assign_timestamps_and_watermarks() before the sink"
            )
        return self._format(time_ms)

    def buckets(self, batch: Batch, now_ms: int) -> Sequence[str]:
        if not self._is_event_time:
            return (self._format(now_ms),)
        if batch.timestamps is None:
            return (self.get_bucket_id(None, BucketAssigner.Context(None, now_ms)),)
        step_ms = self._step_ms
        steps = [time_ms // step_ms for time_ms in batch.timestamps]
        texts = {step: self._format(step * step_ms) for step in set(steps)}
        return [texts[step] for step in steps]

    def _format(self, time_ms: int) -> str:
        return datetime.fromtimestamp(time_ms / 1_000, self._zone).strftime(self._pattern)
