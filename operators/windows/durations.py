"""Lengths of time as windows take them."""

from __future__ import annotations

from datetime import timedelta

from ...common.errors import ConfigurationError
from ...common.time import Duration, Time

TimeLength = Time | Duration | timedelta


def milliseconds(length: TimeLength, what: str) -> int:
    """A length of time in milliseconds.

    Args:
        what: What it is the length of, for the error.

    Raises:
        ConfigurationError: It is no length of time.
    """
    if isinstance(length, Time):
        return length.to_milliseconds()
    if isinstance(length, Duration):
        return length.to_millis()
    if isinstance(length, timedelta):
        return length // timedelta(milliseconds=1)
    raise ConfigurationError(
        f"{what} must be a Time, such as Time.seconds(10), a Duration or a timedelta, not {length!r}"
    )


def check_whole(number: object, what: str) -> int:
    """The number itself if it is a whole one.

    Raises:
        ConfigurationError: It is not.
    """
    if not isinstance(number, int) or isinstance(number, bool):
        raise ConfigurationError(f"{what} must be a whole number, not {number!r}")
    return number
