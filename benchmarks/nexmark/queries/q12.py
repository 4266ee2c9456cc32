"""Windows by the clock: how many bids a bidder makes in ten seconds of processing time."""

from __future__ import annotations

from tidegate.common import Time, Types
from tidegate.datastream import DataStream
from tidegate.datastream.window import TumblingProcessingTimeWindows

from .events import bids
from .q5 import Count
from .q11 import FOUR, WithLimits


def q12(events: DataStream, size_ms: int = 10_000) -> DataStream:
    """(bidder, bids, start, end)."""
    by_bidder = bids(events).key_by(lambda event: event[2], Types.LONG())
    windows = by_bidder.window(TumblingProcessingTimeWindows.of(Time.milliseconds(size_ms)))
    return windows.aggregate(Count(), WithLimits(), Types.LONG(), FOUR)
