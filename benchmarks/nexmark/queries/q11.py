"""User sessions: how many bids a bidder makes before he pauses for ten seconds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tidegate.common import Time, Types
from tidegate.datastream import DataStream, ProcessWindowFunction
from tidegate.datastream.window import EventTimeSessionWindows, TimeWindow

from .events import bids, timed
from .q5 import Count

FOUR = Types.TUPLE([Types.LONG(), Types.LONG(), Types.LONG(), Types.LONG()])


class WithLimits(ProcessWindowFunction):
    """The key and the limits of the window beside the count."""

    def process(
        self, key: int, context: ProcessWindowFunction.Context[TimeWindow], elements: Iterable[int]
    ) -> Iterator[tuple[int, int, int, int]]:
        window = context.window()
        for count in elements:
            yield key, count, window.start, window.end


def q11(events: DataStream) -> DataStream:
    """(bidder, bids, start, end)."""
    by_bidder = timed(bids(events)).key_by(lambda event: event[2], Types.LONG())
    sessions = by_bidder.window(EventTimeSessionWindows.with_gap(Time.seconds(10)))
    return sessions.aggregate(Count(), WithLimits(), Types.LONG(), FOUR)
