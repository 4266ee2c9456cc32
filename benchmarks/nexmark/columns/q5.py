"""Hot items: the auctions with the most bids in the last ten seconds, every two seconds.

Bids are counted in columns. Of each batch of counts only the largest of a window go on, so the windows over
all auctions get few records.
"""

from __future__ import annotations

import pyarrow as pa
from tidegate.common import Time
from tidegate.datastream import Count, DataStream
from tidegate.datastream.window import SlidingEventTimeWindows, TumblingEventTimeWindows

from ..queries.q5 import PAIR, Hottest
from .events import bids, is_largest, numbers


def largest_of_batch(batch: pa.RecordBatch) -> object:
    return is_largest(numbers(batch, "num"), numbers(batch, "window_end"))


def q5(events: DataStream) -> DataStream:
    """(auction, bids)."""
    windows = SlidingEventTimeWindows.of(Time.seconds(10), Time.seconds(2))
    counts = bids(events, "auction").key_by("auction").window(windows).aggregate(num=Count())
    largest = counts.filter_batches(largest_of_batch).map(lambda row: (row[0], row[3]), PAIR)
    hottest = largest.window_all(TumblingEventTimeWindows.of(Time.seconds(2))).aggregate(Hottest())
    return hottest.flat_map(lambda pairs: pairs, PAIR)
