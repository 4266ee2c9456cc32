"""Amounts of time and points in time (names of `pyflink.common.time`)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

__all__ = ["Duration", "Instant", "Time"]

_NANOS_PER_MILLI = 1_000_000
_MILLIS_PER_SECOND = 1_000
_MILLIS_PER_MINUTE = 60 * _MILLIS_PER_SECOND
_MILLIS_PER_HOUR = 60 * _MILLIS_PER_MINUTE
_MILLIS_PER_DAY = 24 * _MILLIS_PER_HOUR


@dataclass(frozen=True, order=True)
class Time:
    """An amount of time in whole milliseconds, as windows take it."""

    _milliseconds: int

    @staticmethod
    def milliseconds(milliseconds: int) -> Time:
        """Return that many milliseconds."""
        return Time(milliseconds)

    @staticmethod
    def seconds(seconds: int) -> Time:
        """Return that many seconds."""
        return Time(seconds * _MILLIS_PER_SECOND)

    @staticmethod
    def minutes(minutes: int) -> Time:
        """Return that many minutes."""
        return Time(minutes * _MILLIS_PER_MINUTE)

    @staticmethod
    def hours(hours: int) -> Time:
        """Return that many hours."""
        return Time(hours * _MILLIS_PER_HOUR)

    @staticmethod
    def days(days: int) -> Time:
        """Return that many days of 24 hours."""
        return Time(days * _MILLIS_PER_DAY)

    def to_milliseconds(self) -> int:
        """Return the amount in milliseconds."""
        return self._milliseconds

    def __str__(self) -> str:
        return f"{self._milliseconds} ms"

    def __repr__(self) -> str:
        return f"Time.milliseconds({self._milliseconds})"


@dataclass(frozen=True, order=True)
class Duration:
    """An amount of time with the resolution of a nanosecond, as options and strategies take it."""

    _nanos: int

    @staticmethod
    def of_days(days: int) -> Duration:
        """Return that many days of 24 hours."""
        return Duration.of_millis(days * _MILLIS_PER_DAY)

    @staticmethod
    def of_hours(hours: int) -> Duration:
        """Return that many hours."""
        return Duration.of_millis(hours * _MILLIS_PER_HOUR)

    @staticmethod
    def of_minutes(minutes: int) -> Duration:
        """Return that many minutes."""
        return Duration.of_millis(minutes * _MILLIS_PER_MINUTE)

    @staticmethod
    def of_seconds(seconds: int) -> Duration:
        """Return that many seconds."""
        return Duration.of_millis(seconds * _MILLIS_PER_SECOND)

    @staticmethod
    def of_millis(millis: int) -> Duration:
        """Return that many milliseconds."""
        return Duration(millis * _NANOS_PER_MILLI)

    @staticmethod
    def of_nanos(nanos: int) -> Duration:
        """Return that many nanoseconds."""
        return Duration(nanos)

    @staticmethod
    def of_timedelta(delta: timedelta) -> Duration:
        """Return the duration of a `datetime.timedelta`, exactly."""
        return Duration(delta // timedelta(microseconds=1) * 1_000)

    def to_millis(self) -> int:
        """Return the whole milliseconds; what is left of a millisecond is dropped."""
        return self._nanos // _NANOS_PER_MILLI

    def to_nanos(self) -> int:
        """Return the nanoseconds."""
        return self._nanos

    def __repr__(self) -> str:
        millis, rest = divmod(self._nanos, _NANOS_PER_MILLI)
        return f"Duration.of_nanos({self._nanos})" if rest else f"Duration.of_millis({millis})"


@dataclass(frozen=True, order=True, repr=False)
class Instant:
    """A point on the time line.

    Args:
        seconds: whole seconds since the epoch, 1970-01-01T00:00:00Z; negative before it.
        nanos: nanoseconds after that second, 0 to 999,999,999.
    """

    seconds: int
    nanos: int

    @staticmethod
    def of_epoch_milli(epoch_milli: int) -> Instant:
        """Return the point that many milliseconds after the epoch."""
        seconds, millis = divmod(epoch_milli, _MILLIS_PER_SECOND)
        return Instant(seconds, millis * _NANOS_PER_MILLI)

    def to_epoch_milli(self) -> int:
        """Return the milliseconds since the epoch, rounded towards the past."""
        return self.seconds * _MILLIS_PER_SECOND + self.nanos // _NANOS_PER_MILLI

    def __repr__(self) -> str:
        return f"Instant<{self.seconds}, {self.nanos}>"
