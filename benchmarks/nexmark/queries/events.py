"""Events and their times."""

from __future__ import annotations

import time
from typing import Any

from tidegate.common import Duration, WatermarkStrategy
from tidegate.common.watermark_strategy import TimestampAssigner
from tidegate.datastream import DataStream

PERSON, AUCTION, BID = 0, 1, 2
_TIME_AT = (7, 6, 6)
_MS_PER_DAY = 86_400_000

Event = tuple[Any, ...]


def persons(events: DataStream) -> DataStream:
    """(0, id, name, email address, credit card, city, state, time, extra)."""
    return events.filter(lambda event: event[0] == PERSON)


def auctions(events: DataStream) -> DataStream:
    """(1, id, item, description, initial bid, reserve, time, expires, seller, category, extra)."""
    return events.filter(lambda event: event[0] == AUCTION)


def bids(events: DataStream) -> DataStream:
    """(2, auction, bidder, price, channel, url, time, extra)."""
    return events.filter(lambda event: event[0] == BID)


class EventTime(TimestampAssigner):
    """The column of each kind that holds the time."""

    def extract_timestamp(self, value: Event, record_timestamp: int) -> int:
        return value[_TIME_AT[value[0]]]


def timed(events: DataStream) -> DataStream:
    """Events with their times; they may come four seconds late."""
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(4))
    return events.assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(EventTime()))


_days: dict[int, str] = {}


def day_of(time_ms: int) -> str:
    """The day of a time in UTC, as 2015-07-15."""
    number = time_ms // _MS_PER_DAY
    day = _days.get(number)
    if day is None:
        day = _days[number] = time.strftime("%Y-%m-%d", time.gmtime(number * 86_400))
    return day


def rank_of(price: int) -> int:
    """0 for prices below 10,000, 1 for those below a million, else 2."""
    if price < 10_000:
        return 0
    return 1 if price < 1_000_000 else 2
