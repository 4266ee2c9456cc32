"""Which event times there are: integers of milliseconds since the epoch, of 64 bits."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..common.errors import UserCodeError
from ..protocol.elements import MAX_WATERMARK_MS
from ..protocol.watermarks import MIN_WATERMARK_MS

MIN_TIMESTAMP_MS = -MAX_WATERMARK_MS
"""One above the smallest integer of 64 bits: that one is the watermark before any other."""
MAX_TIMESTAMP_MS = MAX_WATERMARK_MS - 1
"""The watermark of the end of input would make anything later late."""


def highest(timestamps: Sequence[int]) -> int:
    """The latest of some event times; those of an array without making a Python integer of each."""
    if isinstance(timestamps, array):
        return int(np.frombuffer(timestamps, np.int64).max())
    return max(timestamps)


def lowest(timestamps: Sequence[int]) -> int:
    """The earliest of some event times, likewise."""
    if isinstance(timestamps, array):
        return int(np.frombuffer(timestamps, np.int64).min())
    return min(timestamps)


def packed(timestamps: list[Any]) -> array[int] | None:
    """Event times as an array, which travels cheaper; `None` if one of them cannot be one."""
    if not set(map(type, timestamps)) <= {int}:
        return None
    try:
        times = array("q", timestamps)
    except OverflowError:
        return None
    is_right = not times or (lowest(times) >= MIN_TIMESTAMP_MS and highest(times) <= MAX_TIMESTAMP_MS)
    return times if is_right else None


def check_timestamp(timestamp_ms: Any, record: Any, where: str) -> None:
    """Raise `UserCodeError` unless this can be the event time of a record.

    Args:
        where: The operator and subtask, as `operator name (1/2)`.
    """
    if type(timestamp_ms) is int:
        if MIN_TIMESTAMP_MS <= timestamp_ms <= MAX_TIMESTAMP_MS:
            return
        advice = "it must fit into 64 bits, and be less than the last watermark"
    elif timestamp_ms is None:
        advice = "give every record an event time, or filter out those that have none before"
    else:
        advice = "it must be an int: milliseconds since the epoch"
    raise UserCodeError(
        f"{where}: the timestamp of the record {record!r:.200} is {timestamp_ms!r:.100}; {advice}"
    )


def check_watermark(timestamp_ms: Any, where: str) -> None:
    """Raise `UserCodeError` unless this can be a watermark."""
    if type(timestamp_ms) is not int or not MIN_WATERMARK_MS <= timestamp_ms <= MAX_WATERMARK_MS:
        raise UserCodeError(
            f"{where}: {timestamp_ms!r:.100} cannot be a watermark; it must be an int of milliseconds since "
            f"the epoch, of 64 bits"
        )
